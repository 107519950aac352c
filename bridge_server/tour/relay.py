"""A dapp and a wallet meet, with real encryption and a real webhook."""

import asyncio
import secrets
from typing import Any

import aiohttp

from bridge_server.client import Cipher
from bridge_server.tour.player import Player
from bridge_server.tour.servers import webhook_receiver
from bridge_server.tour.transcript import Printed, line, say, show

_ACCOUNT = "0xcd2a3d9f938e13cd947ec05abc7fe734df8dd826"
_PATIENCE_SECONDS = 10


class Peer(Player):
    """A dapp or a wallet, with the session's key from the QR code."""

    def __init__(self, who: str, url: str, client: aiohttp.ClientSession, cipher: Cipher) -> None:
        super().__init__(who, url, client)
        self._cipher = cipher
        self.seal = cipher.seal

    def decrypt(self, payload: dict[str, str]) -> Any:
        """Decrypt a payload; prints and returns its content."""
        content = self._cipher.open(payload)
        line("", "=", content)
        return content


async def relay_scene(url: str) -> None:
    """Session, approval, call, webhook, status and farewell."""
    cipher = Cipher(secrets.token_bytes(32))
    async with aiohttp.ClientSession() as client, webhook_receiver("/hook") as (webhook, notices):
        dapp = Peer("dapp", url, client, cipher)
        wallet = Peer("wallet", url, client, cipher)
        session = await _open_and_approve(dapp, wallet, webhook)
        await _call_and_answer(dapp, wallet, session, notices)
        say("The wallet disconnects.")
        await wallet.send("DELETE", session)


async def _open_and_approve(dapp: Peer, wallet: Peer, webhook: str) -> str:
    say("The dapp opens a session, and shows its id and a new key as a QR code.")
    session_id = (await dapp.send("POST", "/session/new"))["sessionId"]
    session = f"/session/{session_id}"
    async with dapp.polling(session) as waiting:
        say("The wallet scans it and approves. The waiting dapp gets the approval at once.")
        approval = {
            "encryptionPayload": wallet.seal({"approved": True, "accounts": [_ACCOUNT]}),
            "push": {"type": "fcm", "token": "device-token", "webhook": webhook},
        }
        await wallet.send("PUT", session, approval)
        dapp.decrypt(show(await waiting)["encryptionPayload"])
    return session


async def _call_and_answer(dapp: Peer, wallet: Peer, session: str, notices: asyncio.Queue[Any]) -> None:
    say("The dapp asks for a signature; the wallet's push webhook is called.")
    request = {"id": 1, "jsonrpc": "2.0", "method": "personal_sign", "params": ["0x68656c6c6f", _ACCOUNT]}
    call = {"encryptionPayload": dapp.seal(request), "dappName": "Example Dapp"}
    call_id = (await dapp.send("POST", f"{session}/call/new", call))["callId"]
    async with asyncio.timeout(_PATIENCE_SECONDS):
        show(Printed("bridge", "POST https://push.example/hook", await notices.get(), 200))
    async with dapp.polling(f"/call-status/{call_id}") as waiting:
        say("The wallet wakes up, reads its calls and answers. The waiting dapp gets the answer at once.")
        calls = await wallet.send("GET", f"{session}/calls")
        wanted = wallet.decrypt(calls[call_id]["encryptionPayload"])
        status = wallet.seal({"id": wanted["id"], "jsonrpc": "2.0", "result": "0x5f1c...1b"})
        await wallet.send("POST", f"/call-status/{call_id}/new", {"encryptionPayload": status})
        dapp.decrypt(show(await waiting)["encryptionPayload"])
