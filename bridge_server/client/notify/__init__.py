"""The backend's side of the notification service (docs/protocol.md, A)."""
