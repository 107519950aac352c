"""A tour of the bridge: a dapp and a wallet meet, with real encryption and a real webhook.

    .venv/bin/python scripts/tour.py            against a server of its own
    .venv/bin/python scripts/tour.py --url URL  against yours, started with --allow-private-webhooks

What it prints is the transcript in the README; ids and ciphertext, which differ each time, are shortened.
"""

import argparse
import asyncio
import hmac
import os
import re
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import aiohttp
import orjson
from aiohttp import web
from Crypto.Cipher import AES
from Crypto.Util.Padding import pad, unpad

from bridge_server.app import build_app
from bridge_server.settings import Settings

_ACCOUNT = "0xcd2a3d9f938e13cd947ec05abc7fe734df8dd826"
_PATIENCE_SECONDS = 10


class Cipher:
    """AES-256-CBC, then HMAC-SHA256 over ciphertext and IV: the bridge sees neither key nor content."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def seal(self, content: Any) -> dict[str, str]:
        """The content as an `encryptionPayload`."""
        iv = os.urandom(16)
        data = AES.new(self._key, AES.MODE_CBC, iv).encrypt(pad(orjson.dumps(content), 16))
        return {"data": data.hex(), "hmac": self._mac(data, iv), "iv": iv.hex()}

    def open(self, payload: dict[str, str]) -> Any:
        """The content of an `encryptionPayload`; ValueError if anybody has touched it."""
        data, iv = bytes.fromhex(payload["data"]), bytes.fromhex(payload["iv"])
        if not hmac.compare_digest(self._mac(data, iv), payload["hmac"]):
            raise ValueError("the payload was tampered with")
        return orjson.loads(unpad(AES.new(self._key, AES.MODE_CBC, iv).decrypt(data), 16))

    def _mac(self, data: bytes, iv: bytes) -> str:
        return hmac.new(self._key, data + iv, sha256).hexdigest()


_STABLE = (
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}"), "SESSION"),
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}"), "CALL"),
    (re.compile(r'"expires":\d+'), '"expires":1800000000000'),
    (re.compile(r"http://127\.0\.0\.1:\d+/hook"), "https://push.example/hook"),
)


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and its answer."""

    who: str
    request: str
    body: Any
    status: int
    answer: Any = None


def say(text: str) -> None:
    """A sentence between the requests."""
    print(f"\n# {text}")


def show(exchange: Exchange) -> Any:
    """Print an exchange, with stable names for what differs each time; returns the answer."""
    line(exchange.who, exchange.request, exchange.body)
    line("", str(exchange.status), exchange.answer)
    return exchange.answer


def line(label: str, text: str, value: Any = None) -> None:
    """Print one line of the transcript."""
    printed = f"{label:<7} {text}" + (f" {orjson.dumps(_shortened(value)).decode()}" if value else "")
    for pattern, name in _STABLE:
        printed = pattern.sub(name, printed)
    print(printed)


def _shortened(value: Any) -> Any:
    if isinstance(value, dict) and value.keys() == {"data", "hmac", "iv"}:
        return "..."
    if isinstance(value, dict):
        return {name: _shortened(inner) for name, inner in value.items()}
    return value


class Party:
    """A dapp or a wallet: it knows the bridge's URL, and the session's key from the QR code."""

    def __init__(self, who: str, url: str, cipher: Cipher, client: aiohttp.ClientSession) -> None:
        self._who = who
        self._url = url
        self._client = client
        self._cipher = cipher
        self.seal = cipher.seal

    def decrypt(self, payload: dict[str, str]) -> Any:
        """Print and return what a payload says."""
        content = self._cipher.open(payload)
        line("", "=", content)
        return content

    async def send(self, method: str, path: str, body: Any = None) -> Any:
        """One request, printed; returns the answer's JSON. Raises aiohttp.ClientResponseError."""
        return show(await self.ask(method, path, body))

    async def ask(self, method: str, path: str, body: Any = None, wait: int = 0) -> Exchange:
        """One request, waiting up to so many seconds for something to be there."""
        headers = {"Prefer": f"wait={wait}"} if wait else {}
        async with self._client.request(method, self._url + path, json=body, headers=headers) as response:
            response.raise_for_status()
            answer = orjson.loads(await response.read()) if response.status == 200 else None
        asked = f"{method} {path}" + (f"  Prefer: wait={wait}" if wait else "")
        return Exchange(self._who, asked, body, response.status, answer)


async def tour(url: str) -> None:
    """Walk through session, approval, call, webhook, status and farewell."""
    cipher = Cipher(secrets.token_bytes(32))
    async with aiohttp.ClientSession() as client, _webhook() as (webhook, notices):
        dapp = Party("dapp", url, cipher, client)
        wallet = Party("wallet", url, cipher, client)
        session = await _open_and_approve(dapp, wallet, webhook)
        await _call_and_answer(dapp, wallet, session, notices)
        say("The wallet disconnects.")
        await wallet.send("DELETE", session)


async def _open_and_approve(dapp: Party, wallet: Party, webhook: str) -> str:
    say("The dapp opens a session, and shows its id and a fresh key as a QR code.")
    session_id = (await dapp.send("POST", "/session/new"))["sessionId"]
    session = f"/session/{session_id}"
    waiting = asyncio.create_task(dapp.ask("GET", session, wait=_PATIENCE_SECONDS))

    say("The wallet scans it and approves. The dapp, which was waiting, hears of it at once.")
    approval = {
        "encryptionPayload": wallet.seal({"approved": True, "accounts": [_ACCOUNT]}),
        "push": {"type": "fcm", "token": "device-token", "webhook": webhook},
    }
    await wallet.send("PUT", session, approval)
    dapp.decrypt(show(await waiting)["encryptionPayload"])
    return session


async def _call_and_answer(dapp: Party, wallet: Party, session: str, notices: asyncio.Queue[Any]) -> None:
    say("The dapp asks for a signature; the wallet's push webhook is told.")
    request = {"id": 1, "jsonrpc": "2.0", "method": "personal_sign", "params": ["0x68656c6c6f", _ACCOUNT]}
    call = {"encryptionPayload": dapp.seal(request), "dappName": "Example Dapp"}
    call_id = (await dapp.send("POST", f"{session}/call/new", call))["callId"]
    async with asyncio.timeout(_PATIENCE_SECONDS):
        show(Exchange("bridge", "POST https://push.example/hook", await notices.get(), 200))
    waiting = asyncio.create_task(dapp.ask("GET", f"/call-status/{call_id}", wait=_PATIENCE_SECONDS))

    say("The wallet wakes up, reads its calls and answers. The dapp hears of it at once.")
    calls = await wallet.send("GET", f"{session}/calls")
    wanted = wallet.decrypt(calls[call_id]["encryptionPayload"])
    status = wallet.seal({"id": wanted["id"], "jsonrpc": "2.0", "result": "0x5f1c...1b"})
    await wallet.send("POST", f"/call-status/{call_id}/new", {"encryptionPayload": status})
    dapp.decrypt(show(await waiting)["encryptionPayload"])


@asynccontextmanager
async def _webhook() -> AsyncIterator[tuple[str, asyncio.Queue[Any]]]:
    """The wallet's push webhook: its URL, and what arrives there."""
    notices: asyncio.Queue[Any] = asyncio.Queue()

    async def hook(request: web.Request) -> web.Response:
        notices.put_nowait(orjson.loads(await request.read()))
        return web.Response()

    application = web.Application()
    application.router.add_post("/hook", hook)
    async with _listening(application) as url:
        yield f"{url}/hook", notices


@asynccontextmanager
async def _own_server() -> AsyncIterator[str]:
    with TemporaryDirectory() as folder:
        settings = Settings(port=0, data_dir=Path(folder), allow_private_webhooks=True)
        async with _listening(build_app(settings).application) as url:
            yield url


@asynccontextmanager
async def _listening(application: web.Application) -> AsyncIterator[str]:
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=1)
    try:
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def _main() -> None:
    parser = argparse.ArgumentParser(description="Play a dapp and a wallet that talk through the bridge.")
    parser.add_argument("--url", help="a running server; without it the tour starts one of its own")
    url = parser.parse_args().url
    if url:
        await tour(url.rstrip("/"))
    else:
        async with _own_server() as own:
            await tour(own)


if __name__ == "__main__":
    asyncio.run(_main())
