"""A wallet that sleeps is woken by a push, in its own language."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import orjson
from aiohttp import web

from scenes.party import Party
from scenes.servers import listening
from scenes.transcript import Exchange, say, show

_PATIENCE_SECONDS = 10


async def push_scene(url: str) -> None:
    """Session, registration, call, push."""
    async with aiohttp.ClientSession() as client, _device() as (device, pushes):
        dapp, wallet = Party("dapp", url, client), Party("wallet", url, client)
        say("A wallet that will sleep registers for pushes: by FCM, APNs or Web Push, here by a webhook.")
        session_id = (await dapp.send("POST", "/session/new"))["sessionId"]
        registration = {
            "bridge": url,
            "topic": session_id,
            "type": "webhook",
            "token": device,
            "peerName": "Example Dapp",
            "language": "de-CH",
        }
        await wallet.send("POST", "/new", registration)

        say("The dapp's call becomes a push in the wallet's language.")
        call = {"encryptionPayload": "...", "dappName": "Example Dapp"}
        await dapp.send("POST", f"/session/{session_id}/call/new", call)
        async with asyncio.timeout(_PATIENCE_SECONDS):
            show(Exchange("push", "POST https://device.example/push", await pushes.get(), 200))
        await wallet.send("DELETE", f"/session/{session_id}")


@asynccontextmanager
async def _device() -> AsyncIterator[tuple[str, asyncio.Queue[Any]]]:
    """A device that is reached by a webhook: its URL, and what arrives there."""
    pushes: asyncio.Queue[Any] = asyncio.Queue()

    async def take(request: web.Request) -> web.Response:
        pushes.put_nowait(orjson.loads(await request.read()))
        return web.Response()

    application = web.Application()
    application.router.add_post("/push", take)
    async with listening(application) as url:
        yield f"{url}/push", pushes
