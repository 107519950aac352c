"""SIGTERM and SIGINT: who waits is answered, what is under way ends, and the exit code is 0."""

import asyncio
import os
import signal
import socket
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, closing
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from yarl import URL

from bridge_server.kernel.clock import SystemClock
from bridge_server.kit.testing.fake_node import hang, open_fake_node
from bridge_server.kit.testing.server import environment_without_settings
from bridge_server.settings.settings import Settings
from tests.support.clock import ManualClock
from tests.support.command import WatchedServer, server_from_shell, watched_server
from tests.support.eventually import eventually, until
from tests.support.forked_process import fork_server
from tests.support.idle_clients import UPGRADE, get
from tests.support.idle_clients import client as client_that_reads_nothing
from tests.support.inbox_client import sign_in
from tests.support.rows import each_row
from tests.support.server import RunningServer
from tests.wallet.rig import ZERO_HASH, transaction


@pytest.fixture
def server(tmp_path: Path) -> Iterator[WatchedServer]:
    with watched_server(tmp_path, environment={"BRIDGE_METRICS_TOKEN": "open-sesame"}) as server:
        yield server


@pytest.fixture
async def client(server: WatchedServer) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(server.url) as client:
        yield client


async def post(client: aiohttp.ClientSession, path: str, body: object = None) -> Any:
    async with client.post(path, json=body) as response:
        assert response.status == 200
        return await response.json()


async def poll(client: aiohttp.ClientSession, path: str) -> tuple[int, str]:
    async with client.get(path, headers={"Prefer": "wait=25"}) as response:
        return response.status, await response.text()


async def waiting(client: aiohttp.ClientSession, count: int) -> None:
    """Return once so many long polls are waiting in the server."""
    await counted(client, "waiting_clients", count)


async def counted(client: aiohttp.ClientSession, name: str, count: int) -> None:
    """Return once the server's figure of this name is this."""

    async def enough() -> bool:
        headers = {"Authorization": "Bearer open-sesame"}
        async with client.get("/metrics", headers=headers) as response:
            return f"bridge_{name} {float(count)}" in await response.text()

    await eventually(enough)


@asynccontextmanager
async def half_sent(
    server: WatchedServer, text: str
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection on which somebody begins a request and then falls silent."""
    host, port = server.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(text.encode())
        await writer.drain()
        yield reader, writer
    finally:
        writer.close()


async def stops_listening(server: WatchedServer) -> None:
    """Return once nobody can connect any more."""
    host, port = server.url.removeprefix("http://").split(":")

    async def refused() -> bool:
        try:
            _, writer = await asyncio.open_connection(host, int(port))
        except ConnectionRefusedError:
            return True
        writer.close()
        return False

    await eventually(refused)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_every_long_poll_is_answered_and_the_exit_code_is_0(
    server: WatchedServer, client: aiohttp.ClientSession, number: int
) -> None:
    session_id = (await post(client, "/session/new"))["sessionId"]
    call = {"encryptionPayload": "sealed", "dappName": "Dapp"}
    call_id = (await post(client, f"/session/{session_id}/call/new", call))["callId"]
    empty_id = (await post(client, "/session/new"))["sessionId"]
    paths = [f"/session/{session_id}", f"/call-status/{call_id}", f"/session/{empty_id}/calls"]
    polls = [asyncio.create_task(poll(client, path)) for path in paths * 20]
    await waiting(client, 60)

    exit_code = await asyncio.to_thread(server.stop, number)

    assert exit_code == 0
    assert await asyncio.gather(*polls) == [(204, ""), (204, ""), (200, "{}")] * 20
    assert "Traceback" not in server.err_file.read_text("utf-8")


async def test_half_sent_requests_do_not_keep_it_from_stopping(
    server: WatchedServer, client: aiohttp.ClientSession, tmp_path: Path
) -> None:
    session_id = (await post(client, "/session/new"))["sessionId"]
    head = f"PUT /session/{session_id} HTTP/1.1\r\nHost: bridge\r\nContent-Length: 100\r\n"
    async with (
        half_sent(server, "GET /hello HT"),
        half_sent(server, head),
        half_sent(server, f'{head}\r\n{{"encryptionPayload":') as (answer, _),
        half_sent(server, ""),
    ):
        polling = asyncio.create_task(poll(client, f"/session/{session_id}"))
        await waiting(client, 1)

        exit_code = await asyncio.to_thread(server.stop, signal.SIGTERM)

        assert exit_code == 0
        assert (await polling)[0] == 204
        told = await answer.read()
        assert told.startswith(b"HTTP/1.1 503 ")
        assert b"\r\nRetry-After: 1\r\n" in told
        assert b"\r\nConnection: close\r\n" in told
        assert "Traceback" not in server.err_file.read_text("utf-8")
    with closing(sqlite3.connect(tmp_path / "data" / "bridge.sqlite3")) as connection:
        assert connection.execute("SELECT session_id, payload FROM sessions").fetchall() == [
            (session_id, None)
        ]


async def test_a_body_that_arrives_soon_after_the_signal_is_answered_and_stored(
    server: WatchedServer, client: aiohttp.ClientSession, tmp_path: Path
) -> None:
    session_id = (await post(client, "/session/new"))["sessionId"]
    body = b'{"encryptionPayload":"' + b"x" * 60_000 + b'"}'
    head = f"PUT /session/{session_id} HTTP/1.1\r\nHost: bridge\r\nContent-Length: {len(body)}\r\n\r\n"
    async with half_sent(server, head + "{") as (reader, writer):
        polling = asyncio.create_task(poll(client, f"/session/{session_id}/calls"))
        await waiting(client, 1)
        stopping = asyncio.create_task(asyncio.to_thread(server.stop, signal.SIGTERM))
        assert (await polling)[0] == 200  # it did not wait for the body
        await stops_listening(server)

        writer.write(body[1:])
        answer = await reader.read()

        assert await stopping == 0
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b"\r\nConnection: close\r\n" in answer
    with closing(sqlite3.connect(tmp_path / "data" / "bridge.sqlite3")) as connection:
        assert connection.execute("SELECT length(payload) FROM sessions").fetchone() == (60_002,)


async def test_server_stops_in_time_whatever_clients_do(
    server: WatchedServer, client: aiohttp.ClientSession
) -> None:
    session_id = (await post(client, "/session/new"))["sessionId"]
    for _ in range(40):
        call = {"encryptionPayload": "x" * 60_000, "dappName": "Dapp"}
        await post(client, f"/session/{session_id}/call/new", call)
    path = f"/session/{session_id}/calls"
    with ExitStack() as stack:
        port = URL(server.url).port
        assert port is not None
        for said in (
            get(path), get(path, "Connection: close"), get(f"{path}?wait=25") * 20, get("/", *UPGRADE),
            get("/hello", "Content-Length: 100"), get(f"{path}?wait=25", "Content-Length: 100"), b"GET", b"",
        ):  # fmt: skip
            stack.enter_context(client_that_reads_nothing(port, "127.0.0.1", said))
        stack.enter_context(await stream_reader(server, client))
        for name, count in (("unread_connections", 4), ("inbox_streams", 1), ("sockets", 1)):
            await counted(client, name, count)

        assert await asyncio.to_thread(server.stop, signal.SIGTERM) == 0
    assert "Traceback" not in server.err_file.read_text("utf-8")


async def test_a_draining_server_answers_on_and_says_that_it_is_not_ready(tmp_path: Path) -> None:
    environment = {"BRIDGE_DRAIN_SECONDS": "600"}
    with watched_server(tmp_path, environment=environment) as server:
        async with aiohttp.ClientSession(server.url) as client:
            session_id = (await post(client, "/session/new"))["sessionId"]
            polling = asyncio.create_task(poll(client, f"/session/{session_id}"))
            server.process.send_signal(signal.SIGTERM)

            async def refuses() -> bool:
                async with client.get("/readyz") as response:
                    return response.status == 503 and "The server stops" in await response.text()

            await eventually(refuses)
            async with client.get("/livez") as response:
                assert response.status == 200
            assert (await post(client, "/session/new"))["sessionId"]
            assert not polling.done()

            async def ends() -> bool:
                server.process.send_signal(signal.SIGTERM)  # one that follows at once counts as the first
                return polling.done()

            await eventually(ends)
            assert (await polling)[0] == 204
            assert await asyncio.to_thread(server.process.wait, 60) == 0


def test_a_thread_that_is_busy_is_not_waited_for(tmp_path: Path) -> None:
    with watched_server(tmp_path, program=_BUSY_PROGRAM) as server:
        assert server.stop(signal.SIGTERM) == 0
    assert not (tmp_path / "data" / "bridge.sqlite3-wal").exists()


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


@each_row("loop", ["asyncio", "uvloop"])
@each_row(
    "command",
    [
        ("serve", "--data-dir", "data", "--port", "0"),
        ("dev", "--port", "0"),
        ("wallet", "--listen", "127.0.0.1:0"),
    ],
    ids=lambda command: command[0],
)
def test_signals_that_come_while_the_process_exits_change_nothing(
    tmp_path: Path, loop: str, command: tuple[str, ...]
) -> None:
    ready_file = tmp_path / "ready"
    variables = {**environment_without_settings(), "TMPDIR": str(tmp_path)}
    words = [loop, *command, "--ready-file", str(ready_file)]
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


def metrics_port(server: WatchedServer) -> int:
    """Where it serves figures."""
    (line,) = (line for line in server.log() if line["event"] == "metrics_listening")
    return URL(line["url"]).port or 0


def test_a_slow_reader_of_figures_does_not_keep_it_from_stopping(tmp_path: Path) -> None:
    with watched_server(tmp_path, environment={"BRIDGE_METRICS_PORT": "0"}) as server:
        port = metrics_port(server)
        with client_that_reads_nothing(port, "127.0.0.1", get("/metrics") * 200) as reader:
            assert reader.recv(1) == b"H"

            assert server.stop(signal.SIGTERM) == 0


async def stream_reader(
    server: WatchedServer, client: aiohttp.ClientSession
) -> AbstractContextManager[socket.socket]:
    """Somebody who has an inbox's stream open, and does not read it."""
    clock = ManualClock(SystemClock().now_ms())
    inbox = await sign_in(RunningServer(server.url, Settings(), clock, client))
    (authorization,) = (f"{name}: {value}" for name, value in inbox.headers.items())
    return client_that_reads_nothing(
        URL(server.url).port or 0, "127.0.0.1", get("/inbox/stream", authorization)
    )


async def test_writes_under_way_are_answered_and_stored(
    server: WatchedServer, client: aiohttp.ClientSession, tmp_path: Path
) -> None:
    answered: list[str] = []
    enough = asyncio.Event()

    async def keep_writing() -> None:
        while True:
            answered.append((await post(client, "/session/new"))["sessionId"])
            if len(answered) >= 100:
                enough.set()

    writers = [asyncio.create_task(keep_writing()) for _ in range(16)]
    await enough.wait()
    exit_code = await asyncio.to_thread(server.stop, signal.SIGTERM)
    outcomes = await asyncio.gather(*writers, return_exceptions=True)

    assert exit_code == 0
    assert all(isinstance(outcome, aiohttp.ClientError) for outcome in outcomes)
    with closing(sqlite3.connect(tmp_path / "data" / "bridge.sqlite3")) as connection:
        stored = {row[0] for row in connection.execute("SELECT session_id FROM sessions")}
    assert set(answered) <= stored
    assert not (tmp_path / "data" / "bridge.sqlite3-wal").exists()


async def test_sends_that_wait_for_a_silent_node_are_answered_and_stored(tmp_path: Path) -> None:
    sends = [
        {
            "jsonrpc": "2.0",
            "id": number,
            "method": "eth_sendTransaction",
            "params": [transaction(value=hex(number))],
        }
        for number in range(10)
    ]
    async with open_fake_node() as node:
        node.at("eth_gasPrice", *[hang] * 100)
        environment = {"BRIDGE_NODE_URL": node.url, "BRIDGE_DEV_ACCOUNTS": "true"}
        with watched_server(tmp_path, environment=environment) as server:
            async with aiohttp.ClientSession(server.url) as client:
                bodies: list[object] = [sends, *sends]
                asking = [asyncio.create_task(post(client, "/rpc", body)) for body in bodies]
                await node.asked("eth_gasPrice")
                exit_code = await asyncio.to_thread(server.stop, signal.SIGTERM)
                [batch, *alone] = await asyncio.gather(*asking)

    assert exit_code == 0
    assert [answer["result"] for answer in [*batch, *alone]] == [ZERO_HASH] * 20
    with closing(sqlite3.connect(tmp_path / "data" / "bridge.sqlite3")) as connection:
        assert connection.execute("SELECT count(*) FROM wallet_transactions").fetchone() == (20,)


def test_an_idle_server_stops_at_ctrl_c(tmp_path: Path) -> None:
    with server_from_shell(tmp_path) as server:
        assert server.stop(signal.SIGINT) == 0
        assert server.said() == []
