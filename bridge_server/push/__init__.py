"""C, the push server: a client registers a device for a topic, and a message on the topic becomes a push."""
