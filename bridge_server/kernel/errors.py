"""The kinds of failure. A room subclasses a kind for each failure it can name.

A kind has a stable `code` and knows nothing of HTTP or JSON-RPC: each protocol maps the kinds in one table.
"""

from collections.abc import Sequence
from typing import ClassVar

from bridge_server.kernel.values import dataclass


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing wrong in an input: where (a JSON Pointer fragment such as `#/push/webhook`), and what."""

    pointer: str
    detail: str


class BridgeError(Exception):
    """A failure that is shown to the caller. `detail` names the fault and the remedy."""

    code: ClassVar[str] = "error"
    title: ClassVar[str] = "Error"
    detail: str = ""
    """A class whose failures have one detail has it here."""

    def __init__(self, detail: str = "") -> None:
        if detail:
            self.detail = detail
        super().__init__(self.detail)


class InvalidInputError(BridgeError):
    """The input breaks rules; `faults` names every fault that was found."""

    code = "invalid-input"
    title = "The request is not valid"

    def __init__(self, detail: str, faults: Sequence[Fault] = ()) -> None:
        super().__init__(detail)
        self.faults = tuple(faults)


class NotAuthenticatedError(BridgeError):
    """No valid credentials. The detail never says which part of them was wrong."""

    code = "not-authenticated"
    title = "Authentication is required"


class ForbiddenError(BridgeError):
    """The request is refused to every caller."""

    code = "forbidden"
    title = "Forbidden"


class NotFoundError(BridgeError):
    """The thing does not exist, or exists no longer; the answer deliberately does not say which."""

    code = "not-found"
    title = "Not found"


class GoneError(BridgeError):
    """The thing has ended for good, and the server has forgotten it."""

    code = "gone"
    title = "Gone"


class UpstreamError(BridgeError):
    """Another server, which this one depends on for the request, refused it or did not answer."""

    code = "upstream"
    title = "Another server failed"


class ConflictError(BridgeError):
    """The state of the thing forbids the request."""

    code = "conflict"
    title = "Conflict"


class TooLargeError(BridgeError):
    """The body is larger than the route accepts."""

    code = "too-large"
    title = "The request body is too large"


class TooSlowError(BridgeError):
    """The body did not arrive in time."""

    code = "too-slow"
    title = "The request body did not arrive in time"


class UnsupportedMediaError(BridgeError):
    """The body is not declared as JSON."""

    code = "unsupported-media-type"
    title = "The media type is not supported"


class LimitError(BridgeError):
    """A rate limit or a quota is used up for now."""

    code = "limit-exceeded"
    title = "Too many requests"

    def __init__(self, detail: str, retry_after_seconds: int) -> None:
        super().__init__(detail)
        self.retry_after_seconds = retry_after_seconds


class UnavailableError(BridgeError):
    """The server cannot serve the request now and expects to recover by itself."""

    code = "unavailable"
    title = "Temporarily unavailable"

    def __init__(self, detail: str, retry_after_seconds: int = 1) -> None:
        super().__init__(detail)
        self.retry_after_seconds = retry_after_seconds


class DatabaseFullError(UnavailableError):
    """The database holds as much as the operator lets it."""

    code = "database-full"
    title = "The database is full"

    def __init__(self, limit_bytes: int) -> None:
        super().__init__(
            f"Nothing was stored: the database holds {limit_bytes} bytes or more, which is its limit. Its "
            "operator can raise database_limit or lower lifetimes such as call_ttl; else wait until "
            "something expires.",
            retry_after_seconds=60,
        )
