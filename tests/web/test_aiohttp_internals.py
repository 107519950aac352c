"""A server on an aiohttp without the private names, and on each of aiohttp's two readers of frames."""

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import aiohttp
from aiohttp.http_websocket import WebSocketReader
from yarl import URL

from bridge_server.kit.testing.server import ServerProcess
from bridge_server.web.aiohttp_internals import has_known_sockets
from tests.support.rows import each_row
from tests.support.socket_client import SocketClient

_RUN = "\nfrom bridge_server.__main__ import main\nmain()"
_MOVED = """
from aiohttp import web
from aiohttp._websocket import reader

def begin(self, *arguments, start=web.WebSocketResponse._post_start):
    start(self, *arguments)

del reader.WebSocketDataQueue
web.WebSocketResponse._post_start = begin
"""
_OTHER_START = """
from aiohttp import web

def begin(self, request, protocol, writer, limit=0, start=web.WebSocketResponse._post_start):
    start(self, request, protocol, writer)

web.WebSocketResponse._post_start = begin
"""
_OTHER_REQUESTS = """
from aiohttp import web

web.Request.ATTRS = frozenset()

def begin(self, start=web.Response.__init__, **options):
    start(self, **options)
    self._unknown = True

web.Response.__init__ = begin
"""
_SHOWN_READER = """
import sys
from aiohttp.http_websocket import WebSocketReader
from yarl import URL
from bridge_server.web.aiohttp_internals import has_known_sockets
print(WebSocketReader.__module__, has_known_sockets(), file=sys.stderr)
"""
_WARNING = "frames of WebSockets are processed in aiohttp's own way"
_TOPIC = "a" * 64


class OtherAiohttp(ServerProcess):
    """A server whose process first changes aiohttp."""

    def __init__(
        self, data_dir: Path, change: str = "", environment: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(data_dir, environment=environment)
        self._change = change

    def launch(self, arguments: Sequence[str], log: IO[bytes]) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-c", self._change + _RUN, *arguments]
        return subprocess.Popen(
            command, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log
        )


@contextmanager
def running(server: OtherAiohttp) -> Iterator[OtherAiohttp]:
    server.start()
    try:
        yield server
    finally:
        server.close()


async def payloads_by_socket(url: str) -> list[str]:
    """Two messages on their way from one socket to another, the second with its receiver idle."""
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(url, autoping=False) as receiving,
        session.ws_connect(url, autoping=False) as sending,
    ):
        receiver, sender = SocketClient(receiving), SocketClient(sending)
        await receiver.subscribe(_TOPIC)
        payloads = []
        for payload in ("first", "second"):
            await sender.publish(_TOPIC, payload)
            payloads.append((await receiver.message())["payload"])
            await receiver.acknowledge(_TOPIC)
        return payloads


@each_row("change", [_MOVED, _OTHER_START], ids=["moved", "other"])
async def test_sockets_are_served_the_public_way_by_an_aiohttp_without_the_private_names(
    tmp_path: Path, change: str
) -> None:
    with running(OtherAiohttp(tmp_path / "data", change)) as server:
        assert await payloads_by_socket(server.url) == ["first", "second"]
        assert server.stop() == 0
        assert _WARNING in server.log()


async def answers_of(url: str) -> list[tuple[int, list[str], bytes]]:
    """The status, the names of the header fields, and the body of an answer of each kind."""
    async with aiohttp.ClientSession() as client:
        opened = await client.post(f"{url}/session/new")
        session_id = (await opened.json())["sessionId"]
        session, page = f"/session/{session_id}", {"Origin": "https://dapp.example"}
        asked = [
            ("GET", session, None, {}),
            ("GET", session, None, {"Prefer": "wait=0"}),
            ("PUT", session, {"encryptionPayload": "c0ffee"}, page),
            ("GET", session, None, page),
            ("HEAD", session, None, {}),
            ("GET", session, None, {"Connection": "close"}),
            ("GET", "/session/new", None, {}),
            ("GET", f"/session/{'%61' * 8}", None, {}),
            ("DELETE", session, None, {}),
        ]
        answers = []
        for method, path, body, headers in asked:
            sent = URL(url + path, encoded=True)
            async with client.request(method, sent, json=body, headers=headers) as answer:
                received = await answer.read() if answer.status < 400 and method != "PUT" else b""
                answers.append((answer.status, sorted(answer.headers), received))
        return answers


async def test_requests_are_answered_alike_by_an_aiohttp_without_the_private_names(tmp_path: Path) -> None:
    environment = {"BRIDGE_QUOTA_EXEMPT": "[]"}
    with (
        running(OtherAiohttp(tmp_path / "known", environment=environment)) as known,
        running(OtherAiohttp(tmp_path / "other", _OTHER_REQUESTS, environment)) as other,
    ):
        answers = await answers_of(known.url)

        assert answers == await answers_of(other.url)
        assert [status for status, _, _ in answers] == [204, 204, 200, 200, 200, 200, 405, 404, 200]
        assert all("RateLimit" in fields for status, fields, _ in answers if status < 400)


def test_the_reader_in_c_gives_frames_at_once() -> None:
    assert WebSocketReader.__module__ == "aiohttp._websocket.reader_c"
    assert has_known_sockets()


async def test_the_reader_in_python_gives_frames_at_once(tmp_path: Path) -> None:
    environment = {"AIOHTTP_NO_EXTENSIONS": "1"}
    with running(OtherAiohttp(tmp_path / "data", _SHOWN_READER, environment)) as server:
        assert await payloads_by_socket(server.url) == ["first", "second"]
        assert "aiohttp._websocket.reader_py True\n" in server.log()
        assert _WARNING not in server.log()
