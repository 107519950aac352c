"""The pages of sent notifications, and of an account: why it did not get a notification."""
