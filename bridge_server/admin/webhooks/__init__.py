"""A test of a webhook, at once and without the outbox."""
