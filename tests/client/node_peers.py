"""Published clients in Node, which print JSON lines while they do what they are ordered to."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson

from tests.support.node_packages import PACKAGES

_LONGEST_LINE_BYTES = 2**20


@asynccontextmanager
async def node_peers(script: str, **orders: Any) -> AsyncIterator[asyncio.StreamReader]:
    """The lines of a script of tests/node, which is ended on leaving."""
    process = await asyncio.create_subprocess_exec(
        "node",
        PACKAGES / script,
        orjson.dumps(orders).decode(),
        stdout=asyncio.subprocess.PIPE,
        limit=_LONGEST_LINE_BYTES,
    )
    assert process.stdout is not None
    try:
        yield process.stdout
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
