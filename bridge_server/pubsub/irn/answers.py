"""Answers to publications of a client, which has to have read them before it is sent a message.

JavaScript clients lose a response that they read before the answer to the request's publication, or in one
piece with it. So nothing is sent while a publication of the client is not answered, and a pong has to say
that a new answer was read before a message follows it.
"""

import asyncio
from contextlib import suppress

from bridge_server.web.frames import ping_frame
from bridge_server.web.socket import Socket

_IS_NEW_SECONDS = 2.0
_PONG_SECONDS = 1.0
"""A client that answers no ping is sent its messages after this time."""


class Answers:
    """The answers that one socket is owed, or was written a moment ago."""

    __slots__ = ("_ping", "_ping_number", "_pong", "_written_at", "owed")

    def __init__(self) -> None:
        self.owed = 0
        """Publications that are on their way to the disk."""
        self._written_at: float | None = None
        self._ping, self._ping_number = b"", 0
        self._pong: asyncio.Event | None = None

    def has_asked(self) -> None:
        """The client has made a publication, which is on its way to the disk."""
        self.owed += 1

    def has_answer(self) -> None:
        """The answer to a publication was written."""
        self.owed -= 1
        self._written_at = asyncio.get_running_loop().time()

    def recognise(self, pong: bytes) -> None:
        """The client has read what was written before the ping."""
        if self._pong is not None and pong == self._ping:
            self._pong.set()

    @property
    def has_unread(self) -> bool:
        """Whether an answer was written just now, and the client may not have read it yet."""
        if self._written_at is None:
            return False
        if asyncio.get_running_loop().time() < self._written_at + _IS_NEW_SECONDS:
            return True
        self._written_at = None
        return False

    async def until_read(self, outlet: Socket) -> None:
        """Return once the client has read what was written, or gives no sign of it."""
        if not self.has_unread:
            return
        written_at, self._pong = self._written_at, asyncio.Event()
        self._ping_number += 1
        self._ping = b"answered %d" % self._ping_number
        outlet.push(ping_frame(self._ping))
        with suppress(TimeoutError):
            async with asyncio.timeout(_PONG_SECONDS):
                await self._pong.wait()
        if self._written_at == written_at:
            self._written_at = None
