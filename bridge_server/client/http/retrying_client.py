"""HTTP requests to a bridge, with retries."""

import asyncio
import logging
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import orjson

from bridge_server.client.http.requests import FailedAttemptError, HttpRequests
from bridge_server.client.session.errors import AnswerTimeoutError, BridgeUnreachableError
from bridge_server.client.session.pace import Pace
from bridge_server.client.session.time_limits import TimeLimits

_log = logging.getLogger(__name__)


class RetryingClient(TimeLimits):
    """A bridge over HTTP, usable between `open` and `close`. A client session passed as `http` stays open."""

    def __init__(
        self, bridge_url: str, http: aiohttp.ClientSession | None, pace: Pace, token: str | None = None
    ) -> None:
        self.bridge_url = bridge_url
        self.pace = pace
        self.requests = HttpRequests(bridge_url, http, pace, token)
        self._failure: FailedAttemptError | None = None

    def open(self) -> None:
        """Open a client session unless one was passed in."""
        self.requests.open()

    async def close(self) -> None:
        """Close the client session unless it was passed in."""
        await self.requests.close()

    @asynccontextmanager
    async def within(self, seconds: float | None, missing: str) -> AsyncIterator[None]:
        self._failure = None
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError as error:
            if self._failure is not None:
                raise self._unreachable(self._failure) from error
            raise AnswerTimeoutError(f"{missing} within {seconds} s.") from error

    async def send(
        self,
        method: str,
        path: str,
        fields: Any = None,
        *,
        wait_seconds: int = 0,
        repeatable: bool = True,
    ) -> bytes:
        """Send a request, with retries, until the bridge answers 2xx; returns the body, empty for a 204.

        `wait_seconds` asks for a long poll; a retry after a failure does not, to notice early that the bridge
        works again. A request that is not `repeatable` is retried only if the bridge has certainly not
        processed it; otherwise BridgeUnreachableError is raised. Raises RequestRefusedError for
        statuses other than 429 and 5xx, and for a write whose Retry-After is longer than `patience_seconds`.
        """
        encoded = None if fields is None else orjson.dumps(fields)
        failures = 0
        while True:
            try:
                body = await self.requests.attempt(method, path, encoded, 0 if failures else wait_seconds)
            except FailedAttemptError as failure:
                self._failure = failure
                if method != "GET" and failure.refusal and self._asks_too_much(failure.asked_seconds):
                    raise failure.refusal from failure
                if failure.taken and not repeatable:
                    raise self._unreachable(failure, " It may have taken the request.") from failure
                failures += 1
                pause = self.pace.retry_seconds(failures, random.random(), failure.asked_seconds)  # noqa: S311
                _log.info("%s: %s; again in %.1f s", self.bridge_url, failure, pause)
                await asyncio.sleep(pause)
            else:
                self._failure = None
                return body

    def _asks_too_much(self, asked_seconds: float | None) -> bool:
        return asked_seconds is not None and asked_seconds > self.pace.patience_seconds

    def _unreachable(self, failure: FailedAttemptError, more: str = "") -> BridgeUnreachableError:
        return BridgeUnreachableError(f"The bridge {self.bridge_url} cannot be used: {failure}.{more}")
