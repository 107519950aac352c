"""Which web pages may use an inbox: those of the configured origins."""

from pathlib import Path

import pytest

from tests.support.asking import Answer, ask
from tests.support.inbox_client import log_in, sign_in
from tests.support.rows import each_row
from tests.support.server import RunningServer, running_server
from tests.support.wallet import Wallet

ORIGIN = "https://app.example"
PATHS = {
    "/inbox/nonce": "POST",
    "/inbox/login": "POST",
    "/inbox/logout": "POST",
    "/inbox/subscriptions": "GET",
    "/inbox/subscriptions/app": "DELETE, PUT",
    "/inbox/notifications": "GET",
    "/inbox/notifications/read": "POST",
    "/inbox/stream": "GET",
    "/inbox/devices": "GET, POST",
    "/inbox/devices/x": "DELETE",
}
WANTED = "authorization, content-type, last-event-id"


async def preflight(server: RunningServer, path: str, origin: str) -> Answer:
    headers = {
        "Origin": origin,
        "Access-Control-Request-Method": "GET",
        "Access-Control-Request-Headers": WANTED,
    }
    return await ask(server, "OPTIONS", path, headers=headers)


@each_row(("path", "methods"), PATHS.items())
async def test_a_configured_page_may_ask(tmp_path: Path, path: str, methods: str) -> None:
    async with running_server(tmp_path, inbox_origins=[ORIGIN]) as server:
        answer = await preflight(server, path, ORIGIN)

    assert answer.status == 204
    assert answer.headers["Access-Control-Allow-Origin"] == ORIGIN
    assert answer.headers["Access-Control-Allow-Methods"] == methods
    assert answer.headers["Access-Control-Allow-Headers"] == WANTED


@each_row("origin", ["https://other.example", "null", "*", f"{ORIGIN}:8443", f"{ORIGIN}.evil"])
async def test_other_pages_may_not(tmp_path: Path, origin: str) -> None:
    async with running_server(tmp_path, inbox_origins=[ORIGIN]) as server:
        inbox = await sign_in(server)
        answers = [await preflight(server, path, origin) for path in PATHS]
        answers.append(await inbox.ask("GET", "/devices", headers={"Origin": origin}))

    assert not any("Access-Control-Allow-Origin" in answer.headers for answer in answers)


@pytest.mark.own_server
async def test_without_configured_pages_none_may(server: RunningServer) -> None:
    for path in PATHS:
        assert (await preflight(server, path, ORIGIN)).status in (401, 405)


async def test_answers_refusals_and_streams_may_be_read_by_a_configured_page(tmp_path: Path) -> None:
    async with running_server(tmp_path, inbox_origins=[ORIGIN]) as server:
        inbox, headers = await sign_in(server), {"Origin": ORIGIN}
        answers = [
            await inbox.ask("GET", "/notifications", headers=headers),
            await inbox.ask("GET", "/notifications?limit=x", headers=headers),
            await ask(server, "GET", "/inbox/devices", headers=headers),
        ]
        async with server.client.get(
            f"{server.url}/inbox/stream", headers={**inbox.headers, **headers}
        ) as stream:
            allowed = stream.headers["Access-Control-Allow-Origin"]

    assert [answer.status for answer in answers] == [200, 400, 401]
    assert {answer.headers["Access-Control-Allow-Origin"] for answer in answers} == {ORIGIN} == {allowed}


@each_row("origin", ["http://localhost:3000", "http://127.0.0.1:5173", "https://localhost"])
async def test_in_test_mode_pages_of_this_machine_may_ask_and_sign_in(tmp_path: Path, origin: str) -> None:
    async with running_server(tmp_path, test=True) as server:
        answer = await preflight(server, "/inbox/login", origin)
        domain = origin.partition("://")[2]
        inbox = await sign_in(server, domain=domain, uri=f"{origin}/login")

        assert answer.headers["Access-Control-Allow-Origin"] == origin
        assert (await inbox.ask("GET", "/subscriptions")).status == 200


async def test_in_test_mode_no_other_page_may(tmp_path: Path) -> None:
    async with running_server(tmp_path, test=True) as server:
        answer = await preflight(server, "/inbox/login", ORIGIN)
        refused = await log_in(server, Wallet(1), domain="app.example", uri=f"{ORIGIN}/")

    assert "Access-Control-Allow-Origin" not in answer.headers
    assert refused.status == 400


@pytest.mark.own_server
async def test_outside_of_test_mode_a_page_of_this_machine_needs_to_be_named(server: RunningServer) -> None:
    refused = await log_in(server, Wallet(1), domain="localhost:3000", uri="http://localhost:3000/")

    assert refused.status == 400
