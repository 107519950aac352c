"""`bridge-server dev` and `demo`: a server for development, which everybody on this machine may control."""
