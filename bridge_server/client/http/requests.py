"""HTTP requests to one server, each made once: an answer, a refusal, or a failure that may pass."""

import asyncio
import time
from collections.abc import AsyncGenerator
from typing import Any

import aiohttp
import orjson

from bridge_server.client.session.errors import RequestRefusedError
from bridge_server.client.session.pace import Pace
from bridge_server.kernel.retry_after import parse_retry_after
from bridge_server.version import USER_AGENT

_HEADERS = {"Accept": "application/json", "Content-Type": "application/json", "User-Agent": USER_AGENT}
_LARGEST_ANSWER_BYTES = 16 * 1024 * 1024
_LONGEST_DETAIL = 500
_MOST_FAULTS = 10
_NOT_NOW = frozenset({429, 503})
_FIRST_FAILURE = 500

_NEVER_SENT = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)


class FailedAttemptError(Exception):
    """A failed attempt. `taken`: the server may have processed the request nevertheless."""

    def __init__(self, reason: str, *, taken: bool, refusal: RequestRefusedError | None = None) -> None:
        super().__init__(reason)
        self.taken = taken
        self.refusal = refusal
        self.asked_seconds = None if refusal is None else refusal.retry_after_seconds


class HttpRequests:
    """A server over HTTP, usable between `open` and `close`. A client session passed as `http` stays open.

    `token` is sent as a bearer token.
    """

    def __init__(
        self, url: str, http: aiohttp.ClientSession | None, pace: Pace, token: str | None = None
    ) -> None:
        self.url = url
        self.pace = pace
        self._http = http
        self._owned = http is None
        self._headers = _HEADERS if token is None else {**_HEADERS, "Authorization": f"Bearer {token}"}

    def open(self) -> None:
        """Open a client session unless one was passed in."""
        if self._http is None:
            self._http = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))

    async def close(self) -> None:
        """Close the client session unless it was passed in."""
        if self._owned and self._http is not None:
            await self._http.close()
            self._http = None

    async def attempt(
        self, method: str, path: str, body: bytes | None = None, wait_seconds: int = 0
    ) -> bytes:
        """Make a request; returns the body of an answer with 2xx. `wait_seconds` asks for a long poll.

        Raises FailedAttemptError for no answer, 429 and 5xx; RequestRefusedError for other statuses.
        """
        request = self._request(method, path, body, wait_seconds)
        try:
            async with asyncio.timeout(wait_seconds + self.pace.attempt_seconds), request as response:
                answered = await _read(response)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise self._failure(error) from error
        _require_success(response, answered)
        return answered

    async def pieces(self, path: str) -> AsyncGenerator[bytes]:
        """The body of a long answer to GET, piece by piece. Each piece has the time of an attempt.

        Raises what `attempt` raises.
        """
        response = None
        try:
            async with asyncio.timeout(self.pace.attempt_seconds):
                response = await self._request("GET", path, None, 0)
                if response.status != 200:
                    _require_success(response, await _read(response))
            while piece := await self._piece(response):
                yield piece
        except (aiohttp.ClientError, TimeoutError) as error:
            raise self._failure(error) from error
        finally:
            if response is not None:
                response.close()

    async def _piece(self, response: aiohttp.ClientResponse) -> bytes:
        """The next bytes; empty at the end."""
        async with asyncio.timeout(self.pace.attempt_seconds):
            return await response.content.readany()

    def _request(
        self, method: str, path: str, body: bytes | None, wait_seconds: int
    ) -> "aiohttp.client._RequestContextManager":
        if self._http is None:
            raise RuntimeError("Use it inside `async with`.")
        waiting = {"Prefer": f"wait={wait_seconds}"} if wait_seconds else {}
        return self._http.request(
            method,
            self.url + path,
            data=body,
            headers={**self._headers, **waiting},
            allow_redirects=False,
            raise_for_status=False,
            timeout=aiohttp.ClientTimeout(
                total=None
            ),  # aiohttp's own may swallow the caller's, if both end at once
        )

    def _failure(self, error: Exception) -> FailedAttemptError:
        reason = str(error) or f"no answer within {self.pace.attempt_seconds} s"
        return FailedAttemptError(reason, taken=not isinstance(error, _NEVER_SENT))


async def _read(response: aiohttp.ClientResponse) -> bytes:
    """Read the body, up to a limit far above the answers of bridges."""
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > _LARGEST_ANSWER_BYTES:
            raise aiohttp.ClientPayloadError("the answer is too large")
    return bytes(body)


def _require_success(response: aiohttp.ClientResponse, body: bytes) -> None:
    """Raise FailedAttemptError for a status that may pass, RequestRefusedError for any other failure."""
    if 200 <= response.status < 300:
        return
    detail = _detail(response, body)
    if response.status in _NOT_NOW or response.status >= _FIRST_FAILURE:
        asked = response.headers.get("Retry-After")
        asked_seconds = None if asked is None else parse_retry_after(asked, time.time_ns() // 1_000_000)
        refusal = RequestRefusedError(response.status, detail, asked_seconds)
        raise FailedAttemptError(str(refusal), taken=response.status not in _NOT_NOW, refusal=refusal)
    raise RequestRefusedError(response.status, detail)


def _detail(response: aiohttp.ClientResponse, body: bytes) -> str:
    """The reason in the answer: the problem's detail (RFC 9457), the new address, or the status text."""
    if "Location" in response.headers:
        return f"it has moved to {response.headers['Location']}; use that address"
    try:
        problem = orjson.loads(body)
        detail, faults = str(problem["detail"]), _faults(problem)
        return "; ".join([detail.removesuffix("."), *faults] if faults else [detail])[:_LONGEST_DETAIL]
    except (ValueError, TypeError, KeyError):  # another server's
        return response.reason or "no reason given"


def _faults(problem: dict[str, Any]) -> list[str]:
    """The places of the request that a problem names, and the fault of each, at most ten."""
    errors = problem.get("errors")
    named = [each for each in errors if isinstance(each, dict)] if isinstance(errors, list) else []
    return [f"{each.get('pointer')} {each.get('detail')}" for each in named[:_MOST_FAULTS]]
