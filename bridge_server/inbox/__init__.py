"""A's other side: an account signs in with its wallet, chooses what it receives, and reads it."""
