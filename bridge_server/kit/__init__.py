"""For other programs: the client library, the headless wallet, the pytest fixtures. No room imports it."""
