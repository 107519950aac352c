"""The waits of a walk through many accounts, after attempts that failed."""

import asyncio
import logging
import random

from bridge_server.client.http.requests import FailedAttemptError
from bridge_server.client.session.errors import BridgeUnreachableError
from bridge_server.client.session.pace import Pace

_TOO_MANY_REQUESTS = 429

_log = logging.getLogger(__name__)


class Patience:
    """The waits between attempts, which end when the server has failed for too long.

    A 429 is waited out however often it comes: the server works, and the walk is only faster than its limit.
    """

    def __init__(self, url: str, pace: Pace) -> None:
        self._url = url
        self._pace = pace
        self._failures = 0
        self._failing_since: float | None = None

    def succeeded(self) -> None:
        """Forget the failures."""
        self._failures, self._failing_since = 0, None

    def pause_after(self, failure: FailedAttemptError) -> float:
        """The seconds to wait after a failed attempt. Raises BridgeUnreachableError."""
        self._failures += 1
        pause = self._pace.retry_seconds(self._failures, random.random(), failure.asked_seconds)  # noqa: S311
        if failure.refusal is not None and failure.refusal.status == _TOO_MANY_REQUESTS:
            self._failing_since = None
        else:
            self._require_patience(failure, pause)
        _log.info("%s: %s; again in %.1f s", self._url, failure, pause)
        return pause

    def _require_patience(self, failure: FailedAttemptError, pause: float) -> None:
        now = asyncio.get_running_loop().time()
        if self._failing_since is None:
            self._failing_since = now
        if now + pause > self._failing_since + self._pace.walk_patience_seconds:
            raise BridgeUnreachableError(f"The server {self._url} cannot be used: {failure}.") from failure
