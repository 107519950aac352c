"""The page of read rates by type and day."""
