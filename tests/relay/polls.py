"""The three reads that a client may wait on, each with what wakes it and what it then says."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from tests.support.asking import Answer, until_waiting
from tests.support.bridge_client import BridgeClient


@dataclass(frozen=True, slots=True)
class Poll:
    """A read that has nothing to say yet."""

    bridge: BridgeClient
    session_id: str
    path: str
    happen: Callable[[], Awaitable[bytes]]
    """Make the change that is waited for; returns the body that the read has from then on."""
    empty: tuple[int, bytes]
    """The answer when nothing has happened: status and body."""

    async def read(self, query: str = "", **headers: str) -> Answer:
        return await self.bridge.get(self.path + query, headers)

    @asynccontextmanager
    async def waiting(self, query: str = "", **headers: str) -> AsyncIterator["asyncio.Task[Answer]"]:
        """A read that waits, as long as the block lasts at most."""
        task = asyncio.create_task(self.read(query, **headers))
        try:
            await until_waiting(self.bridge.server, 1)
            yield task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def session_poll(bridge: BridgeClient) -> Poll:
    """The dapp waits for the wallet's approval."""
    session_id = await bridge.open_session()

    async def approve() -> bytes:
        assert (await bridge.update(session_id, "approved")).status == 200
        return b'{"encryptionPayload":"approved"}'

    return Poll(bridge, session_id, f"/session/{session_id}", approve, (204, b""))


async def calls_poll(bridge: BridgeClient) -> Poll:
    """The wallet waits for calls."""
    session_id = await bridge.open_session()

    async def call() -> bytes:
        call_id = await bridge.request_call(session_id, "sign")
        return b'{"%b":{"encryptionPayload":"sign"}}' % call_id.encode()

    return Poll(bridge, session_id, f"/session/{session_id}/calls", call, (200, b"{}"))


async def status_poll(bridge: BridgeClient) -> Poll:
    """The dapp waits for the wallet's answer to a call."""
    session_id = await bridge.open_session()
    call_id = await bridge.request_call(session_id)

    async def answer() -> bytes:
        assert (await bridge.answer(call_id, "signed")).status == 200
        return b'{"encryptionPayload":"signed"}'

    return Poll(bridge, session_id, f"/call-status/{call_id}", answer, (204, b""))


POLLS = {"session": session_poll, "calls": calls_poll, "status": status_poll}
V07_PATH = "/compat/v0.7"
