"""`bridge-server notify`."""
