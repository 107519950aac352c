"""Reading server-sent events, as a browser would."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
import orjson
from multidict import CIMultiDictProxy

from tests.support.inbox_client import InboxClient

_PATIENCE_SECONDS = 60.0
_ENDLESS = aiohttp.ClientTimeout(total=None)


@dataclass(frozen=True, slots=True)
class Event:
    """A notification as it came, and the id to go on from."""

    id: str
    data: Any


@dataclass(frozen=True, slots=True)
class EventReader:
    """An open stream."""

    response: aiohttp.ClientResponse

    @property
    def headers(self) -> CIMultiDictProxy[str]:
        return self.response.headers

    async def block(self) -> str:
        """The lines until the next empty line; none when the stream has ended."""
        async with asyncio.timeout(_PATIENCE_SECONDS):
            lines = []
            while (line := await self.response.content.readline()) not in (b"\n", b""):
                lines.append(line.decode())
        return "".join(lines)

    async def next(self) -> Event:
        """The next notification; comments are passed over."""
        while (block := await self.block()).startswith(":"):
            pass
        fields = dict(line.split(": ", 1) for line in block.splitlines())
        assert fields.keys() == {"id", "event", "data"}, block
        assert fields["event"] == "notification"
        return Event(fields["id"], orjson.loads(fields["data"]))

    async def titles(self, count: int) -> list[str]:
        """The titles of the next notifications."""
        return [(await self.next()).data["title"] for _ in range(count)]

    async def ended(self) -> bool:
        """Whether nothing more comes, in good order; raises TimeoutError when the stream goes on."""
        return await self.block() == ""


@asynccontextmanager
async def open_stream(inbox: InboxClient, query: str = "", **headers: str) -> AsyncIterator[EventReader]:
    """A stream that has begun, until the end of the block."""
    async with inbox.server.client.get(
        f"{inbox.server.url}/inbox/stream{query}", headers={**inbox.headers, **headers}, timeout=_ENDLESS
    ) as response:
        assert response.status == 200, await response.text()
        reader = EventReader(response)
        assert await reader.block() == "retry: 2000\n"
        yield reader
