"""The page of traffic: the last requests, live, and one of them with everything that is kept of it."""
