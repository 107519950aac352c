"""The page of clients: the heaviest addresses, and the token buckets of one address."""
