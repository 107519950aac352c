"""The settings that hold now, and whether the server is ready."""
