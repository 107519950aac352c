"""The pages of the outbox: webhooks, and pushes to devices."""
