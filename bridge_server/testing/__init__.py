"""Push services on this machine that behave like the real ones, for tests. The server itself needs none."""
