"""The page of clients: the heaviest addresses, and what is left in the token buckets of one."""
