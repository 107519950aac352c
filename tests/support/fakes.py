"""The base of the fake outside services: a port, and some of the answers that a test may choose."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from ssl import SSLContext
from typing import Any

from aiohttp import web


@asynccontextmanager
async def listening(
    runner: web.BaseRunner, released: asyncio.Event | None = None, *,
    host: str = "127.0.0.1", tls: SSLContext | None = None, backlog: int = 128,
) -> AsyncIterator[int]:  # fmt: skip
    """The port of the runner's application until the end of the block, when what hangs is `released`."""
    await runner.setup()
    try:
        await web.TCPSite(runner, host, 0, ssl_context=tls, backlog=backlog).start()
        yield runner.addresses[0][1]
    finally:
        if released is not None:
            released.set()
        await runner.cleanup()


def with_hyphens(headers: dict[str, str]) -> dict[str, str]:
    """Header fields by the names of arguments, which have underscores in the place of hyphens."""
    return {name.replace("_", "-"): value for name, value in headers.items()}


def status(
    code: int, text: str | None = None, **headers: str
) -> Callable[[object, web.BaseRequest], Awaitable[web.StreamResponse]]:
    """Answer with this status; underscores in the names of headers become hyphens."""

    async def answer(_: object, __: web.BaseRequest) -> web.Response:
        return web.Response(status=code, text=text, headers=with_hyphens(headers))

    return answer


async def hang(service: Any, _: web.BaseRequest) -> web.Response:
    """Send no answer until the service is released or closed."""
    await service.released.wait()
    return web.Response(status=503)


async def reset(_: object, request: web.BaseRequest) -> web.Response:
    """Abort the connection without an answer."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()
