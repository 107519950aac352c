"""Servers that run in the tour's own process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import orjson
from aiohttp import web
from pydantic import SecretStr

from bridge_server.assembly.application import build_app
from bridge_server.settings.settings import Settings
from bridge_server.tour.node import local_node

ADMIN_TOKEN = "tour"  # noqa: S105 - of a server that ends with the tour, on loopback


@asynccontextmanager
async def own_server(*, with_node: bool) -> AsyncIterator[str]:
    """Start a server, with an Ethereum node if `with_node` is set and anvil is installed; yields its URL."""
    with TemporaryDirectory() as folder:
        async with local_node() if with_node else nullcontext() as node_url:
            settings = Settings(
                port=0,
                data_dir=Path(folder),
                allow_private_webhooks=True,
                admin_token=SecretStr(ADMIN_TOKEN),
                dev_accounts=True,
                dev_account_count=2,
                node_url=node_url,
            )
            async with listening(build_app(settings).application) as url:
                yield url


@asynccontextmanager
async def webhook_receiver(path: str) -> AsyncIterator[tuple[str, asyncio.Queue[Any]]]:
    """Start a receiver of webhooks; yields its URL and a queue of the JSON bodies that it has received."""
    received: asyncio.Queue[Any] = asyncio.Queue()

    async def take(request: web.Request) -> web.Response:
        received.put_nowait(orjson.loads(await request.read()))
        return web.Response()

    application = web.Application()
    application.router.add_post(path, take)
    async with listening(application) as url:
        yield f"{url}{path}", received


@asynccontextmanager
async def listening(application: web.Application) -> AsyncIterator[str]:
    """Serve the application on a free port; yields its URL."""
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=1)
    try:
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
