"""WebSockets (RFC 6455): a response that goes on as a conversation in JSON. Frames for many clients are made
once and written straight to their transports. Nothing is compressed: messages are encrypted, and a compressor
would be most of the memory of an idle socket.
"""

import asyncio
from collections.abc import Awaitable
from struct import Struct
from typing import Protocol

import structlog
from aiohttp import WSCloseCode, WSMsgType, hdrs, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http_websocket import WSMessageNoDecodeText

from bridge_server.kernel import errors
from bridge_server.web.aiohttp_internals import LATER, PromptSocket
from bridge_server.web.answers import ready_made
from bridge_server.web.connection import Connection, connection_of

_CLOSE_CODE_OF_KIND: dict[type[errors.BridgeError], WSCloseCode] = {
    errors.UnsupportedMediaError: WSCloseCode.INVALID_TEXT,
    errors.InvalidInputError: WSCloseCode.POLICY_VIOLATION,
    errors.TooLargeError: WSCloseCode.MESSAGE_TOO_BIG,
    errors.LimitError: WSCloseCode.TRY_AGAIN_LATER,
    errors.UnavailableError: WSCloseCode.TRY_AGAIN_LATER,
}

_LONGEST_REASON_BYTES = 123
_TEXT, _PING = 0x81, 0x89
_SHORT, _MEDIUM, _LONG = Struct("!BB").pack, Struct("!BBH").pack, Struct("!BBQ").pack

MOST_BUFFERED_BYTES = 1024 * 1024
"""The unread bytes of a slow client; with more, its socket is closed."""

_GOODBYE_SECONDS = 2.0
"""The longest time in which a client may read the last frames, and close its side."""

_CONGESTED_BYTES = 64 * 1024
_IS_TEXT = WSMsgType.TEXT  # looked up once: access to an enumeration's member is slow
_SERVER_HEADER = ready_made({})

log = structlog.get_logger()


class Party(Protocol):
    """The server's side of a conversation. Its errors close the socket, with the code of their kind."""

    def join(self, outlet: "Socket") -> None:
        """Take the socket, which is open now."""

    def hear(self, text: bytes) -> Awaitable[None] | None:
        """Process a message, perhaps no UTF-8. The next one waits for an awaitable that is returned."""

    async def settle(self) -> None:
        """Return once all earlier messages are safe: the client's ping or close frame is answered then."""

    def recognise(self, pong: bytes) -> None:
        """Note that the client answered a ping, and has received the frames before it."""

    def leave(self) -> None:
        """Leave: the socket is closed, or was never open. Called at least once, whatever happens."""


class LoopTurn:
    """Turns of the event loop in which many sockets push frames: one callback ends each, for all sockets."""

    def __init__(self) -> None:
        self.number, self.has_ended = 0, True
        self.sockets: list[Socket] = []  # they have frames to write when the turn ends

    def begin(self) -> None:
        """Begin a turn, as the last one has ended."""
        self.number, self.has_ended = self.number + 1, False
        asyncio.get_running_loop().call_soon(self._end)

    def _end(self) -> None:
        self.has_ended = True
        sockets, self.sockets = self.sockets, []
        for socket in sockets:
            try:
                socket.write_joined()
            except Exception:  # the others have frames to write
                log.exception("socket_failed")


class Socket(PromptSocket):
    """101, and then a conversation between a party and a client."""

    def __init__(
        self,
        party: Party,
        message_limit_bytes: int,
        come_back: WSCloseCode | None = None,
        turn: LoopTurn | None = None,
    ) -> None:
        """`come_back` is the code for clients that may come back; None: 1013, or 1011 after a failure."""
        super().__init__(
            party.hear,
            autoclose=False,
            autoping=False,
            max_msg_size=message_limit_bytes + 1,
            timeout=_GOODBYE_SECONDS,
        )
        self.headers.update(_SERVER_HEADER)
        self._party = party
        self._try_again = come_back or WSCloseCode.TRY_AGAIN_LATER
        self._failed = come_back or WSCloseCode.INTERNAL_ERROR
        self._too_big = f"A message may have at most {message_limit_bytes} bytes."
        self._request: web.BaseRequest | None = None
        self._turn = turn or LoopTurn()
        self._transport: asyncio.Transport | None = None
        self._connection: Connection | None = None
        self._goodbye: asyncio.Task[bool] | None = None
        self._is_ending, self._pushed_in = False, 0  # the number of the turn with its last pushed frame
        self._joined: list[bytes] = []
        self._joined_bytes = 0

    def accept(self, request: web.Request) -> "Socket":
        """Return this socket if the request is a WebSocket handshake. Raises InvalidInputError otherwise."""
        try:
            is_handshake = not request.body_exists and bool(self.can_prepare(request))
        except ValueError:  # aiohttp takes the headers for ASCII
            is_handshake = False
        if not is_handshake or request.headers.get(hdrs.SEC_WEBSOCKET_VERSION) != "13":
            self._party.leave()
            raise errors.InvalidInputError(
                "This is no WebSocket handshake (RFC 6455): it takes no body, Connection: Upgrade, "
                "Sec-WebSocket-Version: 13 and a Sec-WebSocket-Key of 16 bytes in Base64."
            )
        return self

    def abandon(self) -> None:
        """The response will not be sent: the party may leave."""
        self._party.leave()

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter:
        self._request = request
        try:
            return await super().prepare(request)
        except BaseException:  # the client has left: nothing will be said
            self._party.leave()
            raise

    async def write_eof(self, data: bytes = b"") -> None:
        """Talk until one side ends; then close, and give up on a client that does not read."""
        assert self._request is not None
        self._transport, self._connection = self._request.transport, connection_of(self._request)
        try:
            self._party.join(self)
            await self._talk()
        finally:
            if self.frames is not None:
                self.frames.drop()
            self._party.leave()
        if self._goodbye is not None:
            await self._goodbye
        await super().write_eof()

    async def close(self, *, code: int = WSCloseCode.OK, message: bytes = b"", drain: bool = True) -> bool:
        if code == WSCloseCode.MESSAGE_TOO_BIG:  # aiohttp itself has found that, and gives no reason
            message = message or self._too_big.encode()
        self.write_joined()
        self._is_ending = True
        if not self.closed and self._transport is not None:  # the client may not read everything
            asyncio.get_running_loop().call_later(_GOODBYE_SECONDS, self._transport.abort)
        return await super().close(code=code, message=message, drain=drain)

    def push(self, frame: bytes) -> None:
        """Write at once, without waiting; the socket of a client that lets too much pile up is closed."""
        transport, connection = self._transport, self._connection
        if self._is_ending or transport is None or transport.is_closing():
            return
        if self._joined:
            frames, self._joined, self._joined_bytes = b"".join(self._joined), [], 0
            frame = frames + frame
        if connection is not None and not connection.has_room():
            self.end(self._try_again, "Others read too slowly. Connect again for the rest.")
            return
        transport.write(frame)
        unsent_bytes = transport.get_write_buffer_size()
        if unsent_bytes and connection is not None:
            connection.wrote(len(frame))
        if unsent_bytes > MOST_BUFFERED_BYTES:
            self.end(self._try_again, "You read too slowly. Connect again for the rest.")

    def push_joined(self, frame: bytes) -> None:
        """Push; from the second frame on in one turn of the event loop, several are written together."""
        turn = self._turn
        if turn.has_ended:
            turn.begin()
        if self._pushed_in != turn.number:
            self._pushed_in = turn.number
            self.push(frame)
            return
        if not self._joined:
            turn.sockets.append(self)
        self._joined.append(frame)
        self._joined_bytes += len(frame)

    def write_joined(self) -> None:
        """Write what was pushed after the first frame of this turn of the event loop."""
        if self._joined:
            self.push(b"")

    async def drain(self) -> None:
        """Wait while much is on its way."""
        self.write_joined()
        if self._request is not None:
            await self._request.writer.drain()

    @property
    def is_open(self) -> bool:
        """Whether pushed frames are written."""
        return not self._is_ending and self._transport is not None and not self._transport.is_closing()

    @property
    def is_congested(self) -> bool:
        """Whether much is on its way, so that it is better to wait before more is pushed."""
        if self._transport is None:
            return False
        return self._joined_bytes + self._transport.get_write_buffer_size() > _CONGESTED_BYTES

    def end(self, code: int, reason: str) -> None:
        """Close with a close frame, soon. No frame is read or pushed any more."""
        if not self._is_ending:
            self.write_joined()
            self._is_ending = True
            self._goodbye = asyncio.create_task(self.close(code=code, message=_close_reason(reason)))

    def abort(self) -> None:
        """Break the connection off."""
        if self._transport is not None:
            self._transport.abort()

    async def _talk(self) -> None:
        try:
            while await self._process(await self._next_message()):
                pass
        except errors.BridgeError as error:
            code = close_code(error)
            if code == WSCloseCode.TRY_AGAIN_LATER:
                code = self._try_again
            await self.close(code=code, message=_close_reason(error.detail))
        except ConnectionError:
            pass  # the client has left while it was written to
        except Exception:
            log.exception("socket_failed")
            await self.close(code=self._failed, message=b"The server failed.")

    async def _process(self, message: WSMessageNoDecodeText) -> bool:
        """Process a message of the client; returns whether another one may follow."""
        kind = message.type
        if kind is _IS_TEXT or kind is WSMsgType.BINARY:  # clients in Python send JSON in binary frames
            pending = self._party.hear(message.data)
            if pending is not None:
                await pending
        elif kind is LATER:
            await message.data
        elif kind is WSMsgType.PONG:
            self._party.recognise(message.data)
        elif kind is WSMsgType.PING:
            await self._party.settle()
            self.write_joined()
            await self.pong(message.data)
        else:
            if kind is WSMsgType.CLOSE:
                await self._party.settle()
                await self.close(drain=False)
            return False
        return True

    async def _next_message(self) -> WSMessageNoDecodeText:
        """The next message that is not processed yet; meanwhile text frames are processed as they come."""
        if self.frames is None:
            return await self.receive()
        self.frames.is_idle = not self._is_ending
        try:
            return await self.receive()
        finally:
            self.frames.is_idle = False


def text_frame(text: bytes) -> bytes:
    """A text frame (RFC 6455, section 5), which any number of clients can be sent."""
    length = len(text)
    if length < 126:
        return _SHORT(_TEXT, length) + text
    if length < 65_536:
        return _MEDIUM(_TEXT, 126, length) + text
    return _LONG(_TEXT, 127, length) + text


def ping_frame(payload: bytes) -> bytes:
    """A ping frame with at most 125 bytes, which the pong repeats."""
    return _SHORT(_PING, len(payload)) + payload


def close_code(error: errors.BridgeError) -> WSCloseCode:
    """The code with which a failure of this kind closes a socket."""
    kinds = (kind for kind in type(error).__mro__ if kind in _CLOSE_CODE_OF_KIND)
    return _CLOSE_CODE_OF_KIND[next(kinds)]


def _close_reason(detail: str) -> bytes:
    """The detail as the reason of a close frame, which holds at most 123 bytes."""
    return detail.encode()[:_LONGEST_REASON_BYTES].decode(errors="ignore").encode()


def wants_socket(request: web.Request) -> bool:
    """Whether the request asks for a WebSocket (RFC 6455, 4.1)."""
    upgrade = request.headers.get(hdrs.UPGRADE, "")
    return request.method == hdrs.METH_GET and upgrade.strip().lower() == "websocket"
