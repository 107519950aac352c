"""A body is JSON, declared as such or not declared at all, and comes as it is."""

import gzip
import zlib

from tests.support.asking import ask
from tests.support.raw_http import ask_raw, spell
from tests.support.rows import each_row
from tests.support.server import RunningServer
from tests.web.table import WITH_A_BODY

_BODY = b'{"encryptionPayload":"a"}'


@each_row(
    "content_type",
    [
        None,
        "application/json",
        "Application/JSON",
        "application/json; charset=utf-8",
        "application/json;charset=UTF-8",
        "application/json ; x=y",
        "application/vnd.x+json",
        "application/problem+json",
        "application/cloudevents+JSON; charset=utf-8",
    ],
)
async def test_json_is_taken(server: RunningServer, content_type: str | None) -> None:
    session_id = await server.open_session()

    answer = await ask(server, "PUT", f"/session/{session_id}", _BODY, content_type=content_type)

    assert answer.status == 200


@each_row(
    "content_type",
    [
        "",
        "text/plain",
        "text/json",
        "text/html; x=application/json",
        "application/octet-stream",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=application/json",
        "application/jsonp",
        "application/xjson",
        "application/json-seq",
        "xapplication/json",
        "json",
        "*/*",
        ";;=",
        "é",
    ],
)
async def test_anything_else_is_415(server: RunningServer, content_type: str) -> None:
    session_id = await server.open_session()

    answer = await ask(server, "PUT", f"/session/{session_id}", _BODY, content_type=content_type)

    answer.problem(415)
    assert (await ask(server, "GET", f"/session/{session_id}")).status == 204


@each_row(("method", "path"), WITH_A_BODY)
async def test_the_rule_holds_on_every_route_that_reads_json(
    server: RunningServer, method: str, path: str
) -> None:
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
