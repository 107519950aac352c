"""A push wakes a wallet, with a text in its language."""

import asyncio

import aiohttp

from bridge_server.tour.player import Player
from bridge_server.tour.servers import webhook_receiver
from bridge_server.tour.transcript import Printed, say, show

_PATIENCE_SECONDS = 10


async def push_scene(url: str) -> None:
    """Session, registration, call, push."""
    async with aiohttp.ClientSession() as client, webhook_receiver("/push") as (device, pushes):
        dapp, wallet = Player("dapp", url, client), Player("wallet", url, client)
        say("A wallet registers for pushes before it sleeps: by FCM, APNs or Web Push, here by a webhook.")
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
            show(Printed("push", "POST https://device.example/push", await pushes.get(), 200))
        await wallet.send("DELETE", f"/session/{session_id}")
