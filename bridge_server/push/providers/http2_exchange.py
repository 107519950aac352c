"""One request over HTTP/2 and its result: an answer or an error."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from bridge_server.outgoing.bounded_body import ANSWER_LIMIT_BYTES


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

    def take_headers(self, fields: Iterable[tuple[bytes | str, bytes | str]]) -> None:
        """Store the header fields of the answer."""
        self.headers = {_text(name): _text(value) for name, value in fields}

    def take_data(self, data: bytes) -> None:
        """Store a piece of the body. At 64 KiB the answer is complete, although the stream is still open."""
        self.body += data[: ANSWER_LIMIT_BYTES - len(self.body)]
        if len(self.body) >= ANSWER_LIMIT_BYTES:
            self.finish()
            self.ended = False

    def fail(self, error: Http2Error) -> None:
        """Raise the error where the request waits for its answer."""
        if not self.answer.done():
            self.answer.set_exception(error)

    def finish(self) -> None:
        """Complete the answer."""
        self.ended = True
        status = self.headers.pop(":status", "")
        if not status.isdecimal():
            self.fail(Http2Error("the answer has no status"))
        elif not self.answer.done():
            self.answer.set_result(Http2Answer(int(status), self.headers, bytes(self.body)))


def _text(field: bytes | str) -> str:
    return field if isinstance(field, str) else field.decode("latin-1")  # latin-1 decodes any bytes
