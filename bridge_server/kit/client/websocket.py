"""A WebSocket to a bridge or relay that is opened again whenever it breaks, and the session's messages."""

import asyncio
import logging
import random
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Protocol, TypeVar

import aiohttp
from aiohttp import WSMsgType

from bridge_server.kernel.background import settle
from bridge_server.kernel.version import USER_AGENT
from bridge_server.kit.client.errors import (
    AnswerTimeoutError,
    BridgeClientError,
    BridgeUnreachableError,
    CallExpiredError,
    Pace,
    RequestRefusedError,
    SessionEndedError,
    TimeLimits,
    retry_after_seconds,
)
from bridge_server.kit.client.payloads import Approval, Call, Event, PayloadIds, Proposal, read_result

TOO_LARGE = 1009

_HEARTBEAT_SECONDS = 30.0
_LARGEST_FRAME_BYTES = 16 * 1024 * 1024
_CANCEL_AGAIN_SECONDS = 0.1
_FLUSH_SECONDS = 2.0
_NOT_NOW = 429
_FIRST_FAILURE = 500
_FOR_GOOD = range(3000, 4000)
"""The close codes after which a client does not retry."""
_KEPT = 1_000
"""The number of answers, calls and request ids that a session keeps in memory."""

_log = logging.getLogger(__name__)

Found = TypeVar("Found")


class Speaker(Protocol):
    """The protocol of one generation over a line.

    `address` is the URL, made anew for each connection. `opened` sends the frames again that the bridge has
    to know. `lost` has the close code, if there was one. After `refused` no retry follows.
    """

    def address(self) -> str: ...
    def opened(self) -> None: ...
    def received(self, text: str) -> None: ...
    def ponged(self, data: bytes) -> None: ...
    def lost(self, code: int | None) -> None: ...
    def refused(self, error: RequestRefusedError) -> None: ...


class Line(TimeLimits):
    """One WebSocket between `open` and `close`. Frames posted without a connection are dropped."""

    def __init__(self, url: str, http: aiohttp.ClientSession | None, pace: Pace) -> None:
        self.url = url
        self.pace = pace
        self._http = http
        self._owned = http is None
        self._task: asyncio.Task[None] | None = None
        self._socket: aiohttp.ClientWebSocketResponse | None = None
        self._frames: deque[str | bytes] = deque()
        self._posted = asyncio.Event()
        self._written = asyncio.Event()
        self._trouble: str | None = None

    @property
    def is_open(self) -> bool:
        return self._socket is not None

    def open(self, speaker: Speaker) -> None:
        """Connect, in the background."""
        if self._http is None:
            self._http = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        self._task = asyncio.create_task(self._keep_open(speaker))

    async def close(self) -> None:
        """Write the posted frames, and close the connection."""
        if self._task is not None:
            if self.is_open:
                with suppress(TimeoutError):
                    async with asyncio.timeout(_FLUSH_SECONDS):
                        await self._written.wait()
            while not self._task.done():  # a connection that ends at this moment can swallow a cancellation
                self._task.cancel()
                await asyncio.wait((self._task,), timeout=_CANCEL_AGAIN_SECONDS)
            with suppress(asyncio.CancelledError):
                await self._task
        if self._owned and self._http is not None:
            await self._http.close()
            self._http = None

    def post(self, frame: str | bytes) -> None:
        """Send a text frame; a ping with the data when it is bytes."""
        if self._socket is not None:
            self._frames.append(frame)
            self._written.clear()
            self._posted.set()

    @asynccontextmanager
    async def within(self, seconds: float | None, missing: str) -> AsyncIterator[None]:
        if self._task is None:
            raise RuntimeError("Use it inside `async with`.")
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError as error:
            if not self.is_open:
                trouble = self._trouble or f"no connection within {seconds} s"
                raise BridgeUnreachableError(f"The bridge {self.url} cannot be used: {trouble}.") from error
            raise AnswerTimeoutError(f"{missing} within {seconds} s.") from error

    async def _keep_open(self, speaker: Speaker) -> None:
        failures = 0
        while True:
            asked_seconds, heard = None, False
            try:
                heard = await self._connection(speaker)
            except aiohttp.WSServerHandshakeError as refusal:
                if refusal.status != _NOT_NOW and refusal.status < _FIRST_FAILURE:
                    # aiohttp does not give the body of the answer, which says more.
                    known = refusal.status in set(HTTPStatus)
                    phrase = HTTPStatus(refusal.status).phrase if known else "no WebSocket"
                    speaker.refused(RequestRefusedError(refusal.status, phrase))
                    return
                asked_seconds = retry_after_seconds(refusal.headers or {})
                self._trouble = f"it answered {refusal.status}"
            except RequestRefusedError as refusal:
                speaker.refused(refusal)
                return
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                self._trouble = str(error) or f"no connection within {self.pace.attempt_seconds} s"
            failures = 1 if heard else failures + 1
            pause = self.pace.retry_seconds(failures, random.random(), asked_seconds)  # noqa: S311
            _log.info("%s: %s; again in %.1f s", self.url, self._trouble, pause)
            await asyncio.sleep(pause)

    async def _connection(self, speaker: Speaker) -> bool:
        """Hold one connection until its end; returns whether a frame was received."""
        assert self._http is not None
        async with asyncio.timeout(self.pace.attempt_seconds):
            socket = await self._http.ws_connect(
                speaker.address(),
                autoping=False,
                heartbeat=_HEARTBEAT_SECONDS,
                max_msg_size=_LARGEST_FRAME_BYTES,
                headers={"User-Agent": USER_AGENT},
            )
        self._socket, self._trouble = socket, None
        self._frames.clear()
        self._written.set()
        writer = asyncio.create_task(self._write(socket))
        try:
            speaker.opened()
            return await self._read(socket, speaker)
        finally:
            self._socket = None
            writer.cancel()
            with suppress(asyncio.CancelledError, aiohttp.ClientError, OSError):
                await writer
            await socket.close()
            speaker.lost(socket.close_code)

    async def _read(self, socket: aiohttp.ClientWebSocketResponse, speaker: Speaker) -> bool:
        heard = False
        while True:
            message = await socket.receive()
            if message.type is WSMsgType.TEXT:
                speaker.received(message.data)
            elif message.type is WSMsgType.PING:
                await socket.pong(message.data)
            elif message.type is WSMsgType.PONG:
                speaker.ponged(bytes(message.data))
            elif message.type is not WSMsgType.BINARY:
                reason = str(message.extra or "") if message.type is WSMsgType.CLOSE else ""
                code = socket.close_code
                if code is not None and code in _FOR_GOOD:
                    raise RequestRefusedError(code, reason or "the connection was closed for good")
                self._trouble = f"the connection broke off ({code}) {reason}".rstrip()
                return heard
            heard = True

    async def _write(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        with suppress(aiohttp.ClientError, OSError):  # the reader learns it, too
            while True:
                while self._frames:
                    frame = self._frames[0]
                    await (socket.send_str(frame) if isinstance(frame, str) else socket.ping(frame))
                    self._frames.popleft()
                self._posted.clear()
                self._written.set()
                await self._posted.wait()


@dataclass(slots=True)
class Pending:
    """A frame that waits for its answer, and is sent again on each new connection until then."""

    frame: str
    answer: asyncio.Future[Any] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    def settle(self, outcome: Any = None) -> None:
        """Give the first answer, or the first error, to the waiting task."""
        settle(self.answer, outcome, outcome if isinstance(outcome, Exception) else None)


class Conversation:
    """The messages received in one session over a WebSocket. Each change wakes the waiting tasks."""

    def __init__(self) -> None:
        self.proposal: Proposal | None = None
        self.approval: Approval | None = None
        self.failure: BridgeClientError | None = None
        self._asked: OrderedDict[str, None] = OrderedDict()
        self._answers: OrderedDict[str, dict[str, Any]] = OrderedDict()
        self._calls: OrderedDict[str, Call] = OrderedDict()
        self.fresh_calls: deque[Call] = deque()
        self.fresh_updates: deque[Approval] = deque(maxlen=_KEPT)
        self.fresh_events: deque[Event] = deque(maxlen=_KEPT)
        self._waiters: set[asyncio.Future[None]] = set()

    def proposed(self, proposal: Proposal) -> None:
        """Store the dapp's proposal. Later proposals are ignored."""
        self.proposal = self.proposal or proposal
        self.wake()

    def approved(self, approval: Approval) -> None:
        """Store the wallet's approval, or its update."""
        if self.approval is not None:
            self.fresh_updates.append(approval)
        self.approval = approval
        self.wake()

    def fail(self, failure: BridgeClientError) -> None:
        """End the session with an error for all waiting tasks. Later errors are ignored."""
        self.failure = self.failure or failure
        self.wake()

    def ask(self, call_id: str) -> None:
        """Expect an answer to a call. Unexpected answers are ignored."""
        _remember(self._asked, call_id, None)

    def answered(self, call_id: str, answer: dict[str, Any]) -> None:
        """Store a JSON-RPC response."""
        if call_id in self._asked:
            _remember(self._answers, call_id, answer)
            self.wake()

    def called(self, call: Call) -> None:
        """Store a call for the wallet. A repetition is ignored."""
        if call.call_id not in self._calls:
            _remember(self._calls, call.call_id, call)
            self.fresh_calls.append(call)
            self.wake()

    def happened(self, event: Event) -> None:
        """Store an event of the wallet."""
        self.fresh_events.append(event)
        self.wake()

    def call(self, call_id: str) -> Call:
        """A received call. Raises CallExpiredError."""
        try:
            return self._calls[call_id]
        except KeyError:
            raise CallExpiredError(f"No call {call_id} has come, or it was too long ago.") from None

    def require_open(self) -> None:
        """Raise the error that ended the session, if it has ended."""
        if self.failure is not None:
            raise self.failure

    async def approval_given(self) -> Approval:
        """Wait for the approval; returns the latest. Raises the error that ended the session."""
        self.require_open()
        return await self.until(lambda: self.approval)

    async def proposal_made(self) -> Proposal:
        """Wait for the proposal. Raises the error that ended the session."""
        self.require_open()
        return await self.until(lambda: self.proposal)

    async def result_of(self, call_id: str) -> Any:
        """Wait for the result of a call. Raises CallFailedError, CallExpiredError, BadPayloadError."""
        if call_id not in self._asked:
            raise CallExpiredError(f"This object has asked no call {call_id}, or it was too long ago.")
        return read_result(await self.until(lambda: self._answers.get(call_id)))

    async def until(self, read: Callable[[], Found | None]) -> Found:
        """Wait until `read` finds something. Raises the error that ended the session before that."""
        while (found := read()) is None:
            self.require_open()
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.add(waiter)
            try:
                await waiter
            finally:
                self._waiters.discard(waiter)
        return found

    async def each(self, fresh: deque[Found]) -> AsyncGenerator[Found, None]:
        """Yield and remove the items as they arrive, until the session ends; several loops share them."""
        while True:
            try:
                yield await self.until(lambda: fresh.popleft() if fresh else None)
            except SessionEndedError:
                return

    def wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)


def _remember(kept: OrderedDict[str, Found], key: str, value: Found) -> None:
    kept[key] = value
    if len(kept) > _KEPT:
        kept.popitem(last=False)


class SocketSide:
    """One side of a session over a WebSocket. The methods are described in `Dapp` and `Wallet`."""

    def __init__(self, line: Line) -> None:
        self.limits = self.line = line
        self.conversation = Conversation()
        self.ids = PayloadIds()

    async def close(self) -> None:
        await self.line.close()

    async def approval(self) -> Approval:
        return await self.conversation.approval_given()

    async def result(self, call_id: str) -> Any:
        return await self.conversation.result_of(call_id)

    def updates(self) -> AsyncGenerator[Approval, None]:
        return self.conversation.each(self.conversation.fresh_updates)

    def calls(self) -> AsyncGenerator[Call, None]:
        return self.conversation.each(self.conversation.fresh_calls)

    async def call(self, call_id: str) -> Call:
        return self.conversation.call(call_id)
