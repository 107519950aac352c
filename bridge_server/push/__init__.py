"""C, the push server: clients register a device; a topic's message becomes a real push."""
