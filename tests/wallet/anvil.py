"""A real node: anvil, in a process of its own, which tests start, kill and start again."""

import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.support.eventually import eventually
from tests.support.free_ports import free_ports
from tests.support.node_packages import PACKAGES, needs_anvil

__all__ = ["CHAIN_ID", "Anvil", "needs_anvil", "open_anvil"]

CHAIN_ID = 31_337

# The program itself: killing the script that npm puts before it would leave it running.
_PROGRAMS = sorted(PACKAGES.glob("node_modules/@foundry-rs/anvil-*/bin/anvil*"))
_STOP_SECONDS = 60.0


@dataclass(slots=True)
class Anvil:
    """A node that mines a block for each transaction, on one port all its lives."""

    state_file: Path
    port: int = field(default_factory=lambda: free_ports(1)[0])
    _process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self.port}"

    async def start(self, *arguments: str, keeps_state: bool = True) -> None:
        """Start it, with the state that the last life left unless it forgets, and wait until it answers."""
        if not _PROGRAMS:
            pytest.skip("there is no anvil for this machine")
        state = ["--state", str(self.state_file)] if keeps_state else []
        self._begin([str(_PROGRAMS[0]), "--port", str(self.port), "--silent", *state, *arguments])
        await eventually(self._answers, within_seconds=60)

    def stop(self) -> None:
        """End it so that it keeps its state."""
        self._end(subprocess.Popen.terminate)

    def kill(self) -> None:
        """End it with SIGKILL: unwritten state is lost."""
        self._end(subprocess.Popen.kill)

    async def call(self, method: str, *params: Any) -> Any:
        """The result of a call, without the wallet."""
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        async with aiohttp.ClientSession() as client, client.post(self.url, json=request) as response:
            answer = await response.json()
            assert "error" not in answer, answer
            return answer["result"]

    async def receipt(self, transaction_hash: str) -> Any:
        """The receipt of a transaction, once it is mined."""

        async def is_mined() -> bool:
            return await self.call("eth_getTransactionReceipt", transaction_hash) is not None

        await eventually(is_mined)
        return await self.call("eth_getTransactionReceipt", transaction_hash)

    async def count(self, address: str, count: int) -> None:
        """Return once so many transactions of the account are mined."""

        async def are_mined() -> bool:
            return bool(await self.call("eth_getTransactionCount", address, "latest") == hex(count))

        await eventually(are_mined)

    async def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, "anvil has ended"
        try:
            return bool(await self.call("eth_chainId"))
        except aiohttp.ClientError:
            return False

    def _begin(self, command: list[str]) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL)

    def _end(self, how: Any) -> None:
        if self._process is not None:
            how(self._process)
            self._process.wait(_STOP_SECONDS)
            self._process = None


@asynccontextmanager
async def open_anvil(directory: Path, *arguments: str) -> AsyncIterator[Anvil]:
    """A node that runs until the block is left, unless the test ends it before."""
    anvil = Anvil(directory / "anvil.json")
    try:
        await anvil.start(*arguments)
        yield anvil
    finally:
        anvil.kill()
