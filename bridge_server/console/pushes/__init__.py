"""The page of pushes to devices."""
