"""The page of projects."""
