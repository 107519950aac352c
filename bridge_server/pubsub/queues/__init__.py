"""Messages that wait, of any generation: their limits, the sockets they are sent to, webhooks of topics."""
