"""What deploy/ has, and what scripts/build makes."""
