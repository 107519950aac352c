"""A request and its answer, as the record of requests shows them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

LARGEST_BODY_BYTES = 16 * 1024
"""The longest part of a body that is kept."""

CLIENT_LEFT = 499
"""The status of a request whose client left before the answer."""
FIRST_FAILURE = 400

_LONG_ID = re.compile(r"[0-9A-Za-z%_-]{17,}", re.ASCII)
_ID_CHARACTERS = 8
_SECRETS = frozenset({"authorization", "cookie"})


@dataclass(frozen=True, slots=True)
class Contents:
    """Headers, and the first bytes of a body, which has `body_bytes` in all."""

    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    body_bytes: int = 0


@dataclass(slots=True)
class Exchange:
    """A request and its answer. `who` is the side that sent it, such as `dapp`, or `bridge` for this server.

    `status` is 499 when the client left before the answer, and 0 when a receiver gave none, or none yet.
    `waited_seconds` is how long a long poll was held; `gist` says in a few words what the request is about.
    `about` holds ids of sessions and calls that the path does not name: it is searched, and never shown.
    """

    who: str
    method: str
    path: str
    route: str
    status: int
    milliseconds: float
    waited_seconds: float = 0.0
    gist: str = ""
    request: Contents | None = None
    answer: Contents | None = None
    about: bytes = b""

    @property
    def is_error(self) -> bool:
        """Whether the request failed, or had no answer."""
        return self.status == 0 or self.status >= FIRST_FAILURE


@dataclass(slots=True)
class Recorded:
    """An exchange in the record. Numbers and changes are counted together, from 1 on.

    A long poll has its number from the moment at which it began to wait; `change` grows when it is answered.
    """

    number: int
    change: int
    at_ms: int
    exchange: Exchange
    is_waiting: bool = False


def contents(headers: Mapping[str, str], body: bytes) -> Contents:
    """The headers without secrets, and the first 16 KiB of the body."""
    shown = {str(name): "…" if name.lower() in _SECRETS else value for name, value in headers.items()}
    return Contents(shown, body[:LARGEST_BODY_BYTES], len(body))


def with_short_ids(path: str) -> str:
    """The path with the first characters of each long id."""
    return _LONG_ID.sub(lambda found: f"{found[0][:_ID_CHARACTERS]}…", path)
