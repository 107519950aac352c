"""A bridge over HTTP (docs/protocol.md, B): requests with retries, endpoints, and both sides of a session."""

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict
from functools import partial
from secrets import token_bytes
from typing import Any, TypeVar

import aiohttp
import orjson

from bridge_server.kernel.version import USER_AGENT
from bridge_server.kit.client.errors import (
    AnswerTimeoutError,
    BadAnswerError,
    BadPairingError,
    BadPayloadError,
    BridgeClientError,
    BridgeUnreachableError,
    CallExpiredError,
    Pace,
    RequestRefusedError,
    SessionEndedError,
    TimeLimits,
    UnsupportedError,
    retry_after_seconds,
)
from bridge_server.kit.client.pairing import KEY_BYTES, Cipher, Pairing
from bridge_server.kit.client.payloads import (
    Approval,
    Call,
    Event,
    PayloadIds,
    Proposal,
    Push,
    read_approval,
    read_object,
    read_request,
    read_result,
    write_approval,
    write_error,
    write_request,
    write_result,
)

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
    """The endpoints of a bridge, with encrypted payloads. Raises SessionEndedError, CallExpiredError."""

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


# Both sides of a session of the plain bridge and of generation 0.7, which is polled.

_NO_PING = "A session over HTTP has no ping between its two sides."
_PARSE_ERROR = -32_700


Found = TypeVar("Found")


class PollingDapp:
    """A dapp whose `open` opens a session, unless it has one. The methods are described in `Dapp`."""

    def __init__(self, bridge: HttpBridge, name: str, pairing: Pairing | None = None) -> None:
        self._name = name
        self._bridge = self.limits = bridge
        self._pairing = pairing
        self._request_ids = PayloadIds()

    async def open(self) -> None:
        self._bridge.open()
        if self._pairing is not None:
            return
        async with self._bridge.patiently("The bridge opened no session"):
            session_id = await self._bridge.open_session()
        try:
            self._pairing = Pairing(self._bridge.url, session_id, token_bytes(KEY_BYTES), self._name)
        except BadPairingError as error:
            raise BadAnswerError(f"The server opened a session that cannot be used: {error}") from error

    async def close(self) -> None:
        await self._bridge.close()

    @property
    def pairing(self) -> Pairing:
        if self._pairing is None:
            raise RuntimeError("Use it inside `async with`: that opens the session.")
        return self._pairing

    @property
    def uri(self) -> str:
        return self.pairing.uri

    async def approval(self) -> Approval:
        session_id, pace = self.pairing.session_id, self._bridge.pace
        payload = await poll(partial(self._bridge.session, session_id, pace.wait_seconds), pace.pause_seconds)
        return read_approval(self._cipher.open(payload))

    async def request(self, method: str, params: Any, timeout: float | None, chain: str | None) -> str:
        if chain is not None:
            raise UnsupportedError("A session over HTTP has one chain, the wallet's: name none.")
        payload = self._cipher.seal(write_request(self._request_ids.next(), method, params))
        async with self._bridge.bridge_within(timeout, "The bridge did not take the call"):
            return await self._bridge.request_call(self.pairing.session_id, payload, self._name)

    async def result(self, call_id: str) -> Any:
        session_id, pace = self.pairing.session_id, self._bridge.pace
        read = partial(self._bridge.status, session_id, call_id, pace.wait_seconds)
        return read_result(self._cipher.open(await poll(read, pace.pause_seconds)))

    async def end(self) -> None:
        async with self._bridge.patiently("The bridge did not end the session"):
            await self._bridge.end_session(self.pairing.session_id)

    async def ping(self, timeout: float | None) -> None:
        raise UnsupportedError(_NO_PING)

    def updates(self) -> AsyncGenerator[Approval, None]:
        raise UnsupportedError("A session over HTTP tells of no update: ask for `approval` again.")

    def events(self) -> AsyncGenerator[Event, None]:
        raise UnsupportedError("A session over HTTP has no events: `approval` has the last update.")

    @property
    def _cipher(self) -> Cipher:
        return Cipher(self.pairing.key)


class PollingWallet:
    """A wallet that polls for the session's calls. The methods are described in `Wallet`."""

    def __init__(self, pairing: Pairing, http: aiohttp.ClientSession | None, pace: Pace) -> None:
        self.pairing = pairing
        self.topic = pairing.session_id
        self._cipher = Cipher(pairing.key)
        self._bridge = HttpBridge(pairing.bridge_url, http, pace)
        self._seen: set[str] = set()
        self._turn = asyncio.Lock()

    async def open(self) -> None:
        self._bridge.open()

    async def close(self) -> None:
        await self._bridge.close()

    async def proposal(self, timeout: float | None) -> Proposal:
        """The dapp's name, if the pairing URI has one."""
        return Proposal(self.pairing.name or "", "", {})

    async def approve(self, accounts: Iterable[str], chain_id: int, push: Push | None) -> int | None:
        return await self._update(write_approval(accounts, chain_id), push)

    async def reject(self) -> None:
        await self._update({"approved": False}, None)

    async def calls(self) -> AsyncGenerator[Call, None]:
        while True:
            try:
                async with self._turn:
                    pending = await poll(self._new_calls, self._bridge.pace.pause_seconds)
            except SessionEndedError:
                return
            for call_id, payload in pending.items():
                if call_id in self._seen:  # by another loop
                    continue
                self._seen.add(call_id)
                call = await self._readable(call_id, payload)
                if call is not None:
                    yield call

    async def call(self, call_id: str) -> Call:
        async with self._bridge.patiently("The bridge did not tell of the call"):
            payload = await self._bridge.call(self.topic, call_id)
        return read_request(call_id, self._cipher.open(payload))

    async def answer(self, call: Call, result: Any) -> None:
        await self._post(call.call_id, write_result(call, result))

    async def refuse(self, call: Call, code: int, message: str) -> None:
        await self._post(call.call_id, write_error(call.request_id, code, message))

    async def end(self) -> None:
        async with self._bridge.patiently("The bridge did not end the session"):
            await self._bridge.end_session(self.topic)

    async def emit(self, name: str, data: Any, chain: str) -> None:
        raise UnsupportedError("A session over HTTP has no events: approve again with what has changed.")

    async def extend(self) -> int:
        raise UnsupportedError("A session over HTTP is extended by each approval: approve again.")

    async def ping(self, timeout: float | None) -> None:
        raise UnsupportedError(_NO_PING)

    async def _update(self, content: dict[str, Any], push: Push | None) -> int | None:
        async with self._bridge.patiently("The bridge did not take the wallet's word"):
            return await self._bridge.update_session(self.topic, self._cipher.seal(content), push)

    async def _post(self, call_id: str, content: dict[str, Any]) -> None:
        async with self._bridge.patiently("The bridge did not take the answer"):
            await self._bridge.answer_call(self.topic, call_id, self._cipher.seal(content))

    async def _new_calls(self) -> dict[str, Any] | None:
        """The pending calls that were not yielded yet; None if there are none."""
        pending = await self._bridge.calls(self.topic, self._bridge.pace.wait_seconds)
        self._seen &= pending.keys()
        return {call_id: pending[call_id] for call_id in pending if call_id not in self._seen} or None

    async def _readable(self, call_id: str, payload: Any) -> Call | None:
        try:
            return read_request(call_id, self._cipher.open(payload))
        except BadPayloadError as error:
            _log.warning("call %s is refused: %s", call_id, error)
        try:
            await self._post(call_id, write_error(None, _PARSE_ERROR, "The wallet cannot read the call."))
        except BridgeClientError as error:
            _log.warning("call %s could not be refused: %s", call_id, error)
        return None


async def poll(read: Callable[[], Awaitable[Found | None]], pause_seconds: float) -> Found:
    """Call `read` until it returns a result, at most once in `pause_seconds`.

    A bridge with long polling holds each read for longer than `pause_seconds`, so the next one follows at
    once. A bridge without it, or a bridge that is about to stop, answers sooner, whatever its header
    Preference-Applied says.
    """
    now = asyncio.get_running_loop().time
    while True:
        asked_at = now()
        found = await read()
        if found is not None:
            return found
        await asyncio.sleep(max(0.0, asked_at + pause_seconds - now()))
