"""A server whose database another program holds: it says «later» to writers, serves readers, and recovers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientResponse

from tests.support.eventually import eventually
from tests.support.locks import locked
from tests.support.server import RunningServer, running_server

PAYLOAD = {"encryptionPayload": "sealed"}
THREE_A_MINUTE_APART: dict[str, Any] = {"quota_exempt": (), "sessions_burst": 3, "sessions_per_minute": 1.0}


@pytest.fixture
async def server(impatient: None, tmp_path: Path) -> AsyncIterator[RunningServer]:
    async with running_server(tmp_path / "data") as server:
        yield server


async def request(
    server: RunningServer, method: str, path: str, body: object = None
) -> tuple[int, ClientResponse]:
    async with server.client.request(method, f"{server.url}{path}", json=body) as response:
        await response.read()
        return response.status, response


async def status_of(server: RunningServer, method: str, path: str, body: object = None) -> int:
    status, _ = await request(server, method, path, body)
    return status


async def test_every_write_is_answered_503_with_retry_after(server: RunningServer) -> None:
    session_id = await server.open_session()
    call_id = await server.request_call(session_id)
    writes = [
        ("POST", "/session/new", None),
        ("PUT", f"/session/{session_id}", PAYLOAD),
        ("POST", f"/session/{session_id}/call/new", {**PAYLOAD, "dappName": "Dapp"}),
        ("POST", f"/call-status/{call_id}/new", PAYLOAD),
        ("DELETE", f"/session/{session_id}", None),
        ("POST", "/subscribe", {"topic": session_id, "webhook": "https://example.org/hook"}),
    ]

    with locked(server.settings.database_file):
        for write in writes:
            status, response = await request(server, *write)

            assert status == 503, write
            assert int(response.headers["Retry-After"]) >= 1
            assert response.content_type == "application/problem+json"
            problem = await response.json(content_type=None)
            assert problem["status"] == 503
            assert "Nothing was stored" in problem["detail"]
            assert "locked" in problem["detail"]

    for write in writes[:4]:
        assert await status_of(server, *write) == 200, write


async def test_a_write_that_was_refused_has_stored_nothing(server: RunningServer) -> None:
    session_id = await server.open_session()
    call_id = await server.request_call(session_id)

    with locked(server.settings.database_file):
        assert await status_of(server, "PUT", f"/session/{session_id}", PAYLOAD) == 503
        assert await status_of(server, "POST", f"/call-status/{call_id}/new", PAYLOAD) == 503
        assert await status_of(server, "DELETE", f"/session/{session_id}") == 503

    assert await status_of(server, "GET", f"/session/{session_id}") == 204
    assert await status_of(server, "GET", f"/call-status/{call_id}") == 204
    async with server.client.get(f"{server.url}/session/{session_id}/calls") as response:
        assert list(await response.json()) == [call_id]


async def test_reads_go_on(server: RunningServer) -> None:
    session_id = await server.open_session()
    call_id = await server.request_call(session_id, payload="sealed")
    await status_of(server, "PUT", f"/session/{session_id}", PAYLOAD)
    reads = [
        f"/session/{session_id}",
        f"/session/{session_id}/calls",
        f"/session/{session_id}/call/{call_id}",
        "/hello",
        "/info",
        "/livez",
    ]

    with locked(server.settings.database_file):
        write = asyncio.create_task(status_of(server, "POST", "/session/new"))
        for path in reads:
            assert await status_of(server, "GET", path) == 200, path
        assert await write == 503
        for path in reads:
            assert await status_of(server, "GET", path) == 200, path


async def test_readiness_is_lost_with_the_first_refused_write_and_comes_back_by_itself(
    server: RunningServer,
) -> None:
    assert await status_of(server, "GET", "/readyz") == 200

    with locked(server.settings.database_file):
        assert await status_of(server, "POST", "/session/new") == 503
        status, response = await request(server, "GET", "/readyz")
        assert status == 503
        assert "Retry-After" in response.headers
        assert await status_of(server, "GET", "/livez") == 200

    async def ready() -> bool:
        return await status_of(server, "GET", "/readyz") == 200

    await eventually(ready)
    assert await status_of(server, "POST", "/session/new") == 200


async def test_a_long_poll_outlasts_the_trouble_and_is_answered_after_it(server: RunningServer) -> None:
    session_id = await server.open_session()
    poll = asyncio.create_task(status_of(server, "GET", f"/session/{session_id}?wait=20"))

    with locked(server.settings.database_file):
        assert await status_of(server, "PUT", f"/session/{session_id}", PAYLOAD) == 503
        assert not poll.done()
    await status_of(server, "PUT", f"/session/{session_id}", PAYLOAD)

    assert await poll == 200


async def test_a_quota_that_was_used_meanwhile_is_not_refilled_by_a_restart(
    impatient: None, tmp_path: Path
) -> None:
    async with running_server(tmp_path / "data", **THREE_A_MINUTE_APART) as server:
        with locked(server.settings.database_file):
            assert await status_of(server, "POST", "/session/new") == 503
            assert await status_of(server, "POST", "/session/new") == 503

    async with running_server(tmp_path / "data", **THREE_A_MINUTE_APART) as server:
        _, response = await request(server, "POST", "/session/new")

    assert '"new-sessions";r=0;' in response.headers["RateLimit"]


async def test_a_quota_that_was_used_is_not_refilled_by_a_restart(tmp_path: Path) -> None:
    async with running_server(tmp_path / "data", **THREE_A_MINUTE_APART) as server:
        for _ in range(3):
            assert await status_of(server, "POST", "/session/new") == 200

    async with running_server(tmp_path / "data", **THREE_A_MINUTE_APART) as server:
        status, response = await request(server, "POST", "/session/new")

    assert status == 429
    assert response.headers["Retry-After"] == "60"


async def test_a_server_whose_database_is_locked_stops_without_a_complaint(
    impatient: None, tmp_path: Path
) -> None:
    with ExitStack() as until_the_end:
        async with running_server(tmp_path / "data", **THREE_A_MINUTE_APART) as server:
            until_the_end.enter_context(locked(server.settings.database_file))
            assert await status_of(server, "POST", "/session/new", "x" * 300_000) == 413
