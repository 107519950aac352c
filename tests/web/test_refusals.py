"""Requests that cannot be read: a problem in the server's own words, and the end of the connection."""

import logging
import socket
import struct
from collections.abc import Iterator

import pytest
from aiohttp import web
from structlog.testing import CapturingLogger

from bridge_server.web import connection as refusals
from bridge_server.web import request_log
from tests.support.asking import ask
from tests.support.eventually import eventually
from tests.support.raw_http import ask_raw, raw_connection, spell
from tests.support.rows import each_row
from tests.support.rpc_client import RpcClient
from tests.support.server import RunningServer, running_server

_CLOSE = b"Connection: close"
_UPGRADE = (b"Connection: Upgrade", b"Upgrade: h2c")

REFUSED = {
    "an unknown method": (400, spell("NONSENSE", "/hello")),
    "a small method": (400, spell("get", "/hello")),
    "a header without a colon": (400, spell("GET", "/hello", b"", b"nonsense")),
    "no host": (400, b"GET /hello HTTP/1.1\r\n\r\n"),
    "two hosts": (400, b"GET /hello HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"),
    "1,000 headers": (400, spell("GET", "/hello", b"", *[b"X-%d: a" % each for each in range(1_000)])),
    "no path": (400, spell("GET", "hello")),
    "a URL with a wrong port": (400, spell("GET", "http://a:99999/hello")),
    "a URL without a host": (400, spell("GET", "http:///hello")),
    "HTTP/2": (400, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    "TLS": (400, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200)),
    "too long a target": (414, spell("GET", "/" + "a" * 10_240)),
    "too long a header": (431, spell("GET", "/hello", b"", b"X-A: " + b"a" * 10_240)),
    "nowhere": (404, spell("OPTIONS", "*")),
    "a tunnel": (404, spell("CONNECT", "example.org:443")),
}


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> CapturingLogger:
    log = CapturingLogger()
    monkeypatch.setattr(request_log, "log", log)
    return log


@pytest.fixture
def debugging() -> Iterator[None]:
    before = logging.getLogger().level
    logging.getLogger().setLevel(logging.DEBUG)
    yield
    logging.getLogger().setLevel(before)


@pytest.mark.parametrize(("status", "request_"), REFUSED.values(), ids=REFUSED.keys())
async def test_a_refusal_is_a_problem_that_does_not_name_the_software(
    server: RunningServer, status: int, request_: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with raw_connection(server) as connection:
        await connection.send(request_)
        answer = await connection.answer()

    answer.problem(status)
    assert answer.headers["Server"] == "Bridge-Server"
    assert b"aiohttp" not in answer.body
    assert b"Python" not in answer.body
    assert not caplog.records


async def test_each_refusal_has_its_own_id_and_ends_the_connection(server: RunningServer) -> None:
    ids = []
    for _ in range(2):
        async with raw_connection(server) as connection:
            await connection.send(spell("NONSENSE", "/hello") + spell("GET", "/hello"))
            ids.append((await connection.answer()).headers["X-Request-ID"])
            assert await connection.rest() == b""

    assert len(set(ids)) == 2


async def test_a_web_page_of_any_origin_may_read_why_its_target_is_refused(server: RunningServer) -> None:
    answer = await ask_raw(server, spell("GET", "/" + "a" * 10_240, b"", b"Origin: https://dapp.example"))

    answer.problem(414)
    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    assert "X-Request-ID" in answer.headers["Access-Control-Expose-Headers"]


async def test_an_aiohttp_that_is_unknown_answers_in_its_own_words(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = CapturingLogger()
    monkeypatch.setattr(refusals, "log", log)
    monkeypatch.setattr(web.RequestHandler, "handle_error", lambda *_: None)
    refusals.is_as_known.cache_clear()

    assert not refusals.is_as_known()
    async with running_server(server.settings.data_dir.with_name("unknown")) as other:
        assert (await ask(other, "GET", "/hello")).status == 200

    refusals.is_as_known.cache_clear()
    assert [call.args for call in log.calls] == [("aiohttp_unknown",)]


@pytest.mark.usefixtures("debugging")
async def test_a_refused_request_is_one_line_at_level_debug(
    server: RunningServer, log: CapturingLogger
) -> None:
    await ask(server, "PUT", "/session/a", b'{"push":1}')
    await ask(server, "GET", "/nope")
    await ask_raw(server, spell("NONSENSE", "/hello"))
    await ask(server, "GET", "/hello")

    lines = [call.kwargs for call in log.calls if call.method_name == "debug"]
    assert [(line["route"], line["status"], line["code"], line["pointers"]) for line in lines] == [
        ("update-session", 400, "invalid-input", ["#/encryptionPayload", "#/push"]),
        ("unrouted", 404, "not-found", []),
        ("refused", 400, "bad-request", []),
    ]
    assert all(line["request_id"] for line in lines)


async def test_without_that_level_it_is_none(server: RunningServer, log: CapturingLogger) -> None:
    await ask(server, "PUT", "/session/a", b"{}")

    assert log.calls == []


@each_row("length", [0, 5, 200_000])
@each_row("protocol", [b"h2c", b"websocket"])
@each_row(("method", "path"), [("PUT", "/session/a"), ("GET", "/hello"), ("POST", "/nope")])
async def test_a_declined_upgrade_ends_the_connection_in_good_order(
    server: RunningServer, method: str, path: str, protocol: bytes, length: int
) -> None:
    upgrade = (b"Connection: Upgrade", b"Upgrade: " + protocol, b"Content-Length: %d" % length)
    async with raw_connection(server) as connection:
        await connection.send(spell(method, path, b"", *upgrade))
        await connection.send(b"x" * (length // 2))
        await connection.send(b"x" * (length - length // 2))
        await connection.send(spell("GET", "/hello"))

        answer = await connection.answer()
        await connection.rest()

    assert answer.status in (200, 400, 404)
    assert answer.headers["Connection"] == "close"


async def test_a_client_that_expected_to_be_asked_may_leave(
    server: RunningServer, log: CapturingLogger, caplog: pytest.LogCaptureFixture
) -> None:
    request = spell("PUT", "/session/a", b"", b"Expect: 100-continue", b"Content-Length: 9")
    for _ in range(5):
        async with raw_connection(server) as connection:
            sock: socket.socket = connection.writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            await connection.send(request * 3)
            connection.writer.transport.abort()

    async def served() -> bool:
        return (await ask(server, "GET", "/hello")).status == 200

    await eventually(served)
    assert not [record for record in caplog.records if record.levelno > logging.DEBUG]
    assert [call.args for call in log.calls if call.method_name != "debug"] == []


@each_row(
    ("target", "host", "status"),
    [
        ("http://localhost/rpc", b"evil.example", 200),
        ("http://127.0.0.1:1234/rpc", b"evil.example", 200),
        ("http://[::1]:80/rpc", b"evil.example", 200),
        ("http://evil.example/rpc", b"localhost", 403),
        ("http://localhost@evil.example/rpc", b"localhost", 403),
        ("http://evil.example", b"localhost", 405),
    ],
)
async def test_the_host_of_a_target_that_is_a_url_counts(
    server: RunningServer, target: str, host: bytes, status: int
) -> None:
    rpc = RpcClient(server)
    body = b'{"jsonrpc":"2.0","id":1,"method":"eth_accounts","params":[]}'
    request = b"\r\n".join(
        [
            b"POST %b HTTP/1.1" % target.encode(),
            b"Host: " + host,
            b"Content-Type: application/json",
            b"Content-Length: %d" % len(body),
            _CLOSE,
            b"",
            body,
        ]
    )

    answer = await ask_raw(rpc.server, request)

    assert answer.status == status


async def test_a_target_that_is_a_url_without_a_path_is_the_root(server: RunningServer) -> None:
    answer = await ask_raw(server, spell("GET", "http://bridge.example", b"", _CLOSE))

    assert answer.status == 200
    assert b"<!DOCTYPE html>" in answer.body
