"""What would be signed, in words for whoever approves it."""
