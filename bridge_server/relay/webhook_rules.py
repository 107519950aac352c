"""The rule for webhooks that clients register by the listener for phones: they must be public."""

from collections.abc import Callable
from typing import TypeAlias

from bridge_server.kernel.errors import Fault, InvalidInputError
from bridge_server.outbox.public_urls import marked_public, private_address

WebhookRule: TypeAlias = Callable[[str, str], str]
"""Gets a webhook and the pointer to its member; returns the URL that is stored. Raises InvalidInputError."""


def public_webhook(webhook: str, pointer: str) -> str:
    """The webhook with the mark that keeps its messages from private addresses. Raises InvalidInputError."""
    reason = private_address(webhook)
    if reason is not None:
        fault = Fault(
            pointer, f"must lead to a public address, for this listener is open to others: {reason}"
        )
        raise InvalidInputError(
            "The webhook is private: register it on the server's own machine, by the loopback address.",
            [fault],
        )
    return marked_public(webhook)
