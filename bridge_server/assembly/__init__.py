"""The composition root: settings become stores, services and routes, for the server and for commands."""
