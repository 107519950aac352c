"""HTTP requests to a bridge, with retries, and one method for each endpoint (docs/protocol.md, B)."""

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict
from typing import Any

import aiohttp
import orjson

from bridge_server.kernel.version import USER_AGENT
from bridge_server.kit.client.errors import (
    AnswerTimeoutError,
    BadAnswerError,
    BridgeUnreachableError,
    CallExpiredError,
    Pace,
    RequestRefusedError,
    SessionEndedError,
    TimeLimits,
    retry_after_seconds,
)
from bridge_server.kit.client.payloads import Push, read_object

_HEADERS = {"Accept": "application/json", "Content-Type": "application/json", "User-Agent": USER_AGENT}
_LARGEST_ANSWER_BYTES = 16 * 1024 * 1024
_LONGEST_DETAIL = 500
_MOST_FAULTS = 10
_MISSING = 404
_NOT_NOW = frozenset({429, 503})
_FIRST_FAILURE = 500
_NEVER_SENT = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)

_log = logging.getLogger(__name__)


class FailedAttemptError(Exception):
    """A failed attempt. `taken`: the server may have processed the request nevertheless."""

    def __init__(self, reason: str, *, taken: bool, refusal: RequestRefusedError | None = None) -> None:
        super().__init__(reason)
        self.taken = taken
        self.refusal = refusal
        self.asked_seconds = None if refusal is None else refusal.retry_after_seconds


class HttpRequests:
    """A server over HTTP, between `open` and `close`; `http` stays open. `token` is a bearer token."""

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
        try:
            async with (
                asyncio.timeout(wait_seconds + self.pace.attempt_seconds),
                await self._request(method, path, body, wait_seconds) as response,
            ):
                answered = await _read(response)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise self._failure(error) from error
        _require_success(response, answered)
        return answered

    async def pieces(self, path: str) -> AsyncGenerator[bytes]:
        """The body of a long answer to GET, in pieces; each is an `attempt` in its time and its errors."""
        response = None
        try:
            async with asyncio.timeout(self.pace.attempt_seconds):
                response = await self._request("GET", path, None, 0)
                if response.status != 200:
                    _require_success(response, await _read(response))
            while True:
                async with asyncio.timeout(self.pace.attempt_seconds):
                    piece = await response.content.readany()
                if not piece:
                    return
                yield piece
        except (aiohttp.ClientError, TimeoutError) as error:
            raise self._failure(error) from error
        finally:
            if response is not None:
                response.close()

    async def _request(
        self, method: str, path: str, body: bytes | None, wait_seconds: int
    ) -> aiohttp.ClientResponse:
        if self._http is None:
            raise RuntimeError("Use it inside `async with`.")
        waiting = {"Prefer": f"wait={wait_seconds}"} if wait_seconds else {}
        return await self._http.request(
            method,
            self.url + path,
            data=body,
            headers={**self._headers, **waiting},
            allow_redirects=False,
            raise_for_status=False,
            timeout=aiohttp.ClientTimeout(total=None),  # two that end at once may swallow the caller's
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
        refusal = RequestRefusedError(response.status, detail, retry_after_seconds(response.headers))
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


class RetryingClient(HttpRequests, TimeLimits):
    """A bridge over HTTP, whose requests are repeated as long as that is safe."""

    _failed: FailedAttemptError | None = None

    @asynccontextmanager
    async def within(self, seconds: float | None, missing: str) -> AsyncIterator[None]:
        self._failed = None
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError as error:
            if self._failed is not None:
                raise self._unreachable(self._failed) from error
            raise AnswerTimeoutError(f"{missing} within {seconds} s.") from error

    async def send(
        self, method: str, path: str, fields: Any = None, *, wait_seconds: int = 0, repeatable: bool = True
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
                body = await self.attempt(method, path, encoded, 0 if failures else wait_seconds)
            except FailedAttemptError as failure:
                self._failed = failure
                asked_too_much = (failure.asked_seconds or 0) > self.pace.patience_seconds
                if method != "GET" and failure.refusal and asked_too_much:
                    raise failure.refusal from failure
                if failure.taken and not repeatable:
                    raise self._unreachable(failure, " It may have taken the request.") from failure
                failures += 1
                pause = self.pace.retry_seconds(failures, random.random(), failure.asked_seconds)  # noqa: S311
                _log.info("%s: %s; again in %.1f s", self.url, failure, pause)
                await asyncio.sleep(pause)
            else:
                self._failed = None
                return body

    def _unreachable(self, failure: FailedAttemptError, more: str = "") -> BridgeUnreachableError:
        return BridgeUnreachableError(f"The bridge {self.url} cannot be used: {failure}.{more}")


# A client of the bridge's endpoints (docs/protocol.md, B), with one method for each.
#
# Answers are read with and without the envelope of generation 0.7 (`{"data": ...}`); only the URL of the
# bridge decides whether its answers have it.


class HttpBridge(RetryingClient):
    """The sessions and calls of a bridge. Payloads are passed on encrypted.

    A method raises SessionEndedError without the session, and CallExpiredError without the call.
    """

    async def open_session(self) -> str:
        """Open a session; returns its id."""
        return _text(_document(await self.send("POST", "/session/new")), "sessionId")

    async def session(self, session_id: str, wait_seconds: int = 0) -> Any:
        """The payload that the wallet has put, or None."""
        async with _of_session(session_id):
            return _payload(await self._poll(f"/session/{session_id}", wait_seconds))

    async def update_session(self, session_id: str, payload: Any, push: Push | None) -> int | None:
        """Put the payload and push details; the session's expiry in epoch milliseconds, if answered."""
        fields = {"push": None if push is None else asdict(push), "encryptionPayload": payload}
        async with _of_session(session_id):
            answer = await self.send("PUT", f"/session/{session_id}", fields)
        expires = _document(answer).get("expires") if answer else None
        return expires if isinstance(expires, int) else None

    async def end_session(self, session_id: str) -> None:
        """End the session. It may have ended already."""
        with suppress(SessionEndedError):
            async with _of_session(session_id):
                await self.send("DELETE", f"/session/{session_id}")

    async def request_call(self, session_id: str, payload: Any, dapp_name: str) -> str:
        """Make a call; returns its id. It is not retried if the bridge may have accepted it."""
        path = f"/session/{session_id}/call/new"
        fields = {"encryptionPayload": payload, "dappName": dapp_name}
        async with _of_session(session_id):
            answer = await self.send("POST", path, fields, repeatable=False)
        return _text(_document(answer), "callId")

    async def calls(self, session_id: str, wait_seconds: int = 0) -> dict[str, Any]:
        """The payloads of calls without a status, by call id, oldest first."""
        async with _of_session(session_id):
            found = await self._poll(f"/session/{session_id}/calls", wait_seconds)
        return {call_id: _payload(call) for call_id, call in (found or {}).items()}

    async def call(self, session_id: str, call_id: str) -> Any:
        """One call's payload."""
        async with self._of_call(session_id, call_id):
            return _payload(await self._poll(f"/session/{session_id}/call/{call_id}", 0))

    async def status(self, session_id: str, call_id: str, wait_seconds: int = 0) -> Any:
        """The payload of a call's status, or None."""
        async with self._of_call(session_id, call_id):
            return _payload(await self._poll(f"/call-status/{call_id}", wait_seconds))

    async def answer_call(self, session_id: str, call_id: str, payload: Any) -> None:
        """Post the call's status."""
        async with self._of_call(session_id, call_id):
            await self.send("POST", f"/call-status/{call_id}/new", {"encryptionPayload": payload})

    async def _poll(self, path: str, wait_seconds: int) -> dict[str, Any] | None:
        """The JSON object of an answer without its envelope; None for an empty answer."""
        answer = await self.send("GET", path, wait_seconds=wait_seconds)
        if not answer:
            return None
        document = _document(answer)
        inner = document.get("data")
        return inner if isinstance(inner, dict) else document

    @asynccontextmanager
    async def _of_call(self, session_id: str, call_id: str) -> AsyncIterator[None]:
        try:
            yield
        except RequestRefusedError as refusal:
            if refusal.status != _MISSING:
                raise
            # Under the path of generation 0.7 only a long poll answers 404 for an ended session.
            await self.session(session_id, wait_seconds=1)
            raise CallExpiredError(f"The bridge has forgotten the call {call_id}.") from refusal


@asynccontextmanager
async def _of_session(session_id: str) -> AsyncIterator[None]:
    try:
        yield
    except RequestRefusedError as refusal:
        if refusal.status != _MISSING:
            raise
        text = f"The bridge has no session {session_id}, or none any more. Open another."
        raise SessionEndedError(text) from refusal


def _document(answer: bytes) -> dict[str, Any]:
    document = read_object(answer)
    if document is None:
        raise BadAnswerError("The server did not answer with a JSON object. Is the URL that of a bridge?")
    return document


def _text(document: dict[str, Any], name: str) -> str:
    text = document.get(name)
    if not isinstance(text, str) or not text:
        raise BadAnswerError(f"The server's answer has no {name}. Is the URL that of a bridge?")
    return text


def _payload(holder: Any) -> Any:
    """The `encryptionPayload` of an object; None for None."""
    if holder is None:
        return None
    if not isinstance(holder, dict) or "encryptionPayload" not in holder:
        raise BadAnswerError("The server's answer has no encryptionPayload. Is the URL that of a bridge?")
    return holder["encryptionPayload"]
