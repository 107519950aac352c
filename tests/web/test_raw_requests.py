"""Whatever comes in on the port: answered or refused in the server's words, and never its fault.

White-box: no request makes aiohttp fail; what is logged then is read where it is logged.
"""

import logging
import socket
import struct
from collections.abc import Awaitable, Callable, Iterator
from itertools import product
from typing import TypeAlias

import pytest
from aiohttp import web
from structlog.testing import CapturedCall, CapturingLogger

from bridge_server.cli.process import is_not_a_client_fault
from bridge_server.web import connection as refusals
from bridge_server.web import request_log
from tests.support.asking import RawConnection, ask, ask_raw, raw_connection, spell, until_waiting
from tests.support.rows import each_row
from tests.support.server import RunningServer, running_server
from tests.support.waiting import eventually

REFUSED = {
    "an unknown method": (400, spell("NONSENSE", "/hello")),
    "a small method": (400, spell("get", "/hello")),
    "no host": (400, b"GET /hello HTTP/1.1\r\n\r\n"),
    "two hosts": (400, b"GET /hello HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"),
    "1,000 headers": (400, spell("GET", "/hello", b"", *[b"X-%d: a" % each for each in range(1_000)])),
    "a URL with a wrong port": (400, spell("GET", "http://a:99999/hello")),
    "a URL without a host": (400, spell("GET", "http:///hello")),
    "HTTP/2": (400, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    "TLS": (400, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200)),
    "too long a target": (414, spell("GET", "/" + "a" * 10_240)),
    "too long a header": (431, spell("GET", "/hello", b"", b"X-A: " + b"a" * 10_240)),
    "nowhere": (404, spell("OPTIONS", "*")),
    "a tunnel": (404, spell("CONNECT", "example.org:443")),
}

GARBAGE: dict[str, bytes] = {
    **{name: request for name, (_, request) in REFUSED.items()},
    "nothing": b"",
    "zeros": bytes(1_000),
    "no version": b"GET /hello\r\n\r\n",
    "a bare line feed in a header": b"GET /hello HTTP/1.1\r\nHost: x\nX: y\r\n\r\n",
    "raw bytes in the path": b"GET /session/\xff HTTP/1.1\r\nHost: x\r\n\r\n",
    "a negative length": spell("PUT", "/session/a", b"", b"Content-Length: -5"),
    "two lengths": spell("PUT", "/session/a", b"hello", b"Content-Length: 6"),
    "a length and chunks": spell("PUT", "/session/a", b"0\r\n\r\n", b"Transfer-Encoding: chunked"),
    "broken chunks": spell("PUT", "/session/a", b"", b"Transfer-Encoding: chunked") + b"ZZ\r\nhello\r\n",
    "an unknown transfer encoding": spell("PUT", "/session/a", b"", b"Transfer-Encoding: rot13") + b"hello",
    "a broken host": b"GET /hello HTTP/1.1\r\nHost: [[[::\r\n\r\n",
    "a broken encoding": spell("PUT", "/session/a", b"not gzip", b"Content-Encoding: gzip"),
}


Check: TypeAlias = Callable[[], Awaitable[None]]


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> CapturingLogger:
    log = CapturingLogger()
    monkeypatch.setattr(request_log, "log", log)
    return log


@pytest.fixture
def unharmed(
    server: RunningServer, log: CapturingLogger, caplog: pytest.LogCaptureFixture
) -> Iterator[Check]:
    """Checks that the server works, and that neither it nor the library under it has logged a fault.

    A line about a slow request is no fault.
    """
    caplog.handler.addFilter(is_not_a_client_fault)
    caplog.set_level(logging.INFO)

    def level(call: CapturedCall) -> int:
        is_named = call.method_name != "log"
        return logging.getLevelNamesMapping()[call.method_name.upper()] if is_named else int(call.args[0])

    async def check() -> None:
        assert (await ask(server, "GET", "/hello")).status == 200
        await until_waiting(server, 0)
        assert [call.args for call in log.calls if level(call) > logging.INFO] == []
        assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []

    yield check
    caplog.handler.removeFilter(is_not_a_client_fault)


@each_row("garbage", GARBAGE.values(), ids=GARBAGE.keys())
async def test_garbage_is_answered_or_dropped(server: RunningServer, garbage: bytes, unharmed: Check) -> None:
    async with raw_connection(server) as connection:
        await connection.send(garbage)
        connection.writer.write_eof()
        said = await connection.rest()
    assert b" 500 " not in said
    assert b"Traceback" not in said
    await unharmed()


@each_row("cut", [1, 60, -1])
async def test_half_a_request_is_dropped(server: RunningServer, cut: int, unharmed: Check) -> None:
    session_id = await server.open_session()
    request = spell("PUT", f"/session/{session_id}", b'{"encryptionPayload":"' + b"x" * 200 + b'"}')
    for hang_up in (False, True):
        async with raw_connection(server) as connection:
            await connection.send(request[:cut])
            if hang_up:
                connection.writer.write_eof()
                assert b"HTTP/1.1 200" not in await connection.rest()
    assert (await ask(server, "GET", f"/session/{session_id}")).status == 204
    await unharmed()


def abort(connection: RawConnection) -> None:
    """Reset the connection, as a crash of the client does."""
    sock: socket.socket = connection.writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.writer.transport.abort()


async def test_a_connection_reset_while_it_waits_is_forgotten(server: RunningServer, unharmed: Check) -> None:
    session_id = await server.open_session()
    async with raw_connection(server) as connection:
        await connection.send(spell("GET", f"/session/{session_id}?wait=20"))
        await until_waiting(server, 1)
        abort(connection)
        await until_waiting(server, 0)
    await unharmed()


async def test_requests_in_one_piece_are_answered_in_their_order(server: RunningServer) -> None:
    path = f"/session/{await server.open_session()}"
    requests = [
        spell("PUT", path, b'{"encryptionPayload":"one"}'), spell("GET", path), spell("HEAD", "/hello"),
        spell("GET", "/nope"), spell("DELETE", path), spell("GET", path),
    ]  # fmt: skip
    async with raw_connection(server) as connection:
        await connection.send(b"".join(requests))
        answers = [await connection.answer(to_head=number == 2) for number in range(6)]
    assert [answer.status for answer in answers] == [200, 200, 200, 404, 200, 404]
    assert answers[1].body == b'{"encryptionPayload":"one"}'


async def test_a_body_in_another_transfer_coding_is_refused(server: RunningServer) -> None:
    chunks = b"1b\r\n" + b'{"encryptionPayload":"one"}' + b"\r\n0\r\n\r\n"
    session = f"/session/{await server.open_session()}"
    for method, path, status in (("PUT", session, 200), ("GET", "/hello", 200), ("GET", "/nope", 404)):
        head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n".encode()
        for coding in (b"GZIP,chunked", b"identity, chunked"):
            async with raw_connection(server) as connection:
                await connection.send(head + b"Transfer-Encoding: " + coding + b"\r\n\r\n" + chunks)
                refusal = await connection.answer()
                await connection.send(head + b"Transfer-Encoding: Chunked\r\n\r\n" + chunks)
                answer = await connection.answer()
            assert (refusal.status, answer.status) == (400, status), path
            assert b"without another transfer coding" in refusal.body


async def test_a_client_may_ask_before_it_sends_the_body(server: RunningServer) -> None:
    path = f"/session/{await server.open_session()}"
    body = b'{"encryptionPayload":"asked"}'
    async with raw_connection(server) as connection:
        await connection.send(
            spell("PUT", path, b"", b"Expect: 100-continue", b"Content-Length: %d" % len(body))
        )
        interim = await connection.answer()
        await connection.send(body)
        answer = await connection.answer()
    assert (interim.status, answer.status) == (100, 200)
    assert (await ask(server, "GET", path)).body == body


async def test_http_1_0_is_spoken(server: RunningServer) -> None:
    answer = await ask_raw(server, b"GET /hello HTTP/1.0\r\n\r\n")
    assert (answer.status, answer.body[:11]) == (200, b"Hello World")


@each_row(("status", "request_"), REFUSED.values(), ids=REFUSED.keys())
async def test_a_refusal_is_a_problem_that_does_not_name_the_software(
    server: RunningServer, status: int, request_: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    answer = await ask_raw(server, request_)
    answer.problem(status)
    assert answer.headers["Server"] == "Bridge-Server"
    assert not [name for name in (b"aiohttp", b"Python") if name in answer.body]
    assert not caplog.records


async def test_each_refusal_has_an_id_ends_the_connection_and_may_be_read(server: RunningServer) -> None:
    ids = set()
    for _ in range(2):
        async with raw_connection(server) as connection:
            await connection.send(spell("NONSENSE", "/hello") + spell("GET", "/hello"))
            ids.add((await connection.answer()).headers["X-Request-ID"])
            assert await connection.rest() == b""
    assert len(ids) == 2
    answer = await ask_raw(server, spell("GET", "/" + "a" * 10_240, b"", b"Origin: https://dapp.example"))
    answer.problem(414)
    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    assert "X-Request-ID" in answer.headers["Access-Control-Expose-Headers"]


async def test_an_unknown_aiohttp_answers(server: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    log = CapturingLogger()
    monkeypatch.setattr(refusals, "log", log)
    monkeypatch.setattr(web.RequestHandler, "handle_error", lambda *_: None)
    refusals.is_as_known.cache_clear()
    assert not refusals.is_as_known()
    async with running_server(server.settings.data_dir.with_name("unknown")) as other:
        assert (await ask(other, "GET", "/hello")).status == 200
    refusals.is_as_known.cache_clear()
    assert [call.args for call in log.calls] == [("aiohttp_unknown",)]


async def test_a_refusal_is_one_line_at_level_debug_and_none_above(
    server: RunningServer, log: CapturingLogger, caplog: pytest.LogCaptureFixture
) -> None:
    await ask(server, "PUT", "/session/a", b"{}")
    assert log.calls == []

    caplog.set_level(logging.DEBUG)
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


async def test_a_declined_upgrade_ends_the_connection_in_good_order(server: RunningServer) -> None:
    requests = [("PUT", "/session/a", 400), ("GET", "/hello", 200), ("POST", "/nope", 404)]
    for (method, path, status), protocol, length in product(requests, (b"h2c", b"websocket"), (0, 200_000)):
        upgrade = (b"Connection: Upgrade", b"Upgrade: " + protocol, b"Content-Length: %d" % length)
        async with raw_connection(server) as connection:
            await connection.send(spell(method, path, b"", *upgrade))
            for _ in range(2):
                await connection.send(b"x" * (length // 2))
            await connection.send(spell("GET", "/hello"))
            answer = await connection.answer()
            await connection.rest()
        assert (answer.status, answer.headers["Connection"]) == (status, "close"), path


async def test_a_client_that_expected_to_be_asked_may_leave(
    server: RunningServer, log: CapturingLogger, caplog: pytest.LogCaptureFixture
) -> None:
    request = spell("PUT", "/session/a", b"", b"Expect: 100-continue", b"Content-Length: 9")
    for _ in range(5):
        async with raw_connection(server) as connection:
            await connection.send(request * 3)
            abort(connection)

    async def served() -> bool:
        return (await ask(server, "GET", "/hello")).status == 200

    await eventually(served)
    assert not [record for record in caplog.records if record.levelno > logging.DEBUG]
    assert [call.args for call in log.calls if call.method_name != "debug"] == []


async def test_the_host_of_a_target_that_is_a_url_counts(server: RunningServer) -> None:
    body = b'{"jsonrpc":"2.0","id":1,"method":"eth_accounts","params":[]}'
    for target, host, status in (
        ("http://localhost/rpc", b"evil.example", 200),
        ("http://127.0.0.1:1234/rpc", b"evil.example", 200),
        ("http://[::1]:80/rpc", b"evil.example", 200),
        ("http://evil.example/rpc", b"localhost", 403),
        ("http://localhost@evil.example/rpc", b"localhost", 403),
        ("http://evil.example", b"localhost", 405),
    ):
        request = spell("POST", target, body, b"Content-Type: application/json", b"Connection: close")
        answer = await ask_raw(server, request.replace(b"bridge.example", host))
        assert answer.status == status, target
