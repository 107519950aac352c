"""Errors of the client library, and its time limits: waits, retries, and what is raised at their end."""

import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from bridge_server.kernel.fields import parse_retry_after

_DOUBLINGS = 16
_LONGEST_ASKED_SECONDS = 3_600.0


class BridgeClientError(Exception):
    """The base of every error of the client library."""


class BadPairingError(BridgeClientError, ValueError):
    """A pairing or its URI is not valid. The text says why, without the key."""


class BadPayloadError(BridgeClientError):
    """A payload cannot be read: it has another key, was modified, or has an unexpected content."""


class SessionEndedError(BridgeClientError):
    """The bridge has no such session: it was ended, has expired, or belongs to another bridge."""


class CallExpiredError(BridgeClientError):
    """The call has expired, but its session has not."""


class RejectedError(BridgeClientError):
    """The wallet does not approve the session."""


class CallFailedError(BridgeClientError):
    """The wallet answered the call with a JSON-RPC error (EIP-1193: 4001 means rejected by the user)."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(f"{message} ({code})")
        self.code = code
        self.message = message
        self.data = data


class AnswerTimeoutError(BridgeClientError, TimeoutError):
    """The bridge works, but the other side did not answer in time."""


class BridgeUnreachableError(BridgeClientError):
    """No connection, no answer, or only 429 and 5xx until the timeout."""


class UnsupportedError(BridgeClientError):
    """The session's generation of the protocol does not have this feature."""


class BadAnswerError(BridgeClientError):
    """The server at the URL does not speak the bridge's protocol."""


class RequestRefusedError(BridgeClientError):
    """The bridge refused the request. A retry is useless, or has to wait for `retry_after_seconds`."""

    def __init__(self, status: int, detail: str, retry_after_seconds: float | None = None) -> None:
        super().__init__(f"The bridge answered {status}: {detail}")
        self.status = status
        self.detail = detail
        self.retry_after_seconds = retry_after_seconds


@dataclass(frozen=True, slots=True)
class Pace:
    """Waiting and retry times, in seconds. The defaults suit a person with a dapp and a wallet."""

    wait_seconds: int = 25
    """The length of a long poll (`Prefer: wait`)."""
    pause_seconds: float = 1.0
    """The least time between two polls, for a bridge without long polling."""
    first_retry_seconds: float = 0.25
    """The pause before the first retry; it doubles with each failure."""
    longest_retry_seconds: float = 15.0
    """The longest pause before a retry."""
    attempt_seconds: float = 10.0
    """The time limit of one attempt, in addition to its long poll."""
    patience_seconds: float = 30.0
    """The time limit of all retries of a request without its own timeout."""
    walk_patience_seconds: float = 300.0
    """The longest time for which a walk through many accounts goes on without any answer but 5xx or 429."""

    def retry_seconds(self, failures: int, chance: float, asked_seconds: float | None = None) -> float:
        """The pause after a number of failures in a row.

        `chance` in [0, 1) is jitter: it shortens the pause by up to a half, so that clients do not
        retry together. A Retry-After of the bridge (`asked_seconds`) is respected up to an hour, plus jitter.
        """
        doubled = self.first_retry_seconds * 2.0 ** min(failures - 1, _DOUBLINGS)
        own = min(doubled, self.longest_retry_seconds) * (1 - chance / 2)
        if asked_seconds is None:
            return own
        return max(own, min(asked_seconds, _LONGEST_ASKED_SECONDS) + self.first_retry_seconds * chance)


def retry_after_seconds(headers: Mapping[str, str]) -> float | None:
    """The time in a Retry-After from now on; None if there is none that can be read."""
    asked = headers.get("Retry-After")
    return None if asked is None else parse_retry_after(asked, time.time_ns() // 1_000_000)


class TimeLimits(ABC):
    """A way to the bridge that limits the time of blocks."""

    pace: Pace

    @abstractmethod
    def within(self, seconds: float | None, missing: str) -> AbstractAsyncContextManager[None]:
        """Limit the time of the block; None is no limit.

        Raises AnswerTimeoutError with the text `missing`; BridgeUnreachableError if the bridge cannot be used
        at that moment.
        """

    @asynccontextmanager
    async def bridge_within(self, seconds: float | None, missing: str) -> AsyncIterator[None]:
        """Like `within`, for an answer of the bridge itself. Raises BridgeUnreachableError."""
        try:
            async with self.within(seconds, missing):
                yield
        except AnswerTimeoutError as error:
            raise BridgeUnreachableError(str(error)) from error

    def patiently(self, missing: str) -> AbstractAsyncContextManager[None]:
        """Like `bridge_within`, with the time limit of requests without their own timeout."""
        return self.bridge_within(self.pace.patience_seconds, missing)
