"""Bodies and queries: how large they may be, how they are declared, and that they are strictly JSON."""

import asyncio
import gzip
import threading
import zlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import StreamReader, web
from aiohttp.base_protocol import BaseProtocol
from aiohttp.test_utils import make_mocked_request

from bridge_server.kernel.errors import InvalidInputError, UnsupportedMediaError
from bridge_server.web import bodies as opaque_body
from bridge_server.web.bodies import OpaqueBodies, parse_object
from bridge_server.web.prefer import Wait, wanted_wait
from tests.support.asking import ask, ask_raw, spell
from tests.support.rows import each_row
from tests.support.server import RunningServer
from tests.web.table import WITH_A_BODY

LIMIT = 262_144
OTHERS_LIMIT = 65_536
OTHERS = ("/new", "/push")


def body_of(size: int) -> bytes:
    """A valid update of exactly so many bytes."""
    start, end = b'{"encryptionPayload":"', b'"}'
    return start + b"x" * (size - len(start) - len(end)) + end


async def pieces(body: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(body), 10_000):
        yield body[start : start + 10_000]


async def put_chunked(server: RunningServer, path: str, body: bytes) -> int:
    headers = {"Content-Type": "application/json"}
    async with server.client.put(server.url + path, data=pieces(body), headers=headers) as response:
        assert "Transfer-Encoding" in response.request_info.headers
        return response.status


@pytest.fixture
async def path(server: RunningServer) -> str:
    return f"/session/{await server.open_session()}"


@each_row(("size", "status"), [(LIMIT + 1, 413), (4 * LIMIT, 413), (LIMIT, 200)])
async def test_a_body_has_a_limit_whether_it_is_declared_or_in_chunks(
    server: RunningServer, size: int, status: int
) -> None:
    for in_chunks in (False, True):
        path = f"/session/{await server.open_session()}"
        if in_chunks:
            assert await put_chunked(server, path, body_of(size)) == status
        else:
            assert (await ask(server, "PUT", path, body_of(size))).status == status

        assert (await ask(server, "GET", path)).status == (200 if status == 200 else 204)


@each_row(("method", "route"), [*WITH_A_BODY, ("POST", "/session/new")])
async def test_every_route_refuses_a_large_body(server: RunningServer, method: str, route: str) -> None:
    limit = OTHERS_LIMIT if route in OTHERS else LIMIT

    problem = (await ask(server, method, route, body_of(limit + 1))).problem(413)

    assert problem["type"].endswith(":too-large")
    assert str(limit) in problem["detail"]


async def test_too_large_a_length_is_refused_before_the_body_comes(server: RunningServer, path: str) -> None:
    request = spell("PUT", path, b"", b"Content-Length: 999999999999", b"Content-Type: application/json")

    (await ask_raw(server, request)).problem(413)


async def test_a_body_that_stops_coming_is_408(
    server: RunningServer, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bridge_server.web.middleware._BODY_TIMEOUT_SECONDS", 0.05)
    request = spell("PUT", path, b"", b"Content-Length: 50") + b'{"encry'

    answer = await ask_raw(server, request)

    answer.problem(408)


async def test_a_body_where_none_is_read_is_ignored(server: RunningServer, path: str) -> None:
    for method in ("GET", "DELETE"):
        answer = await ask(server, method, path, b"\xff not JSON")

        assert answer.status in (200, 204)


_BODY = b'{"encryptionPayload":"a"}'


@each_row(
    "content_type",
    [
        None, "application/json", "Application/JSON", "application/json; charset=utf-8",
        "application/json;charset=UTF-8", "application/json ; x=y", "application/vnd.x+json",
        "application/problem+json", "application/cloudevents+JSON; charset=utf-8",
    ],
)  # fmt: skip
async def test_json_is_taken(server: RunningServer, content_type: str | None) -> None:
    session_id = await server.open_session()

    answer = await ask(server, "PUT", f"/session/{session_id}", _BODY, content_type=content_type)

    assert answer.status == 200


@each_row(
    "content_type",
    [
        "", "text/plain", "text/json", "text/html; x=application/json", "application/octet-stream",
        "application/x-www-form-urlencoded", "multipart/form-data; boundary=application/json",
        "application/jsonp", "application/xjson", "application/json-seq", "xapplication/json", "json",
        "*/*", ";;=", "é",
    ],
)  # fmt: skip
async def test_anything_else_is_415(server: RunningServer, content_type: str) -> None:
    session_id = await server.open_session()

    answer = await ask(server, "PUT", f"/session/{session_id}", _BODY, content_type=content_type)

    answer.problem(415)
    assert (await ask(server, "GET", f"/session/{session_id}")).status == 204


@each_row(("method", "path"), WITH_A_BODY)
async def test_the_rule_holds_on_every_json_route(server: RunningServer, method: str, path: str) -> None:
    refused = await ask(server, method, path, b"{}", content_type="text/plain")
    undeclared = await ask(server, method, path, b"{}", content_type=None)

    refused.problem(415)
    undeclared.problem(400)


async def test_bytes_that_are_no_text_are_no_media_type(server: RunningServer) -> None:
    request = spell("POST", "/subscribe", b"{}", b"Content-Type: \xff\xfe/json")

    (await ask_raw(server, request)).problem(415)


@each_row(
    ("encoding", "body"),
    [
        ("gzip", gzip.compress(_BODY)),
        ("GZIP", gzip.compress(_BODY)[:-9]),
        ("gzip", gzip.compress(bytes(40_000_000))),
        ("deflate", zlib.compress(_BODY)),
        ("deflate", b"\x00"),
        ("br", b"not br"),
        ("zstd", b"not zstd"),
        ("gzip, gzip", gzip.compress(gzip.compress(_BODY))),
        ("nonsense", _BODY),
    ],
    ids=["gzip", "cut gzip", "a bomb", "deflate", "broken deflate", "br", "zstd", "gzip twice", "nonsense"],
)
async def test_an_encoded_body_is_415(server: RunningServer, encoding: str, body: bytes) -> None:
    path = f"/session/{await server.open_session()}"

    answer = await ask(server, "PUT", path, body, {"Content-Encoding": encoding})

    answer.problem(415)
    assert (await ask(server, "GET", path)).status == 204


async def test_an_encoding_where_no_body_is_read_is_ignored(server: RunningServer) -> None:
    path = f"/session/{await server.open_session()}"

    for method in ("GET", "DELETE"):
        answer = await ask(server, method, path, b"not gzip", {"Content-Encoding": "gzip"})

        assert answer.status in (200, 204)


DEEPEST = 64


def member(text: str) -> bytes:
    """A body whose payload is this text."""
    return b'{"encryptionPayload":' + text.encode("utf-8", "surrogateescape") + b"}"


def nested(depth: int, opening: str, closing: str, core: str = "") -> bytes:
    """A body nested so deep, itself included."""
    return member('{"a":' + opening * (depth - 2) + core + closing * (depth - 2) + "}")


REFUSED: dict[str, bytes] = {
    "empty": b"",
    "blank": b" \r\n",
    "NaN": member("NaN"),
    "NaN inside": member('{"a":NaN}'),
    "Infinity": member('{"a":Infinity}'),
    "minus Infinity": member('{"a":[-Infinity]}'),
    "a leading zero": member('{"a":01}'),
    "a leading zero of a number beyond floats": member('{"a":01e400}'),
    "NaN beside a number beyond floats": member('{"a":1e400,"b":NaN}'),
    "a name twice beside a number beyond floats": member('{"a":1e400,"a":1e400}'),
    "a leading plus": member('{"a":+1}'),
    "hexadecimal": member('{"a":0x1}'),
    "an open fraction": member('{"a":1.}'),
    "a name twice": b'{"encryptionPayload":"a","encryptionPayload":"b"}',
    "a name twice with the same value": b'{"encryptionPayload":"a","encryptionPayload":"a"}',
    "a name twice, once escaped": b'{"encryptionPayload":"a","\\u0065ncryptionPayload":"a"}',
    "a name twice with spaces": b'{ "encryptionPayload" : "a" ,\n"encryptionPayload"\t:"a"}',
    "an unknown name twice": b'{"encryptionPayload":"a","x":1,"x":1}',
    "an empty name twice": b'{"encryptionPayload":"a","":1,"":1}',
    "a name twice inside": member('{"a":1,"a":2}'),
    "a name twice inside, once escaped": member('{"a":1,"\\u0061":2}'),
    "an astral name twice": member('{"😀":1,"\\ud83d\\ude00":2}'),
    "a name twice deep inside": member('{"x":[[{"y":{"a":1,"a":1}}]]}'),
    "a name twice in what is ignored": b'{"encryptionPayload":"a","x":[{"a":1,"a":1}]}',
    "a lone high surrogate": member('"\\ud800"'),
    "a lone low surrogate": member('"\\udc00"'),
    "surrogates in the wrong order": member('"\\udc00\\ud800"'),
    "a surrogate before a letter": member('"\\ud800x"'),
    "a lone surrogate in a name": member('{"\\ud800":1}'),
    "a lone surrogate in what is ignored": b'{"encryptionPayload":"a","x":"\\ud800"}',
    "a byte that is no UTF-8": member('"\udcff"'),
    "a surrogate in UTF-8": member('"\udced\udca0\udc80"'),
    "an overlong form": member('"\udcc0\udcaf"'),
    "a cut character": b'{"encryptionPayload":"\xc3',
    "a byte order mark": b"\xef\xbb\xbf" + member('"a"'),
    "UTF-16": member('"a"').decode().encode("utf-16"),
    "a control character": member('"\x00"'),
    "a tab in a string": member('"\t"'),
    "an unknown escape": member('"\\x41"'),
    "a short escape": member('"\\u12"'),
    "something after": member('"a"') + b" x",
    "a second object": member('"a"') + b"{}",
    "a NUL after": member('"a"') + b"\x00",
    "a trailing comma": b'{"encryptionPayload":"a",}',
    "a leading comma": b'{,"encryptionPayload":"a"}',
    "a comment": b'{"encryptionPayload":"a"/* */}',
    "single quotes": b"{'encryptionPayload':'a'}",
    "no quotes": b'{encryptionPayload:"a"}',
    "a space that is none of JSON's": b'{"encryptionPayload":\xc2\xa0"a"}',
    "a form feed": b"\x0c" + member('"a"'),
    "an object that is open": b'{"encryptionPayload":"a"',
    "a string that is open": b'{"encryptionPayload":"a',
    "an array": b'[{"encryptionPayload":"a"}]',
    "a string": b'"encryptionPayload"',
    "a number": b"1",
    "null": b"null",
    "true": b"true",
    "a form": b"encryptionPayload=a",
    "gzip undeclared": gzip.compress(member('"a"')),
    "arrays too deep": nested(DEEPEST + 1, "[", "]"),
    "objects too deep": nested(DEEPEST + 1, '{"a":', "}", "1"),
    "1,000 deep": nested(1_000, "[", "]"),
    "30,000 deep": nested(30_000, "[", "]"),
    "too deep among 20,000 arrays": member('{"a":[' + "[]," * 20_000 + "[" * 64 + "]" * 64 + "]}"),
    "a name twice among 20,000 objects": member('{"a":[' + "{}," * 20_000 + '{"a":1,"a":1}]}'),
    "65,000 open": b"[" * 65_000,
    "65,000 objects open": b'{"a":' * 13_000,
    "too deep in what is ignored": b'{"encryptionPayload":"a","x":' + b"[" * 64 + b"]" * 64 + b"}",
    "too deep in a name that comes twice": b'{"x":'
    + b"[" * 999
    + b"]" * 999
    + b',"x":1,"encryptionPayload":"a"}',
    "objects too deep in a name that comes twice": (
        b'{"encryptionPayload":{"x":' + b'{"a":' * 999 + b"1" + b"}" * 999 + b',"x":1}}'
    ),
}


@each_row("body", REFUSED.values(), ids=REFUSED.keys())
async def test_a_body_that_is_not_strictly_a_json_object_is_400(server: RunningServer, body: bytes) -> None:
    session_id = await server.open_session()

    answer = await ask(server, "PUT", f"/session/{session_id}", body)

    assert "errors" not in answer.problem(400)
    assert (await ask(server, "GET", f"/session/{session_id}")).status == 204


@each_row(
    "body",
    [
        nested(DEEPEST, "[", "]"),
        nested(DEEPEST, '{"a":', "}", "1"),
        b'{"encryptionPayload":"a","x":' + b"[" * 63 + b"]" * 63 + b"}",
        b'{"encryptionPayload":{},"x":' + b"[" * 63 + b"]" * 63 + b',"y":[[{}]]}',
        member('"' + "[{" * 1_000 + '"'),
        member("{" + ",".join(f'"{n}":[{{}}]' for n in range(500)) + "}"),
        b" \t\r\n" + member('"a"') + b" \t\r\n",
        member('{"a":1' + "0" * 308 + "}"),
        member('{"a":1e308,"b":-1e-400}'),
        member('{"a":1,"A":1,"\\u0001":1}'),
        b'{"encryptionPayload":"","ENCRYPTIONPAYLOAD":1,"__proto__":{},"constructor":null}',
    ],
    ids=[
        "arrays as deep as allowed", "objects as deep as allowed", "what is ignored as deep as allowed",
        "as deep as allowed with others beside", "brackets in a string", "many brackets side by side",
        "space around", "a number of 309 digits", "a large and a tiny number", "names that differ a little",
        "names of other languages' objects",
    ],
)  # fmt: skip
async def test_every_strict_json_object_is_taken(server: RunningServer, body: bytes) -> None:
    session_id = await server.open_session()

    answer = await ask(server, "PUT", f"/session/{session_id}", body)

    assert answer.status == 200


async def test_a_detail_says_what_was_wrong(server: RunningServer) -> None:
    session_id = await server.open_session()
    details = {
        body: (await ask(server, "PUT", f"/session/{session_id}", body)).problem(400)["detail"]
        for body in (b"", b"[]", b"1", b'{"a":1,"a":1}', REFUSED["1,000 deep"], b"{")
    }

    assert "empty" in details[b""]
    assert "an array" in details[b"[]"]
    assert "a number" in details[b"1"]
    assert "'a' twice" in details[b'{"a":1,"a":1}']
    assert "deeper than 64" in details[REFUSED["1,000 deep"]]
    assert "line 1 column 2" in details[b"{"]


FEW = b'{"encryptionPayload":{"a":"' + b"x" * 100_000 + b'"}}'
MANY = b'{"encryptionPayload":{"a":[' + b"[]," * 5_000 + b"[]]}}"


class Protocol(BaseProtocol):
    """Nobody sends on it."""

    _reading_paused = False


async def request_with(body: bytes, content_type: str = "application/json") -> web.Request:
    payload = StreamReader(Protocol(asyncio.get_running_loop()), 2**20, loop=asyncio.get_running_loop())
    payload.feed_data(body)
    payload.feed_eof()
    return make_mocked_request("PUT", "/", {"Content-Type": content_type}, payload=payload)


@pytest.mark.parametrize(("body", "is_beside"), [(FEW, False), (MANY, True)])
async def test_only_many_values_are_read_beside_the_loop(
    monkeypatch: pytest.MonkeyPatch, body: bytes, is_beside: bool
) -> None:
    threads = []

    def note_thread(body: bytes, **options: Any) -> Any:
        threads.append(threading.current_thread() is not threading.main_thread())
        return parse_object(body, **options)

    monkeypatch.setattr(opaque_body, "parse_object", note_thread)

    document = await OpaqueBodies().json_object(await request_with(body))

    assert threads == [is_beside]
    assert document.text("encryptionPayload") == body[len(b'{"encryptionPayload":') : -1]


async def test_an_error_found_in_the_thread_is_raised_to_the_handler() -> None:
    bodies = OpaqueBodies()

    with pytest.raises(InvalidInputError, match="not JSON"):
        await bodies.json_object(await request_with(MANY + b"]"))
    with pytest.raises(UnsupportedMediaError):
        await bodies.json_object(await request_with(MANY, "text/plain"))


@each_row(
    ("query", "seconds"),
    [
        ("", 0), ("?", 0), ("?wait=0", 0), ("?wait=7", 7), ("?wait=0007", 7), ("?wait=25", 25),
        ("?wait=9999", 25), ("?wait=99999", 25), ("?wait=" + "9" * 4000, 25), ("?wait=7&wait=8", 7),
        ("?wait=7&other", 7), ("?other&wait=7", 7), ("?w%61it=7", 7), ("?wait=%37", 7),
        ("?wait=7#wait=8", 7), ("?WAIT=7", 0), ("?other=wait=7", 0),
    ],
)  # fmt: skip
def test_a_query_asks_for_a_wait(query: str, seconds: int) -> None:
    assert wanted_wait(make_mocked_request("GET", f"/session/a{query}"), 25) == Wait(seconds)


@each_row("value", ["", "-1", "+7", "7.0", " 7", "7%20", "x", "٧", "9" * 4001])
def test_a_wait_that_is_not_a_number_of_seconds_is_refused(value: str) -> None:
    with pytest.raises(InvalidInputError, match="whole seconds"):
        wanted_wait(make_mocked_request("GET", f"/session/a?wait={value}"), 25)
