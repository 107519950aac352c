"""The page of traffic: the last requests, live, and one request with everything that is kept of it."""
