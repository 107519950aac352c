"""WebSockets over aiohttp's readers of frames, and over an aiohttp without the private names.

White-box: no aiohttp lacks those names, so a program of the test's own takes them away.
"""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Sequence
from pathlib import Path
from typing import IO, Self

import aiohttp
import pytest
from aiohttp import WSCloseCode, WSMsgType, web
from aiohttp.http_websocket import WebSocketReader
from aiohttp.test_utils import TestServer

from bridge_server.kernel.errors import InvalidInputError
from bridge_server.kit.testing.server import ServerProcess
from bridge_server.web.aiohttp_internals import has_known_sockets
from bridge_server.web.sockets import Socket, text_frame
from tests.support.socket_client import PATIENCE_SECONDS, connected


class Party:
    """Answers each frame with itself, `later` when it may go on, and `refused` and `broken` with an error."""

    def __init__(self) -> None:
        self.outlet: Socket | None = None
        self.may_go_on = asyncio.Event()
        self.has_begun = asyncio.Event()
        self.has_left = asyncio.Event()
        self.was_cancelled = False

    def join(self, outlet: Socket) -> None:
        self.outlet = outlet

    def hear(self, text: bytes) -> Awaitable[None] | None:
        if text == b"refused":
            raise InvalidInputError("No.")
        if text == b"broken":
            raise ValueError("a defect")
        if text == b"later":
            return self._answer_later()
        self._answer(text)
        return None

    async def settle(self) -> None:
        self._answer(b"settled")

    def recognise(self, pong: bytes) -> None:
        self._answer(b"pong")

    def leave(self) -> None:
        self.has_left.set()

    def _answer(self, text: bytes) -> None:
        assert self.outlet is not None
        self.outlet.push(text_frame(text))

    async def _answer_later(self) -> None:
        self.has_begun.set()
        try:
            await self.may_go_on.wait()
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise
        self._answer(b"later")


@pytest.fixture
def party() -> Party:
    return Party()


@pytest.fixture
async def client(party: Party) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    async def talk(request: web.Request) -> web.StreamResponse:
        return Socket(party, 1_000).accept(request)

    application = web.Application()
    application.router.add_get("/", talk)
    async with (
        TestServer(application, handler_cancellation=True) as server,
        aiohttp.ClientSession() as session,
        session.ws_connect(server.make_url("/"), autoping=False) as socket,
    ):
        yield socket


async def said(socket: aiohttp.ClientWebSocketResponse, count: int) -> list[str]:
    """The next text frames."""
    return [await socket.receive_str(timeout=PATIENCE_SECONDS) for _ in range(count)]


async def test_frames_wait_for_earlier_ones(party: Party, client: aiohttp.ClientWebSocketResponse) -> None:
    for text in ("a", "later", "b"):
        await client.send_str(text)
    await client.ping()
    await client.pong()
    await client.send_str("c")
    assert await said(client, 1) == ["a"]
    await party.has_begun.wait()
    party.may_go_on.set()
    assert await said(client, 3) == ["later", "b", "settled"]
    assert (await client.receive(timeout=PATIENCE_SECONDS)).type is WSMsgType.PONG
    assert await said(client, 2) == ["pong", "c"]


@pytest.mark.parametrize(
    ("text", "code"), [("refused", WSCloseCode.POLICY_VIOLATION), ("broken", WSCloseCode.INTERNAL_ERROR)]
)
async def test_errors_close_it(client: aiohttp.ClientWebSocketResponse, text: str, code: WSCloseCode) -> None:
    await client.send_str("idle")
    await said(client, 1)
    await client.send_str(text)
    message = await client.receive(timeout=PATIENCE_SECONDS)
    assert (message.type, message.data) == (WSMsgType.CLOSE, code)


async def test_work_ends_with_the_connection(party: Party, client: aiohttp.ClientWebSocketResponse) -> None:
    await client.send_str("idle")
    await said(client, 1)
    await client.send_str("later")
    await asyncio.wait_for(party.has_begun.wait(), PATIENCE_SECONDS)
    client._response.connection.transport.abort()  # type: ignore[union-attr]
    await asyncio.wait_for(party.has_left.wait(), PATIENCE_SECONDS)
    await asyncio.sleep(0)
    assert party.was_cancelled


_MOVED = """
from aiohttp import web
from aiohttp._websocket import reader

def begin(self, *arguments, start=web.WebSocketResponse._post_start):
    start(self, *arguments)

del reader.WebSocketDataQueue
web.WebSocketResponse._post_start = begin
web.Request.ATTRS = frozenset()

def begin_answer(self, start=web.Response.__init__, **options):
    start(self, **options)
    self._unknown = True

web.Response.__init__ = begin_answer
"""
_OTHER_START = """
from aiohttp import web

def begin(self, request, protocol, writer, limit=0, start=web.WebSocketResponse._post_start):
    start(self, request, protocol, writer)

web.WebSocketResponse._post_start = begin
"""
_SHOWN_READER = """
import sys
from aiohttp.http_websocket import WebSocketReader
from yarl import URL
from bridge_server.web.aiohttp_internals import has_known_sockets
print(WebSocketReader.__module__, has_known_sockets(), file=sys.stderr)
"""


class OtherAiohttp(ServerProcess):
    """A server whose process first changes aiohttp; it runs until the end of the block."""

    def __init__(self, data_dir: Path, change: str, **environment: str) -> None:
        super().__init__(data_dir, environment={"BRIDGE_QUOTA_EXEMPT": "[]", **environment})
        self._program = f"{change}\nfrom bridge_server.__main__ import main\nmain()"

    def launch(self, arguments: Sequence[str], log: IO[bytes]) -> "subprocess.Popen[bytes]":
        command, nothing = [sys.executable, "-c", self._program, *arguments], subprocess.DEVNULL
        return subprocess.Popen(command, env=self.environment, stdin=nothing, stdout=nothing, stderr=log)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


async def answers_of(url: str) -> list[tuple[int, list[str], bytes]]:
    """The status, the names of the header fields, and the body of an answer of each kind."""
    async with aiohttp.ClientSession(url) as client:
        opened = await client.post("/session/new")
        session, page = f"/session/{(await opened.json())['sessionId']}", {"Origin": "https://dapp.example"}
        answers = []
        for method, path, body, headers in (
            ("GET", session, None, {"Prefer": "wait=0"}),
            ("PUT", session, {"encryptionPayload": "c0ffee"}, page),
            ("GET", session, None, page),
            ("HEAD", session, None, {}),
            ("GET", session, None, {"Connection": "close"}),
            ("GET", "/session/new", None, {}),
            ("DELETE", session, None, {}),
        ):
            async with client.request(method, path, json=body, headers=headers) as answer:
                received = await answer.read() if answer.status < 400 and method != "PUT" else b""
                answers.append((answer.status, sorted(answer.headers), received))
        return answers


async def test_an_aiohttp_without_the_private_names_serves_alike(tmp_path: Path) -> None:
    with (
        OtherAiohttp(tmp_path / "known", _SHOWN_READER, AIOHTTP_NO_EXTENSIONS="1") as known,
        OtherAiohttp(tmp_path / "moved", _MOVED) as moved,
        OtherAiohttp(tmp_path / "other", _OTHER_START) as other,
    ):
        answers = await answers_of(known.url)

        assert answers == await answers_of(moved.url)
        assert [status for status, _, _ in answers] == [204, 200, 200, 200, 200, 405, 200]
        assert all("RateLimit" in fields for status, fields, _ in answers if status < 400)
        for server in (known, moved, other):
            async with (
                aiohttp.ClientSession() as session,
                connected(session, server.url) as receiver,
                connected(session, server.url) as sender,
            ):
                await receiver.subscribe("topic")
                for payload in ("first", "second"):  # the second one comes to an idle receiver
                    await sender.publish("topic", payload)
                    assert (await receiver.message())["payload"] == payload
                    await receiver.acknowledge("topic")
            assert server.stop() == 0
        assert "aiohttp._websocket.reader_py True\n" in known.log()
        warning = "frames of WebSockets are processed in aiohttp's own way"
        assert [warning in server.log() for server in (known, moved, other)] == [False, True, True]


def test_the_reader_in_c_gives_frames_at_once() -> None:
    assert WebSocketReader.__module__ == "aiohttp._websocket.reader_c"
    assert has_known_sockets()
