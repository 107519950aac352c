"""HTTP requests to a bridge, with retries."""

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import orjson

from bridge_server.client.session.errors import (
    AnswerTimeoutError,
    BridgeUnreachableError,
    RequestRefusedError,
)
from bridge_server.client.session.pace import Pace
from bridge_server.client.session.time_limits import TimeLimits
from bridge_server.kernel.retry_after import parse_retry_after
from bridge_server.version import USER_AGENT

_HEADERS = {"Accept": "application/json", "Content-Type": "application/json", "User-Agent": USER_AGENT}
_LARGEST_ANSWER_BYTES = 16 * 1024 * 1024
_LONGEST_DETAIL = 500
_NOT_NOW = frozenset({429, 503})
_FIRST_FAILURE = 500

_NEVER_SENT = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)

_log = logging.getLogger(__name__)


class _FailureError(Exception):
    """A failed attempt. `taken`: the bridge may have processed the request nevertheless."""

    def __init__(self, reason: str, *, taken: bool, refusal: RequestRefusedError | None = None) -> None:
        super().__init__(reason)
        self.taken = taken
        self.refusal = refusal
        self.asked_seconds = None if refusal is None else refusal.retry_after_seconds


class RetryingClient(TimeLimits):
    """A bridge over HTTP, usable between `open` and `close`. A client session passed as `http` stays open."""

    def __init__(self, bridge_url: str, http: aiohttp.ClientSession | None, pace: Pace) -> None:
        self.bridge_url = bridge_url
        self.pace = pace
        self._http = http
        self._owned = http is None
        self._failure: _FailureError | None = None

    def open(self) -> None:
        """Open a client session unless one was passed in."""
        if self._http is None:
            self._http = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))

    async def close(self) -> None:
        """Close the client session unless it was passed in."""
        if self._owned and self._http is not None:
            await self._http.close()
            self._http = None

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
        failures = 0
        while True:
            try:
                body = await self._attempt(method, path, fields, 0 if failures else wait_seconds)
            except _FailureError as failure:
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

    async def _attempt(self, method: str, path: str, fields: Any, wait_seconds: int) -> bytes:
        if self._http is None:
            raise RuntimeError("Use it inside `async with`.")
        headers = {**_HEADERS, "Prefer": f"wait={wait_seconds}"} if wait_seconds else _HEADERS
        request = self._http.request(
            method,
            self.bridge_url + path,
            data=None if fields is None else orjson.dumps(fields),
            headers=headers,
            allow_redirects=False,
            raise_for_status=False,
            timeout=aiohttp.ClientTimeout(
                total=None
            ),  # aiohttp's own may swallow the caller's, if both end at once
        )
        try:
            async with asyncio.timeout(wait_seconds + self.pace.attempt_seconds), request as response:
                body = await _read(response)
        except (aiohttp.ClientError, TimeoutError) as error:
            reason = str(error) or f"no answer within {self.pace.attempt_seconds} s"
            raise _FailureError(reason, taken=not isinstance(error, _NEVER_SENT)) from error
        _require_success(response, body)
        return body

    def _asks_too_much(self, asked_seconds: float | None) -> bool:
        return asked_seconds is not None and asked_seconds > self.pace.patience_seconds

    def _unreachable(self, failure: _FailureError, more: str = "") -> BridgeUnreachableError:
        return BridgeUnreachableError(f"The bridge {self.bridge_url} cannot be used: {failure}.{more}")


async def _read(response: aiohttp.ClientResponse) -> bytes:
    """Read the body, up to a limit far above the answers of bridges."""
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > _LARGEST_ANSWER_BYTES:
            raise aiohttp.ClientPayloadError("the answer is too large")
    return bytes(body)


def _require_success(response: aiohttp.ClientResponse, body: bytes) -> None:
    """Raise _FailureError for a status that may pass, RequestRefusedError for one that will not."""
    if 200 <= response.status < 300:
        return
    detail = _detail(response, body)
    if response.status in _NOT_NOW or response.status >= _FIRST_FAILURE:
        asked = response.headers.get("Retry-After")
        asked_seconds = None if asked is None else parse_retry_after(asked, time.time_ns() // 1_000_000)
        refusal = RequestRefusedError(response.status, detail, asked_seconds)
        raise _FailureError(str(refusal), taken=response.status not in _NOT_NOW, refusal=refusal)
    raise RequestRefusedError(response.status, detail)


def _detail(response: aiohttp.ClientResponse, body: bytes) -> str:
    """The reason in the answer: the problem's detail (RFC 9457), the new address, or the status text."""
    if "Location" in response.headers:
        return f"it has moved to {response.headers['Location']}; use that address"
    try:
        return str(orjson.loads(body)["detail"])[:_LONGEST_DETAIL]
    except (ValueError, TypeError, KeyError):
        return response.reason or "no reason given"
