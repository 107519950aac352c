"""Sign-in to the console: a link that works once, a session of 12 hours, and who is kept out."""

import re
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.support.asking import ask
from tests.support.console_client import ConsoleClient, new_link, sign_out_all
from tests.support.rows import each_row
from tests.support.server import RunningServer, running_server

pytestmark = pytest.mark.own_server  # a reset leaves sign-ins to the console as they are

HOURS = 3600
NO_PAGE = "/console/no-such-page"


async def test_a_link_signs_in_and_sets_a_cookie_that_no_script_reads(server: RunningServer) -> None:
    browser = ConsoleClient(server)

    answer = await browser.get(await new_link(server))

    assert (answer.status, answer.headers["Location"]) == (303, "/console")
    port = server.url.rpartition(":")[2]
    assert re.fullmatch(
        rf"bridge-console-{port}=[\w-]{{43}}; Path=/console; HttpOnly; SameSite=Strict; Max-Age=43200",
        answer.headers["Set-Cookie"],
    )
    first = (await browser.get("/console")).headers["Location"]
    assert f'<li><a href="{first}" aria-current="page">' in await browser.page(first)


async def test_behind_tls_the_cookie_is_for_this_host_alone(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"console": True, "public_url": "https://bridge.example.org"}
    async with running_server(tmp_path / "data", **settings) as server:
        link = await new_link(server)
        answer = await ConsoleClient(server).get(link, headers={"Host": "bridge.example.org"})

    assert re.fullmatch(
        r"__Host-bridge-console=[\w-]{43}; Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age=43200",
        answer.headers["Set-Cookie"],
    )


async def test_a_link_works_once(server: RunningServer) -> None:
    link = await new_link(server)
    first, second = await ConsoleClient(server).get(link), await ConsoleClient(server).get(link)

    assert (first.status, second.status) == (303, 410)
    assert "Run <code>bridge-server console</code> again" in second.body.decode()
    assert "Set-Cookie" not in second.headers


async def test_a_link_in_a_page_of_another_site_signs_in(server: RunningServer) -> None:
    browser = ConsoleClient(server)

    answer = await browser.get(await new_link(server), headers={"Sec-Fetch-Site": "cross-site"})

    # After a redirect from there, a browser would not send the cookie that is SameSite=Strict.
    assert answer.status == 200
    assert '<meta http-equiv="refresh" content="0; url=/console">' in answer.body.decode()
    assert "Projects" in await browser.page("/console/projects")


async def test_a_link_that_is_only_looked_at_stays_good(server: RunningServer) -> None:
    link = await new_link(server)

    assert (await ask(server, "HEAD", link)).status == 200
    assert (await ConsoleClient(server).get(link)).status == 303


@each_row(("seconds", "status"), [(299, 303), (300, 410)])
async def test_a_link_works_for_five_minutes(server: RunningServer, seconds: int, status: int) -> None:
    link = await new_link(server)
    server.clock.advance(seconds)

    assert (await ConsoleClient(server).get(link)).status == status


@each_row(("seconds", "status"), [(12 * HOURS - 1, 200), (12 * HOURS, 401)])
async def test_a_session_lasts_twelve_hours(console: ConsoleClient, seconds: int, status: int) -> None:
    console.server.clock.advance(seconds)

    answer = await console.get("/console/projects")

    assert answer.status == status
    if status == 401:
        assert "Run <code>bridge-server console</code> on the server" in answer.body.decode()


async def test_a_session_ends_when_its_user_signs_out(console: ConsoleClient) -> None:
    answer = await console.send("/console/sign-out", "sign-out")

    assert "You are signed out" in answer.body.decode()
    assert "Max-Age=0" in answer.headers["Set-Cookie"]
    assert (await console.get("/console/projects")).status == 401


async def test_the_operator_ends_every_session_and_every_link(console: ConsoleClient) -> None:
    link = await new_link(console.server)

    assert await sign_out_all(console.server) == 1
    assert (await console.get("/console/projects")).status == 401
    assert (await ConsoleClient(console.server).get(link)).status == 410


async def test_moving_the_servers_clock_and_a_reset_leave_the_operator_signed_in(
    console: ConsoleClient,
) -> None:
    await console.change("/console/faults", "advance", number="30", unit="days")
    page = await console.change("/console/faults", "reset")

    assert "The server is reset" in page


async def test_expired_rows_are_swept(server: RunningServer) -> None:
    await ConsoleClient(server).sign_in()
    await new_link(server)
    server.clock.advance(12 * HOURS)
    headers = {"Authorization": f"Bearer {server.test_token}"}
    async with server.client.put(
        f"{server.url}/_test/clock", json={"advance": 0}, headers=headers
    ) as response:
        moved = await response.json()

    assert moved["swept"] == 0  # the tables of sign-ins are not counted among those that tests empty
    assert await sign_out_all(server) == 0


@each_row("path", ["/console", "/console/projects", "/console/faults", "/console/events", NO_PAGE])
async def test_an_operator_who_is_not_signed_in_is_shown_how(server: RunningServer, path: str) -> None:
    for cookies in ({}, {f"bridge-console-{server.url.rpartition(':')[2]}": "guessed"}):
        answer = await ConsoleClient(server, cookies).get(path)

        assert answer.status == 401
        assert "bridge-server console" in answer.body.decode()


async def test_a_signed_in_browser_is_shown_that_a_page_is_missing(console: ConsoleClient) -> None:
    answer = await console.get(NO_PAGE)

    assert answer.status == 404
    assert "no such page" in answer.body.decode()
    assert 'aria-label="Pages"' in answer.body.decode()


async def test_refused_attempts_are_logged_at_a_limited_rate(server: RunningServer) -> None:
    with capture_logs() as log:
        for _ in range(5):
            await ConsoleClient(server).get("/console/sign-in?link=guessed")
        server.clock.advance(60)
        await ConsoleClient(server).get("/console/sign-in?link=guessed")

    lines = [line for line in log if line["event"] == "console_refused"]
    assert [(line["reason"], line["client"], line.get("left_out")) for line in lines] == [
        ("This link does not sign in", "127.0.0.1", None),
        ("This link does not sign in", "127.0.0.1", 4),
    ]
