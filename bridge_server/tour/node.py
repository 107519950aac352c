"""An Ethereum node for the tour: anvil, if it is installed."""

import asyncio
import shutil
import socket
from asyncio.subprocess import DEVNULL
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import aiohttp

_PACKAGES = Path(__file__).parents[2] / "tests" / "node" / "node_modules" / "@foundry-rs"
"""The place at which `scripts/test --all` puts anvil in a checkout."""

_PATIENCE_SECONDS = 30
_PAUSE_SECONDS = 0.05


@asynccontextmanager
async def local_node() -> AsyncIterator[str | None]:
    """A node that mines a block for each transaction; yields its URL, or None if anvil is not installed."""
    program = _anvil()
    if program is None:
        yield None
        return
    port = _free_port()
    process = await asyncio.create_subprocess_exec(
        program, "--port", str(port), "--silent", stdin=DEVNULL, stdout=DEVNULL
    )
    try:
        url = f"http://127.0.0.1:{port}"
        async with asyncio.timeout(_PATIENCE_SECONDS):
            await _until_it_answers(url)
        yield url
    finally:
        with suppress(ProcessLookupError):  # Ctrl+C ends it, too
            process.terminate()
        await process.wait()


def _anvil() -> str | None:
    """The path of the program itself: npm's wrapper would leave it running when the tour ends."""
    installed = sorted(_PACKAGES.glob("anvil-*/bin/anvil"))
    return str(installed[0]) if installed else shutil.which("anvil")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def _until_it_answers(url: str) -> None:
    question = {"jsonrpc": "2.0", "id": 1, "method": "eth_chainId"}
    async with aiohttp.ClientSession() as client:
        while True:
            try:
                async with client.post(url, json=question) as response:
                    await response.read()
                return
            except aiohttp.ClientConnectionError:
                await asyncio.sleep(_PAUSE_SECONDS)
