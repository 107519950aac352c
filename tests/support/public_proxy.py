"""A proxy before a server, which does what proxies do wrong."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp
from aiohttp import web

_OF_A_CONNECTION = frozenset({"connection", "content-length", "host", "transfer-encoding", "upgrade"})


@dataclass(slots=True)
class PublicProxy:
    """A proxy at `url`. It may be misconfigured in each of these ways."""

    upstream: str
    url: str = ""
    forwards_address: bool = True
    upgrades: bool = True
    has_patience: bool = True
    """Without it the proxy answers 504 to a long poll."""
    broken_with: int | None = None
    """The status that it answers by itself."""
    paths: list[str] = field(default_factory=list)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Pass a request on."""
        self.paths.append(request.path)
        if self.broken_with is not None:
            return web.Response(status=self.broken_with)
        async with aiohttp.ClientSession(auto_decompress=False) as session:
            if request.headers.get("Upgrade", "").lower() == "websocket":
                return await self._socket(request, session)
            if "wait" in request.query and not self.has_patience:
                return web.Response(status=504)
            return await self._answer(request, session)

    async def _answer(self, request: web.Request, session: aiohttp.ClientSession) -> web.Response:
        async with session.request(
            request.method, f"{self.upstream}{request.path_qs}",
            data=await request.read(), headers=self._headers(request), allow_redirects=False,
        ) as answer:  # fmt: skip
            kept = {name: value for name, value in answer.headers.items() if _passes(name)}
            return web.Response(status=answer.status, body=await answer.read(), headers=kept)

    async def _socket(self, request: web.Request, session: aiohttp.ClientSession) -> web.StreamResponse:
        if not self.upgrades:
            return web.Response(text="a page")
        socket = web.WebSocketResponse()
        async with session.ws_connect(f"{self.upstream}{request.path_qs}"):
            await socket.prepare(request)
            async for _ in socket:
                pass
        return socket

    def _headers(self, request: web.Request) -> dict[str, str]:
        headers = {name: value for name, value in request.headers.items() if _passes(name)}
        if self.forwards_address:
            headers["X-Forwarded-For"] = "203.0.113.7"
        return headers


def _passes(name: str) -> bool:
    return name.lower() not in _OF_A_CONNECTION


@asynccontextmanager
async def open_public_proxy(upstream: str = "") -> AsyncIterator[PublicProxy]:
    """Run a proxy until the block is left; `upstream` may be set later."""
    proxy = PublicProxy(upstream)
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", proxy.handle)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.2)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    proxy.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield proxy
    finally:
        await runner.cleanup()
