"""Servers that run in the tour's own process."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from aiohttp import web
from pydantic import SecretStr

from bridge_server.app import build_app
from bridge_server.settings import Settings

ADMIN_TOKEN = "tour"


@asynccontextmanager
async def own_server() -> AsyncIterator[str]:
    """A server for the tour alone; yields its URL."""
    with TemporaryDirectory() as folder:
        settings = Settings(
            port=0, data_dir=Path(folder), allow_private_webhooks=True, admin_token=SecretStr(ADMIN_TOKEN)
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
