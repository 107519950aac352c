"""Projects, their types, secrets, limits, webhooks and subscribers, managed by the operator."""
