"""The data to sign, in words for the person who approves it."""
