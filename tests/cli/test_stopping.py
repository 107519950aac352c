"""SIGTERM, SIGINT and SIGHUP: who waits is answered, what is under way ends, and settings are read again.

White-box: no request keeps a thread of the server busy for an hour, so a program of its own does. How long a
stopping server waits for bodies has no setting.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from yarl import URL

from bridge_server.kit.testing.fake_node import hang, open_fake_node
from bridge_server.kit.testing.server import environment_without_settings
from tests.support.asking import METRICS_TOKEN, ask, figure, until_waiting
from tests.support.command import WatchedServer, server_from_shell, watched_server
from tests.support.inbox_client import sign_in
from tests.support.loads import UPGRADE, get
from tests.support.loads import client as client_that_reads_nothing
from tests.support.programs import fork_server
from tests.support.rows import each_row
from tests.support.rpc_client import RpcClient
from tests.support.server import RunningServer, reached
from tests.support.waiting import eventually, until
from tests.wallet.rig import ZERO_HASH, transaction

_BUSY_PROGRAM = """
import asyncio, sys, time
from bridge_server.cli.main import main
from bridge_server.cli import server_run as serving

serve_calmly = serving._serve

async def serve_busily(*arguments):
    asyncio.get_running_loop().run_in_executor(None, time.sleep, 3600)
    await serve_calmly(*arguments)

serving._serve = serve_busily
main()
"""
_PATIENT_PROGRAM = """
from bridge_server.cli.main import main
from bridge_server.web import open_connections

open_connections.Connections.bodies_received.__defaults__ = (3600.0,)
open_connections._LAST_CALL_SECONDS = 3600.0
main()
"""
_SIGNALLED_PROGRAM = """
import os, signal, sys
from bridge_server.cli.main import main
from bridge_server.cli import server_run

class Signalled:
    def __del__(self, kill=os.kill, pid=os.getpid(), numbers=(signal.SIGTERM, signal.SIGINT, signal.SIGHUP)):
        for number in numbers:
            kill(pid, number)

if sys.argv.pop(1) == "asyncio":
    server_run.find_spec = lambda name: None
signal.signalled = Signalled()  # goes when the interpreter takes its modules down
main()
"""
START = """
rpc_token = "the first"
quota_exempt = []
sessions_burst = 1
sessions_per_minute = 0.001
metrics_token = "the first"
port = 0
"""
_IGNORES_HANGUP = """
import signal
from bridge_server.cli.main import main
signal.signal(signal.SIGHUP, signal.SIG_IGN)
main()
"""


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[WatchedServer]:
    with watched_server(tmp_path, environment={"BRIDGE_METRICS_TOKEN": METRICS_TOKEN}) as watched:
        yield watched


@pytest.fixture
async def server(watched: WatchedServer) -> AsyncIterator[RunningServer]:
    async with reached(watched) as server:
        yield server


async def poll(server: RunningServer, path: str) -> tuple[int, str]:
    async with server.client.get(server.url + path, headers={"Prefer": "wait=25"}) as response:
        return response.status, await response.text()


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def connected(server: RunningServer) -> Streams:
    url = URL(server.url)
    return await asyncio.open_connection(url.host, url.port)


async def refuses(server: RunningServer) -> bool:
    """Whether the server takes no new connection."""
    try:
        _, writer = await connected(server)
    except ConnectionRefusedError:
        return True
    except ConnectionResetError:  # it was in the queue as the server closed its socket
        return False
    writer.close()
    return False


@asynccontextmanager
async def half_sent(server: RunningServer, text: str) -> AsyncIterator[Streams]:
    """A connection on which somebody begins a request and then falls silent."""
    reader, writer = await connected(server)
    try:
        writer.write(text.encode())
        await writer.drain()
        yield reader, writer
    finally:
        writer.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_every_long_poll_is_answered(
    watched: WatchedServer, server: RunningServer, number: int
) -> None:
    session_id, empty_id = await server.open_session(), await server.open_session()
    call_id = await server.request_call(session_id)
    paths = [f"/session/{session_id}", f"/call-status/{call_id}", f"/session/{empty_id}/calls"]
    polls = [asyncio.create_task(poll(server, path)) for path in paths * 20]
    await until_waiting(server, 60)
    assert await asyncio.to_thread(watched.stop, number) == 0
    assert await asyncio.gather(*polls) == [(204, ""), (204, ""), (200, "{}")] * 20
    assert "Traceback" not in watched.err_file.read_text("utf-8")


_BODY = b'{"encryptionPayload":"' + b"x" * 60_000 + b'"}'
_HEAD = f"HTTP/1.1\r\nHost: bridge\r\nExpect: 100-continue\r\nContent-Length: {len(_BODY)}\r\n\r\n"
_GO_ON = b"HTTP/1.1 100 Continue\r\n\r\n"
"""The answer to the head of a request, which the server has read then."""


async def test_a_body_that_comes_once_the_server_stops_is_taken(tmp_path: Path) -> None:
    with watched_server(tmp_path, program=_PATIENT_PROGRAM) as watched:
        async with reached(watched) as server:
            session_id = await server.open_session()
            async with half_sent(server, f"PUT /session/{session_id} {_HEAD}{{") as (reader, writer):
                assert await reader.readexactly(len(_GO_ON)) == _GO_ON
                stopping = asyncio.create_task(asyncio.to_thread(watched.stop, signal.SIGTERM))
                await eventually(partial(refuses, server))
                writer.write(_BODY[1:])
                taken = await reader.read()
                assert await stopping == 0

    assert taken.startswith(b"HTTP/1.1 200 ")
    assert b"\r\nConnection: close\r\n" in taken
    assert "Traceback" not in watched.err_file.read_text("utf-8")
    assert server.rows("SELECT session_id, length(payload) FROM sessions") == [(session_id, 60_002)]


async def test_half_sent_requests_keep_nobody(watched: WatchedServer, server: RunningServer) -> None:
    session_id = await server.open_session()
    async with (
        half_sent(server, "GET /hello HT"),
        half_sent(server, f"PUT /session/{session_id} {_HEAD}"),
        half_sent(server, f'PUT /session/{session_id} {_HEAD}{{"encryptionPayload":') as (reader, _),
        half_sent(server, ""),
    ):
        assert await reader.readexactly(len(_GO_ON)) == _GO_ON
        polling = asyncio.create_task(poll(server, f"/session/{session_id}"))
        await until_waiting(server, 1)
        assert await asyncio.to_thread(watched.stop, signal.SIGTERM) == 0
        assert (await polling)[0] == 204  # it did not wait for the body
        refused = await reader.read()

    assert refused.startswith(b"HTTP/1.1 503 ")
    assert b"\r\nRetry-After: 1\r\n" in refused
    assert b"\r\nConnection: close\r\n" in refused
    assert "Traceback" not in watched.err_file.read_text("utf-8")
    assert server.rows("SELECT payload FROM sessions") == [(None,)]


async def test_it_stops_whatever_clients_do(watched: WatchedServer, server: RunningServer) -> None:
    async def counted(name: str, count: int) -> bool:
        return await figure(server, name) == count

    session_id = await server.open_session()
    for _ in range(40):
        await server.request_call(session_id, "x" * 60_000)
    path = f"/session/{session_id}/calls"
    (authorization,) = (f"{name}: {value}" for name, value in (await sign_in(server)).headers.items())
    with ExitStack() as stack:
        for said in (
            get(path), get(path, "Connection: close"), get(f"{path}?wait=25") * 20, get("/", *UPGRADE),
            get("/hello", "Content-Length: 100"), get(f"{path}?wait=25", "Content-Length: 100"), b"GET", b"",
            get("/inbox/stream", authorization),
        ):  # fmt: skip
            port = URL(server.url).port or 0
            stack.enter_context(client_that_reads_nothing(port, "127.0.0.1", said))
        for name, count in (("unread_connections", 4), ("inbox_streams", 1), ("sockets", 1)):
            await eventually(partial(counted, name, count))
        assert await asyncio.to_thread(watched.stop, signal.SIGTERM) == 0
    assert "Traceback" not in watched.err_file.read_text("utf-8")


async def test_a_draining_server_answers_on_and_says_that_it_is_not_ready(tmp_path: Path) -> None:
    with watched_server(tmp_path, environment={"BRIDGE_DRAIN_SECONDS": "600"}) as watched:
        async with reached(watched) as server:

            async def refuses() -> bool:
                status, text = await poll(server, "/readyz")
                return status == 503 and "The server stops" in text

            async def ends() -> bool:
                watched.process.send_signal(signal.SIGTERM)  # one that follows at once counts as the first
                return polling.done()

            session_id = await server.open_session()
            polling = asyncio.create_task(poll(server, f"/session/{session_id}"))
            watched.process.send_signal(signal.SIGTERM)
            await eventually(refuses)
            assert (await poll(server, "/livez"))[0] == 200
            assert await server.open_session()
            assert not polling.done()
            await eventually(ends)
            assert (await polling)[0] == 204
            assert await asyncio.to_thread(watched.process.wait, 60) == 0


def test_a_thread_that_is_busy_is_not_waited_for(tmp_path: Path) -> None:
    with watched_server(tmp_path, program=_BUSY_PROGRAM) as server:
        assert server.stop(signal.SIGTERM) == 0
    assert not (tmp_path / "data" / "bridge.sqlite3-wal").exists()


@each_row("loop", ["asyncio", "uvloop"])
@each_row("command", ["serve --data-dir data --port 0", "dev --port 0", "wallet --listen 127.0.0.1:0"])
def test_signals_while_the_process_exits_change_nothing(tmp_path: Path, loop: str, command: str) -> None:
    ready_file = tmp_path / "ready"
    variables = {**environment_without_settings(), "TMPDIR": str(tmp_path)}
    words = [loop, *command.split(), "--ready-file", str(ready_file)]
    reading, writing = os.pipe()
    process = fork_server().start(
        words, variables, stdin=reading, program=_SIGNALLED_PROGRAM, directory=tmp_path
    )
    try:
        until(ready_file.exists)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()
        os.close(reading)
        os.close(writing)


async def test_sends_that_wait_for_a_silent_node_are_answered_and_stored(tmp_path: Path) -> None:
    sends = [
        {"jsonrpc": "2.0", "id": number, "method": "eth_sendTransaction",
         "params": [transaction(value=hex(number))]}
        for number in range(10)
    ]  # fmt: skip
    async with open_fake_node() as node:
        node.at("eth_gasPrice", *[hang] * 100)
        environment = {"BRIDGE_NODE_URL": node.url, "BRIDGE_DEV_ACCOUNTS": "true"}
        with watched_server(tmp_path, environment=environment) as watched:
            async with reached(watched) as server:
                wallet = RpcClient(server)
                asking = [asyncio.create_task(wallet.send(document)) for document in (sends, *sends)]
                await node.asked("eth_gasPrice")
                assert await asyncio.to_thread(watched.stop, signal.SIGTERM) == 0
                [batch, *alone] = await asyncio.gather(*asking)

    assert [answer["result"] for answer in [*batch, *alone]] == [ZERO_HASH] * 20
    assert server.rows("SELECT count(*) FROM wallet_transactions") == [(20,)]


def test_an_idle_server_stops_at_ctrl_c(tmp_path: Path) -> None:
    with server_from_shell(tmp_path) as server:
        assert server.stop(signal.SIGINT) == 0
        assert server.said() == []


@dataclass(frozen=True, slots=True)
class Rereading:
    """A server with a settings file, and what it says after SIGHUP."""

    watched: WatchedServer
    server: RunningServer
    file: Path

    async def after(self, toml: str | None) -> dict[str, Any]:
        """Write the file or remove it, hang up, and return the line that the server logs."""
        if toml is None:
            self.file.unlink()
        else:
            self.file.write_text(toml)
        before = len(self._logged())
        self.watched.process.send_signal(signal.SIGHUP)
        await eventually(lambda: len(self._logged()) > before)
        (line,) = self._logged()[before:]
        return line

    async def status(self, path: str, token: str = "", method: str = "GET") -> int:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return (await ask(self.server, method, path, headers=headers)).status

    async def admin_tokens(self) -> list[str]:
        """The tokens, of two, that the admin API accepts."""
        tokens = ("the first", "the second")
        return [token for token in tokens if await self.status("/admin/projects", token) == 200]

    def _logged(self) -> list[dict[str, Any]]:
        return [line for line in self.watched.log() if line["event"].startswith("settings_")]


async def test_settings_without_fault_are_read_again_at_sighup(tmp_path: Path) -> None:
    file, secret = tmp_path / "bridge.toml", tmp_path / "secret"
    file.write_text(START)
    secret.write_text("the first\n")
    environment = {"BRIDGE_ACCESS_LOG": "false", "BRIDGE_ADMIN_TOKEN_FILE": str(secret)}
    with watched_server(tmp_path, "--config", str(file), environment=environment) as watched:
        async with reached(watched) as server:
            rereading = Rereading(watched, server, file)
            assert [await rereading.status("/session/new", method="POST") for _ in range(2)] == [200, 429]
            line = await rereading.after(START.replace("sessions_burst = 1", "sessions_burst = 1000"))
            assert (line["event"], line["level"]) == ("settings_taken", "info")
            assert (line["changed"], line["needs_restart"]) == (["sessions_burst"], [])
            assert await rereading.status("/session/new", method="POST") == 200
            await rereading.after(START)
            assert (await rereading.after(START + 'log_level = "debug"\n'))["changed"] == ["log_level"]
            await rereading.after(START)

            without_token = START.replace('metrics_token = "the first"\nport = 0\n', "")
            secret_key = "whsec_" + "A" * 32
            line = await rereading.after(
                f'{without_token}port = 1\nmax_wait = 7\nwebhook_secret = "{secret_key}"\nhost = "::1"\n'
            )
            assert (line["level"], line["changed"]) == ("warning", ["max_wait", "webhook_secret"])
            assert line["needs_restart"] == ["host", "metrics_token"]  # --port is a flag, and wins
            assert await rereading.status("/metrics", "the first") == 200
            await rereading.after(START)

            secret.write_text("the second\n")
            with_fault = START.replace("the first", "the second")
            for toml in (f"{with_fault}max_wait = 0\n", f"{with_fault}what = is this\n", None):
                line = await rereading.after(toml)
                assert (line["event"], line["level"]) == ("settings_not_taken", "error"), toml
                assert line["reason"]
                assert "the second" not in line["reason"]
                assert await rereading.admin_tokens() == ["the first"]
            assert (await rereading.after(START))["changed"] == ["admin_token"]
            assert await rereading.admin_tokens() == ["the second"]


@contextmanager
def a_terminal() -> Iterator[int]:
    """A terminal for processes that do not ignore SIGHUP, though this one may, under nohup."""
    handler = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    ours, theirs = os.openpty()
    with closing(os.fdopen(ours, "rb", buffering=0)):
        yield theirs
        os.close(theirs)
    signal.signal(signal.SIGHUP, handler)


def test_a_server_whose_terminal_is_gone_stops_and_leaves_nothing(tmp_path: Path) -> None:
    with a_terminal() as terminal, server_from_shell(tmp_path, terminal=terminal) as server:
        assert server.stop(signal.SIGHUP) == 0
        assert server.log()[-1]["event"] == "server_stopped"
        assert not server.ready_file.exists()
    left = {file.name for file in (tmp_path / "data").iterdir()}
    assert left == {"audit.log", "bridge.sqlite3", "lock"}


def test_a_server_that_was_to_outlive_its_terminal_goes_on(tmp_path: Path) -> None:
    with (
        a_terminal() as terminal,
        watched_server(tmp_path, terminal=terminal, program=_IGNORES_HANGUP) as server,
    ):
        server.process.send_signal(signal.SIGHUP)
        until(lambda: server.log()[-1]["event"] == "settings_taken")
        assert server.stop(signal.SIGTERM) == 0
