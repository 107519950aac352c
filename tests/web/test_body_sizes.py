"""How large a body may be, however it comes: so many bytes, and not one more."""

from collections.abc import AsyncIterator

import pytest

from tests.support.asking import ask
from tests.support.raw_http import ask_raw, spell
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


@pytest.mark.parametrize(("size", "status"), [(LIMIT, 200), (LIMIT + 1, 413), (4 * LIMIT, 413)])
async def test_a_body_with_a_length_has_a_limit(
    server: RunningServer, path: str, size: int, status: int
) -> None:
    answer = await ask(server, "PUT", path, body_of(size))

    assert answer.status == status
    assert (await ask(server, "GET", path)).status == (200 if status == 200 else 204)


@pytest.mark.parametrize(("size", "status"), [(LIMIT, 200), (LIMIT + 1, 413), (4 * LIMIT, 413)])
async def test_a_body_in_chunks_has_the_limit_of_any_body(
    server: RunningServer, path: str, size: int, status: int
) -> None:
    assert await put_chunked(server, path, body_of(size)) == status

    assert (await ask(server, "GET", path)).status == (200 if status == 200 else 204)


@each_row(("method", "route"), [*WITH_A_BODY, ("POST", "/session/new")])
async def test_every_route_that_takes_a_body_refuses_a_large_one(
    server: RunningServer, method: str, route: str
) -> None:
    limit = OTHERS_LIMIT if route in OTHERS else LIMIT

    problem = (await ask(server, method, route, body_of(limit + 1))).problem(413)

    assert problem["type"].endswith(":too-large")
    assert str(limit) in problem["detail"]


async def test_a_length_that_is_too_large_is_refused_before_the_body_comes(
    server: RunningServer, path: str
) -> None:
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
