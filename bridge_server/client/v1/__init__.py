"""Generation 1.x: topics over a WebSocket, one key for the whole session (docs/clients.md)."""
