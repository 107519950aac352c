"""The page of the settings, and of the server's readiness."""
