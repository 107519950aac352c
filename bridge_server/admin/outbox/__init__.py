"""Messages of the outbox: listed, sent again at once, dropped by the operator."""
