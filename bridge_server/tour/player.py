"""The parties of the tour: dapp, wallet, backend, operator."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import orjson

from bridge_server.tour.transcript import Printed, show

_PATIENCE_SECONDS = 10


class Player:
    """A client of the server, with its name in the transcript and an optional bearer token."""

    def __init__(self, who: str, url: str, client: aiohttp.ClientSession, token: str | None = None) -> None:
        self.url = url
        self.token = token
        self._who = who
        self._client = client

    async def send(self, method: str, path: str, body: Any = None) -> Any:
        """Send and print a request; returns the JSON of the answer. Raises aiohttp.ClientResponseError."""
        return show(await self.ask(method, path, body))

    async def ask(self, method: str, path: str, body: Any = None, wait: int = 0) -> Printed:
        """Send and print a request that waits up to `wait` seconds (a long poll)."""
        headers = {"Prefer": f"wait={wait}"} if wait else {}
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token}"
        async with self._client.request(method, self.url + path, json=body, headers=headers) as response:
            response.raise_for_status()
            answer = orjson.loads(await response.read()) if response.status == 200 else None
        asked = f"{method} {path}" + (f"  Prefer: wait={wait}" if wait else "")
        return Printed(self._who, asked, body, response.status, answer)

    @asynccontextmanager
    async def polling(self, path: str) -> AsyncIterator["asyncio.Task[Printed]"]:
        """A long poll that waits while the block goes on; it ends with the block, whatever ends that."""
        waiting = asyncio.create_task(self.ask("GET", path, wait=_PATIENCE_SECONDS))
        try:
            yield waiting
        finally:
            waiting.cancel()
            await asyncio.wait([waiting])
            _ = waiting.cancelled() or waiting.exception()  # it was raised where the answer was awaited
