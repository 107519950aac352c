"""How the bridge is spoken to: one set of rules, and an envelope for each kind of client."""

from collections.abc import Callable
from dataclasses import dataclass

from bridge_server.kernel.errors import BridgeError
from bridge_server.relay import wire
from bridge_server.relay.models import Found, OpenedSession


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """Where a kind of client finds the bridge, and how it reads what the bridge says."""

    path: str
    """What stands before the protocol's paths."""
    route_prefix: str
    """What stands before the routes' names, in the log and in the metrics."""
    opened: Callable[[OpenedSession], bytes]
    """The answer to POST /session/new."""
    payload: Callable[[Found], bytes]
    """The answer to a read that found a payload."""
    calls_envelope: tuple[bytes, bytes] | None
    """What stands before and after the contract's own answer to a read of calls."""
    forgiven: tuple[type[BridgeError], ...]
    """What is no error to read a session at, nor to end it: it reads as one that has nothing yet."""


PLAIN = Dialect(
    path="",
    route_prefix="",
    opened=wire.write_opened,
    payload=lambda found: found.body,
    calls_envelope=None,
    forgiven=(),
)
"""The protocol's own (docs/protocol.md, B)."""
