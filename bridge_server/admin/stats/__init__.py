"""The figures of the server at a glance."""
