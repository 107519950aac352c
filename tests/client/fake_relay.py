"""A bridge or relay on a real port that does with each frame what a test says, and frames for it to say."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import aiohttp
import orjson
from aiohttp import web

from bridge_server.kit.client import Dapp
from bridge_server.kit.client import v2_protocol as v2
from bridge_server.kit.client.v2_protocol import TopicKey
from tests.client.pairs import ACCOUNT
from tests.support.waiting import eventually

Frame: TypeAlias = dict[str, Any]
Reaction: TypeAlias = Callable[["FakeRelay", web.WebSocketResponse, Frame], Awaitable[None]]


class FakeRelay:
    """Remembers the frames that came; answers each with `react`, and handshakes with `statuses` first."""

    def __init__(self) -> None:
        self.url = ""
        self.frames: list[Frame] = []
        self.connections = 0
        self.statuses: list[int] = []
        self.react: Reaction = confirm
        self._sockets: set[web.WebSocketResponse] = set()

    def of(self, method: str) -> list[Frame]:
        """The frames of a method."""
        return [frame for frame in self.frames if frame.get("method") == method]

    def topics(self) -> list[str]:
        """The topics of generation 1.x to which the clients have subscribed."""
        return [frame["topic"] for frame in self.frames if frame["type"] == "sub"]

    async def got(self, method: str, times: int) -> None:
        """Return once so many frames of the method have come."""
        await eventually(lambda: len(self.of(method)) >= times)

    async def acknowledged(self, number: int, times: int = 1) -> None:
        """Return once so many clients have acknowledged the delivery."""

        def enough() -> bool:
            told = [frame["id"] for frame in self.frames if frame.get("result") is True]
            return told.count(number) >= times

        await eventually(enough)

    async def say(self, *frames: str | Frame) -> None:
        """Send frames to everybody who is connected."""
        for socket in set(self._sockets):
            for frame in frames:
                await socket.send_str(frame if isinstance(frame, str) else orjson.dumps(frame).decode())

    async def break_off(self) -> None:
        """Close every connection."""
        for socket in set(self._sockets):
            await socket.close()

    async def serve(self, request: web.Request) -> web.StreamResponse:
        if self.statuses:
            return web.Response(status=self.statuses.pop(0), headers={"Retry-After": "0"})
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        self.connections += 1
        self._sockets.add(socket)
        try:
            await self._read(socket)
        finally:
            self._sockets.discard(socket)
        return socket

    async def _read(self, socket: web.WebSocketResponse) -> None:
        async for message in socket:
            if message.type is aiohttp.WSMsgType.TEXT:
                frame = orjson.loads(message.data)
                self.frames.append(frame)
                await self.react(self, socket, frame)


@asynccontextmanager
async def open_fake_relay() -> AsyncIterator[FakeRelay]:
    """A relay that confirms everything and passes nothing on."""
    fake = FakeRelay()
    application = web.Application()
    application.router.add_get("/", fake.serve)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        fake.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield fake
    finally:
        await runner.cleanup()


async def confirm(_: FakeRelay, socket: web.WebSocketResponse, frame: Frame) -> None:
    """Answer `true` to what is a call of generation 2.x. A pong confirms the frames of generation 1.x."""
    if "method" in frame:
        await socket.send_json({"id": frame["id"], "jsonrpc": "2.0", "result": True})


def reacting(
    act: Callable[[web.WebSocketResponse, Frame], Awaitable[object]], *kinds: str, times: int = 1_000_000
) -> Reaction:
    """Do this instead of confirming, so many times, at frames of that method or type; then confirm."""

    async def react(fake: FakeRelay, socket: web.WebSocketResponse, frame: Frame) -> None:
        nonlocal times
        if times and frame.get("method", frame.get("type")) in kinds:
            times -= 1
            await act(socket, frame)
        else:
            await confirm(fake, socket, frame)

    return react


def breaking_off_at(times: int, *kinds: str) -> Reaction:
    return reacting(lambda socket, _: socket.close(), *kinds, times=times)


def closing_with(code: int, reason: str, *kinds: str) -> Reaction:
    return reacting(lambda socket, _: socket.close(code=code, message=reason.encode()), *kinds)


def refusing(code: int, message: str, *methods: str, times: int = 1_000) -> Reaction:
    """Answer calls of that method with an error."""

    async def refuse(socket: web.WebSocketResponse, frame: Frame) -> None:
        error = {"code": code, "message": message}
        await socket.send_json({"id": frame["id"], "jsonrpc": "2.0", "error": error})

    return reacting(refuse, *methods, times=times)


def delivery(number: int, data: Any) -> Frame:
    """A message of generation 2.x."""
    return {"id": number, "jsonrpc": "2.0", "method": "irn_subscription", "params": {"id": "", "data": data}}


def publication(topic: str, payload: Any) -> Frame:
    """A message of generation 1.x."""
    return {"topic": topic, "type": "pub", "payload": orjson.dumps(payload).decode()}


async def settled(dapp: Dapp, fake: FakeRelay) -> TopicKey:
    """The key of a session that the test, as the wallet, has settled with the dapp."""
    pairing, own = v2.parse_relay_pairing(dapp.uri).topic_key, v2.KeyPair()
    proposal = pairing.open(fake.of("wc_proposeSession")[0]["params"]["sessionProposal"])
    key = TopicKey(own.symmetric_key(v2.read_public_key(proposal["params"]["proposer"]["publicKey"])))
    answer = {"id": proposal["id"], "result": {"responderPublicKey": own.public.hex()}}
    namespaces = v2.approved(proposal["params"], [ACCOUNT], 1)
    settlement = {"id": 9, "method": "wc_sessionSettle", "params": {"namespaces": namespaces}}
    await fake.say(
        delivery(10, {"topic": pairing.topic, "message": pairing.seal(answer)}),
        delivery(11, {"topic": key.topic, "message": key.seal(settlement)}),
    )
    await dapp.approval()
    return key
