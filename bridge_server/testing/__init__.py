"""Local push services that behave like the real ones, for tests. The server does not import them."""
