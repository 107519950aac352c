"""A proxy before a node that closes every connection after one answer, as old ones do."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp

_LENGTH = b"content-length:"
_OLD = b"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n%b"
_SILENT = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"


@asynccontextmanager
async def open_closing_proxy(node_url: str, *, is_silent: bool = False) -> AsyncIterator[str]:
    """Its URL, until the block is left. It speaks HTTP/1.0; or HTTP/1.1, and says nothing of its closing."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        body = await _request_body(reader)
        async with aiohttp.ClientSession() as client, client.post(node_url, data=body) as answer:
            content = await answer.read()
        writer.write(_SILENT % (len(content), content) if is_silent else _OLD % content)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def _request_body(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    [length] = [line for line in head.lower().split(b"\r\n") if line.startswith(_LENGTH)]
    return await reader.readexactly(int(length.removeprefix(_LENGTH)))
