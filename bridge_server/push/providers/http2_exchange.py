"""One request over HTTP/2 and its result: an answer or an error."""

import asyncio
from dataclasses import dataclass
from typing import TypeAlias

import h2.errors
import h2.events

from bridge_server.outgoing.bounded_body import ANSWER_LIMIT_BYTES

StreamEvent: TypeAlias = (
    h2.events.ResponseReceived | h2.events.DataReceived | h2.events.StreamEnded | h2.events.StreamReset
)


class Http2Error(Exception):
    """A request got no answer. The text is for people and does not quote the request."""


class NotTakenError(Http2Error):
    """The server has certainly not processed the request: it can be retried."""


class ConnectionLostError(Http2Error):
    """The connection broke before the answer: the server may have processed the request."""


@dataclass(frozen=True, slots=True)
class Http2Answer:
    """The status, the other header fields with lower-case names, and the body, cut at 64 KiB."""

    status: int
    headers: dict[str, str]
    body: bytes


class Http2Exchange:
    """A request in flight and the part of its answer that has arrived.

    `unsent` is the rest of the request's body, `ended` whether the server has closed the stream, and
    `began_at` the start in the event loop's time.
    """

    __slots__ = ("answer", "began_at", "body", "ended", "headers", "unsent")

    def __init__(self, body: bytes, loop: asyncio.AbstractEventLoop) -> None:
        self.unsent = memoryview(body)
        self.headers: dict[str, str] = {}
        self.body = bytearray()
        self.ended = False
        self.began_at = loop.time()
        self.answer: asyncio.Future[Http2Answer] = loop.create_future()

    def take(self, event: StreamEvent) -> None:
        """Process an event of the request's stream."""
        match event:
            case h2.events.ResponseReceived():
                self.headers = {_text(name): _text(value) for name, value in event.headers}
            case h2.events.DataReceived():
                self._take_data(event.data)
            case h2.events.StreamEnded():
                self._finish()
            case h2.events.StreamReset():
                self._break_off(event)

    def fail(self, error: Http2Error) -> None:
        """Raise the error where the request waits for its answer."""
        if not self.answer.done():
            self.answer.set_exception(error)

    def _break_off(self, event: h2.events.StreamReset) -> None:
        self.ended, self.unsent = True, memoryview(b"")
        if event.error_code == h2.errors.ErrorCodes.REFUSED_STREAM:
            self.fail(NotTakenError("the server refused the request before it read it"))
        else:
            self.fail(Http2Error("the server reset the request"))

    def _take_data(self, data: bytes) -> None:
        """Store a piece of the body. At 64 KiB the answer is complete, although the stream is still open."""
        self.body += data[: ANSWER_LIMIT_BYTES - len(self.body)]
        if len(self.body) >= ANSWER_LIMIT_BYTES:
            self._finish()
            self.ended = False

    def _finish(self) -> None:
        self.ended = True
        status = self.headers.pop(":status", "")
        if not status.isdecimal():
            self.fail(Http2Error("the answer has no status"))
        elif not self.answer.done():
            self.answer.set_result(Http2Answer(int(status), self.headers, bytes(self.body)))


def _text(field: bytes | str) -> str:
    return field if isinstance(field, str) else field.decode("latin-1")  # latin-1 decodes any bytes
