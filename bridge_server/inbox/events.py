"""The event of signing out."""

from dataclasses import dataclass

from bridge_server.kernel.events import DomainEvent


@dataclass(frozen=True, slots=True)
class SignedOut(DomainEvent):
    """The token of this digest (SHA-256 in hexadecimal digits) is valid no longer."""

    digest: str
