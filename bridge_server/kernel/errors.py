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

    def __init_subclass__(cls, *, code: str | None = None, title: str | None = None) -> None:
        """A class names its code and its title in its head, or has its parent's."""
        super().__init_subclass__()
        cls.code, cls.title = code or cls.code, title or cls.title

    def __init__(self, detail: str = "") -> None:
        if detail:
            self.detail = detail
        super().__init__(self.detail)


class InvalidInputError(BridgeError, code="invalid-input", title="The request is not valid"):
    """The input breaks rules; `faults` names every fault that was found."""

    def __init__(self, detail: str, faults: Sequence[Fault] = ()) -> None:
        super().__init__(detail)
        self.faults = tuple(faults)


class NotAuthenticatedError(BridgeError, code="not-authenticated", title="Authentication is required"):
    """No valid credentials. The detail never says which part of them was wrong."""


class ForbiddenError(BridgeError, code="forbidden", title="Forbidden"):
    """The request is refused to every caller."""


class NotFoundError(BridgeError, code="not-found", title="Not found"):
    """The thing does not exist, or exists no longer; the answer deliberately does not say which."""


class GoneError(BridgeError, code="gone", title="Gone"):
    """The thing has ended for good, and the server has forgotten it."""


class UpstreamError(BridgeError, code="upstream", title="Another server failed"):
    """Another server, which this one depends on for the request, refused it or did not answer."""


class ConflictError(BridgeError, code="conflict", title="Conflict"):
    """The state of the thing forbids the request."""


class TooLargeError(BridgeError, code="too-large", title="The request body is too large"):
    """The body is larger than the route accepts."""


class TooSlowError(BridgeError, code="too-slow", title="The request body did not arrive in time"):
    """The body did not arrive in time."""


class UnsupportedMediaError(
    BridgeError, code="unsupported-media-type", title="The media type is not supported"
):
    """The body is not declared as JSON."""


class LimitError(BridgeError, code="limit-exceeded", title="Too many requests"):
    """A rate limit or a quota is used up for now."""

    def __init__(self, detail: str, retry_after_seconds: int) -> None:
        super().__init__(detail)
        self.retry_after_seconds = retry_after_seconds


class UnavailableError(BridgeError, code="unavailable", title="Temporarily unavailable"):
    """The server cannot serve the request now and expects to recover by itself."""

    def __init__(self, detail: str, retry_after_seconds: int = 1) -> None:
        super().__init__(detail)
        self.retry_after_seconds = retry_after_seconds


class DatabaseFullError(UnavailableError, code="database-full", title="The database is full"):
    """The database holds as much as the operator lets it."""

    def __init__(self, limit_bytes: int) -> None:
        super().__init__(
            f"Nothing was stored: the database holds {limit_bytes} bytes or more, which is its limit. Its "
            "operator can raise database_limit or lower lifetimes such as call_ttl; else wait until "
            "something expires.",
            retry_after_seconds=60,
        )
