"""The pages of notifications that were sent, and of one account: why it did not get one."""
