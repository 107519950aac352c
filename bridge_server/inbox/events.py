"""The events of inboxes."""

from dataclasses import dataclass

from bridge_server.kernel.events import DomainEvent


@dataclass(frozen=True, slots=True)
class SignedOut(DomainEvent):
    """The token of this digest (SHA-256 in hexadecimal digits) is valid no longer."""

    digest: str


@dataclass(frozen=True, slots=True)
class MarkedRead(DomainEvent):
    """Notifications in the inbox of this account, which is given by its number, are marked as read."""

    account: int
