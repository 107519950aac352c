"""Dialects of the bridge's protocol: one set of rules, and an envelope for each kind of client."""

from collections.abc import Callable
from dataclasses import dataclass

from bridge_server.kernel.errors import BridgeError
from bridge_server.relay import wire
from bridge_server.relay.models import Found, OpenedSession


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The paths and the spelling of the bridge for one kind of client."""

    path: str
    """The prefix of the protocol's paths."""
    route_prefix: str
    """The prefix of the routes' names, in the log and in the metrics."""
    opened: Callable[[OpenedSession], bytes]
    """The answer to POST /session/new."""
    payload: Callable[[Found], bytes]
    """The answer to a read that found a payload."""
    calls_envelope: tuple[bytes, bytes] | None
    """The text before and after the protocol's own answer to a read of calls."""
    forgiven: tuple[type[BridgeError], ...]
    """The errors that are no failure of reading or ending a session: it reads as one without a payload."""


PLAIN = Dialect(
    path="",
    route_prefix="",
    opened=wire.write_opened,
    payload=lambda found: found.body,
    calls_envelope=None,
    forgiven=(),
)
"""The protocol's own spelling (docs/protocol.md, B)."""
