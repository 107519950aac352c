"""Servers that run in the tour's own process."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory

from aiohttp import web
from pydantic import SecretStr

from bridge_server.assembly.application import build_app
from bridge_server.settings.settings import Settings
from scenes.node import local_node

ADMIN_TOKEN = "tour"


@asynccontextmanager
async def own_server(*, with_node: bool) -> AsyncIterator[str]:
    """A server for the tour alone, perhaps with a node of its own where there is anvil; yields its URL."""
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
async def listening(application: web.Application) -> AsyncIterator[str]:
    """Serve the application on a free port; yields its URL."""
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=1)
    try:
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
