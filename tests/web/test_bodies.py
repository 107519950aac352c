"""Bodies and queries: how large they may be, how they are declared, and that they are strictly JSON.

White-box: how long a body may take has no setting.
"""

import gzip
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp.test_utils import make_mocked_request

from bridge_server.web import bodies as opaque_body
from bridge_server.web.bodies import parse_object
from bridge_server.web.prefer import Wait, wanted_wait
from tests.support.asking import Answer, ask, ask_raw, spell
from tests.support.rows import each_row
from tests.support.server import RunningServer
from tests.web.table import WITH_A_BODY

LIMIT = 262_144


def body_of(size: int) -> bytes:
    """A valid update of exactly so many bytes."""
    start, end = b'{"encryptionPayload":"', b'"}'
    return start + b"x" * (size - len(start) - len(end)) + end


async def put(
    server: RunningServer,
    body: bytes,
    headers: dict[str, str] | None = None,
    content_type: str | None = "application/json",
) -> Answer:
    """The answer to an update of a new session, which has a payload only if it was taken."""
    path = f"/session/{await server.open_session()}"
    answer = await ask(server, "PUT", path, body, headers, content_type=content_type)
    assert (await ask(server, "GET", path)).status == (200 if answer.status == 200 else 204)
    return answer


@pytest.fixture
async def path(server: RunningServer) -> str:
    return f"/session/{await server.open_session()}"


async def pieces(body: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(body), 10_000):
        yield body[start : start + 10_000]


async def test_a_body_has_a_limit_however_it_comes(server: RunningServer, path: str) -> None:
    for size, status in ((LIMIT + 1, 413), (LIMIT, 200)):
        assert (await put(server, body_of(size))).status == status
        chunked, headers = pieces(body_of(size)), {"Content-Type": "application/json"}
        async with server.client.put(server.url + path, data=chunked, headers=headers) as response:
            assert response.status == status
        assert (await ask(server, "GET", path)).status == (200 if status == 200 else 204)
    (await ask(server, "POST", "/session/new", body_of(LIMIT + 1))).problem(413)
    request = spell("PUT", path, b"", b"Content-Length: 999999999999", b"Content-Type: application/json")
    (await ask_raw(server, request)).problem(413)


async def test_every_route_refuses_a_large_body_and_one_that_is_no_json(server: RunningServer) -> None:
    for method, route in WITH_A_BODY:
        limit = 65_536 if route in ("/new", "/push") else LIMIT
        large = await ask(server, method, route, body_of(limit + 1))
        assert str(limit) in large.problem(413)["detail"], route
        (await ask(server, method, route, b"{}", content_type="text/plain")).problem(415)
        (await ask(server, method, route, b"{}", content_type=None)).problem(400)


async def test_a_body_may_time_out(server: RunningServer, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridge_server.web.middleware._BODY_TIMEOUT_SECONDS", 0.05)
    (await ask_raw(server, spell("PUT", path, b"", b"Content-Length: 50") + b'{"encry')).problem(408)


async def test_a_body_where_none_is_read_is_ignored(server: RunningServer, path: str) -> None:
    for method, status in (("GET", 204), ("DELETE", 200)):
        answer = await ask(server, method, path, b"\xff not JSON or gzip", {"Content-Encoding": "gzip"})
        assert answer.status == status


_BODY = b'{"encryptionPayload":"a"}'


async def test_a_body_is_declared_as_json_or_not_at_all(server: RunningServer) -> None:
    json = [
        None, "application/json", "Application/JSON", "application/json;charset=UTF-8",
        "application/json ; x=y", "application/cloudevents+JSON; charset=utf-8",
    ]  # fmt: skip
    other = [
        "", "text/json", "text/html; x=application/json", "multipart/form-data; boundary=application/json",
        "application/jsonp", "application/json-seq", "xapplication/json", "json", "*/*", ";;=", "é",
    ]  # fmt: skip
    for declared in json + other:
        answer = await put(server, _BODY, content_type=declared)
        assert answer.status == (200 if declared in json else 415), declared


async def test_an_encoded_body_is_415(server: RunningServer) -> None:
    for encoding, body in (
        ("GZIP", gzip.compress(_BODY)), ("gzip", gzip.compress(bytes(40_000_000))), ("deflate", b"\x00"),
        ("br", b"not br"), ("nonsense", _BODY),
    ):  # fmt: skip
        (await put(server, body, {"Content-Encoding": encoding})).problem(415)


DEEPEST = 64


def member(text: str) -> bytes:
    """A body whose payload is this text."""
    return b'{"encryptionPayload":' + text.encode("utf-8", "surrogateescape") + b"}"


def nested(depth: int, opening: str, closing: str, core: str = "") -> bytes:
    """A body nested so deep, itself included."""
    return member('{"a":' + opening * (depth - 2) + core + closing * (depth - 2) + "}")


# What one of the two parsers refuses, what only the second sees, and what is too deep for either.
REFUSED: dict[str, bytes] = {
    "blank": b" \r\n",
    "NaN inside": member('{"a":NaN}'),
    "a leading zero": member('{"a":01}'),
    "a leading zero of a number beyond floats": member('{"a":01e400}'),
    "NaN beside a number beyond floats": member('{"a":1e400,"b":NaN}'),
    "a name twice beside a number beyond floats": member('{"a":1e400,"a":1e400}'),
    "a string without an end after such a number": b'{"encryptionPayload":1e400,"b":"'
    + b'\\"' * 100_000
    + b"\\",
    "a name twice": b'{"encryptionPayload":"a","encryptionPayload":"a"}',
    "a name twice, once escaped": b'{"encryptionPayload":"a","\\u0065ncryptionPayload":"a"}',
    "a name twice with spaces": b'{ "encryptionPayload" : "a" ,\n"encryptionPayload"\t:"a"}',
    "an unknown name twice": b'{"encryptionPayload":"a","x":1,"x":1}',
    "a name twice deep inside": member('{"x":[[{"y":{"a":1,"a":1}}]]}'),
    "a name twice in what is ignored": b'{"encryptionPayload":"a","x":[{"a":1,"a":1}]}',
    "a lone surrogate": member('"\\ud800"'),
    "a lone surrogate in what is ignored": b'{"encryptionPayload":"a","x":"\\ud800"}',
    "a byte that is no UTF-8": member('"\udcff"'),
    "a byte order mark": b"\xef\xbb\xbf" + member('"a"'),
    "UTF-16": member('"a"').decode().encode("utf-16"),
    "a control character": member('"\x00"'),
    "a second object": member('"a"') + b"{}",
    "a NUL after": member('"a"') + b"\x00",
    "a trailing comma": b'{"encryptionPayload":"a",}',
    "an object that is open": b'{"encryptionPayload":"a"',
    "a form": b"encryptionPayload=a",
    "arrays too deep": nested(DEEPEST + 1, "[", "]"),
    "objects too deep": nested(DEEPEST + 1, '{"a":', "}", "1"),
    "1,000 deep": nested(1_000, "[", "]"),
    "30,000 deep": nested(30_000, "[", "]"),
    "too deep among 20,000 arrays": member('{"a":[' + "[]," * 20_000 + "[" * 64 + "]" * 64 + "]}"),
    "a name twice among 20,000 objects": member('{"a":[' + "{}," * 20_000 + '{"a":1,"a":1}]}'),
    "65,000 open": b"[" * 65_000,
    "too deep in what is ignored": b'{"encryptionPayload":"a","x":' + b"[" * 64 + b"]" * 64 + b"}",
    "too deep in a name that comes twice": member('{"x":' + '{"a":' * 999 + "1" + "}" * 999 + ',"x":1}'),
}


@each_row("body", REFUSED.values(), ids=REFUSED.keys())
async def test_a_body_that_is_not_strictly_a_json_object_is_400(server: RunningServer, body: bytes) -> None:
    assert "errors" not in (await put(server, body)).problem(400)


TAKEN: dict[str, bytes] = {
    "arrays as deep as allowed": nested(DEEPEST, "[", "]"),
    "what is ignored as deep": b'{"encryptionPayload":{},"x":' + b"[" * 63 + b"]" * 63 + b',"y":[[{}]]}',
    "brackets in a string": member('"' + "[{" * 1_000 + '"'),
    "many brackets side by side": member("{" + ",".join(f'"{n}":[{{}}]' for n in range(500)) + "}"),
    "space around": b" \t\r\n" + member('"a"') + b" \t\r\n",
    "a large and a tiny number": member('{"a":1e308,"b":-1e-400}'),
    "another spelling of a known name": b'{"encryptionPayload":"a","push":null,"Push":1}',
    "names that differ a little": member('{"a":1,"A":1,"\\u0001":1}'),
    "names of other languages' objects":
        b'{"encryptionPayload":"","ENCRYPTIONPAYLOAD":1,"__proto__":{},"constructor":null}',
}  # fmt: skip


@each_row("body", TAKEN.values(), ids=TAKEN.keys())
async def test_every_strict_json_object_is_taken(server: RunningServer, body: bytes) -> None:
    assert (await put(server, body)).status == 200


async def test_a_detail_says_what_was_wrong(server: RunningServer) -> None:
    for body, words in (
        (b"", "empty"), (b"[]", "an array"), (b"1", "a number"), (b'{"a":1,"a":1}', "'a' twice"),
        (REFUSED["1,000 deep"], "deeper than 64"), (b"{", "line 1 column 2"),
        (REFUSED["a byte that is no UTF-8"], "it is not UTF-8."), (REFUSED["65,000 open"], "deeper than 64"),
    ):  # fmt: skip
        assert words in (await put(server, body)).problem(400)["detail"], words
    undeclared = (await put(server, b"{}", content_type="")).problem(415)["detail"]
    assert undeclared == "Send the body as application/json, not as ''."


async def test_only_many_values_are_read_beside_the_loop(
    server: RunningServer, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = []

    def note_thread(body: bytes, **options: Any) -> Any:
        threads.append(threading.current_thread() is not threading.main_thread())
        return parse_object(body, **options)

    monkeypatch.setattr(opaque_body, "parse_object", note_thread)
    for content in ('{"a":"' + "x" * 100_000 + '"}', '{"a":[' + "[]," * 5_000 + "[]]}"):
        await ask(server, "PUT", path, member(content))
    assert threads == [False, True]


def test_a_query_asks_for_a_wait() -> None:
    for query, seconds in (
        ("", 0), ("?", 0), ("?wait=0", 0), ("?wait=7", 7), ("?wait=0007", 7), ("?wait=25", 25),
        ("?wait=9999", 25), ("?wait=99999", 25), ("?wait=" + "9" * 4000, 25), ("?wait=7&wait=8", 7),
        ("?wait=7&other", 7), ("?other&wait=7", 7), ("?w%61it=7", 7), ("?wait=%37", 7),
        ("?wait=7#wait=8", 7), ("?WAIT=7", 0), ("?other=wait=7", 0),
    ):  # fmt: skip
        request = make_mocked_request("GET", f"/session/a{query}")
        assert wanted_wait(request, 25) == Wait(seconds), query
