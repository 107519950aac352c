"""What one request over HTTP/2 amounts to: an answer, or one of a few ways to get none."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from bridge_server.outgoing.bounded_body import ANSWER_LIMIT_BYTES


class Http2Error(Exception):
    """A request came to nothing; the text is for people, and quotes nothing of the request."""


class NotTakenError(Http2Error):
    """The server has certainly done nothing with the request: it may be sent again."""


class ConnectionLostError(Http2Error):
    """The connection broke before the answer: nobody knows what the server has done."""


@dataclass(frozen=True, slots=True)
class Http2Answer:
    """A status, the other header fields with lower-case names, and the body, cut at 64 KiB."""

    status: int
    headers: dict[str, str]
    body: bytes


class Http2Exchange:
    """A request on its way and the answer as far as it came.

    `unsent` is what is left of the request's body, `ended` whether the server has said all on the stream, and
    `began_at` the event loop's time.
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
        """Keep the fields of the answer."""
        self.headers = {_text(name): _text(value) for name, value in fields}

    def take_data(self, data: bytes) -> None:
        """Keep a piece of the body; at 64 KiB the answer counts as whole, and the stream as still open."""
        self.body += data[: ANSWER_LIMIT_BYTES - len(self.body)]
        if len(self.body) >= ANSWER_LIMIT_BYTES:
            self.finish()
            self.ended = False

    def fail(self, error: Http2Error) -> None:
        """Tell the one who waits."""
        if not self.answer.done():
            self.answer.set_exception(error)

    def finish(self) -> None:
        """Hand the answer to the one who waits."""
        self.ended = True
        status = self.headers.pop(":status", "")
        if not status.isdecimal():
            self.fail(Http2Error("the answer has no status"))
        elif not self.answer.done():
            self.answer.set_result(Http2Answer(int(status), self.headers, bytes(self.body)))


def _text(field: bytes | str) -> str:
    return field if isinstance(field, str) else field.decode("latin-1")  # any bytes can be read so
