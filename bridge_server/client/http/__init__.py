"""Generation 0.7 and the plain bridge: sessions that are polled over HTTP (docs/protocol.md, B)."""
