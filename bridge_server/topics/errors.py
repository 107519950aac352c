"""The failures of subscribing to a topic."""

from bridge_server.kernel.errors import ConflictError


class TooManyWebhooksError(ConflictError):
    """The topic has as many webhooks as it may have."""

    code = "too-many-webhooks"
    title = "Too many webhooks"

    def __init__(self, limit: int) -> None:
        super().__init__(f"The topic has {limit} webhooks already, and may have no more.")
