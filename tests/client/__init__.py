"""The client, against real servers: bridges, bridges that fail, and the published clients."""
