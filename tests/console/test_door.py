"""The console's door: sign-in by a link, what is refused there, what every page forbids; and no console."""

import re
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from bridge_server.settings.settings import Settings
from tests.support.asking import ask
from tests.support.console_client import FORM, ConsoleClient, check_texts, found, new_link, sign_out_all
from tests.support.rows import each_row
from tests.support.server import RunningServer, running_server

PROJECTS = "/console/projects"
FORBIDDING = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store",
    "Referrer-Policy": "same-origin", "Cross-Origin-Opener-Policy": "same-origin",
}  # fmt: skip
HOURS = 3600
NO_PAGE = "/console/no-such-page"


@each_row("path", ["/console", PROJECTS, "/console/faults", "/console/events", NO_PAGE])
async def test_every_page_forbids_frames_other_scripts_and_caches(console: ConsoleClient, path: str) -> None:
    guessed = dict.fromkeys(console.cookies, "guessed")
    strangers = [await ConsoleClient(console.server, each).get(path) for each in ({}, guessed)]
    framed = await console.get(path, headers={"Sec-Fetch-Dest": "iframe"})
    pages = [] if path == "/console/events" else [await console.get(path)]
    for answer in (*strangers, framed, *pages):
        assert {name: answer.headers[name] for name in FORBIDDING} == FORBIDDING
        assert not [name for name in answer.headers if name.lower().startswith("access-control")]
    for answer in strangers:
        assert (answer.status, "bridge-server console" in answer.body.decode()) == (401, True)


async def test_another_host_and_a_page_in_a_frame_are_refused(console: ConsoleClient) -> None:
    for host in ("evil.example", "127.0.0.1.evil.example", ""):
        for path in ("/console", PROJECTS, "/console/sign-in", "/console/events"):
            answer = await console.get(path, headers={"Host": host})
            assert (answer.status, "localhost" in answer.body.decode()) == (403, True), (host, path)
    for place in ("iframe", "frame", "embed", "object"):
        answer = await console.get(PROJECTS, headers={"Sec-Fetch-Dest": place})
        assert (answer.status, "in a window of its own" in answer.body.decode()) == (403, True), place


async def test_a_form_of_another_page_or_session_changes_nothing(console: ConsoleClient) -> None:
    for headers in (
        {"Origin": "https://evil.example"}, {"Origin": "null"},
        *({"Sec-Fetch-Site": site} for site in ("cross-site", "same-site", "none")),
    ):  # fmt: skip
        answer = await console.send(PROJECTS, "create", headers, name="Forged", project_id="forged")
        assert (answer.status, "Nothing was changed" in answer.body.decode()) == (403, True), headers

    other = await ConsoleClient(console.server).sign_in()
    fields = {"do": "create", "name": "Forged", "project_id": "forged"}
    for form in (fields, {**fields, "form_token": ""}, {**fields, "form_token": await other.form_token()}):
        answer = await console.post(PROJECTS, form)
        assert (answer.status, "repeat the change" in answer.body.decode()) == (403, True), form
    sound = {**fields, "form_token": await console.form_token()}
    assert (await ConsoleClient(console.server).post(PROJECTS, sound)).status == 401

    await console.page(f"{PROJECTS}/forged", status=404)
    own = {"Origin": console.server.url, "Sec-Fetch-Site": "same-origin"}
    assert (await console.send(PROJECTS, "create", own, name="Own", project_id="own")).status == 303


async def test_a_body_that_is_no_form_and_an_unknown_change_are_refused(console: ConsoleClient) -> None:
    token = await console.form_token()
    json = await console.post(PROJECTS, {"form_token": token}, content_type="application/json")
    many = await console.post(PROJECTS, {"form_token": token, **{f"f{n}": "" for n in range(200)}})
    no_text = await ask(console.server, "POST", PROJECTS, b"do=\xff", console.cookie, content_type=FORM)
    assert (json.status, many.status, no_text.status) == (415, 400, 400)
    await console.refused(PROJECTS, "explode", "no such change")
    (await console.post(PROJECTS, {"form_token": "x" * 2**18})).problem(413)


async def test_static_files_are_kept_for_long_and_found_by_their_digest(console: ConsoleClient) -> None:
    path = found(r'href="(/console/static/[^"]+)"', await console.page(PROJECTS))
    answer = await console.get(path)
    assert answer.headers["Content-Type"] == "text/css; charset=utf-8"
    assert answer.headers["Cache-Control"] == "public, max-age=31536000, immutable"
    await console.page("/console/static/pages.css", status=404)
    await console.page("/console/static/..%2fhandlers.py", status=404)


@pytest.mark.own_server
async def test_a_link_signs_in_with_a_cookie_of_one_host(server: RunningServer, tmp_path: Path) -> None:
    browser = ConsoleClient(server)

    answer = await browser.get(await new_link(server))

    assert (answer.status, answer.headers["Location"]) == (303, "/console")
    port = server.url.rpartition(":")[2]
    assert re.fullmatch(
        rf"bridge-console-{port}=[\w-]{{43}}; Path=/console; HttpOnly; SameSite=Strict; Max-Age=43200",
        answer.headers["Set-Cookie"],
    )
    first = (await browser.get("/console")).headers["Location"]
    await browser.page(first, f'<li><a href="{first}" aria-current="page">')

    other = ConsoleClient(server)
    answer = await other.get(await new_link(server), headers={"Sec-Fetch-Site": "cross-site"})
    # After a redirect from another site, a browser would not send the cookie that is SameSite=Strict.
    assert answer.status == 200
    check_texts(answer.body.decode(), '<meta http-equiv="refresh" content="0; url=/console">')
    await other.page(PROJECTS, "Projects")

    settings: dict[str, Any] = {"console": True, "public_url": "https://bridge.example.org"}
    async with running_server(tmp_path / "tls", **settings) as behind_tls:
        link = await new_link(behind_tls)
        answer = await ConsoleClient(behind_tls).get(link, headers={"Host": "bridge.example.org"})
        for host in ("localhost:99999", "[127.0.0.1]"):
            stranger = await ConsoleClient(behind_tls).get(PROJECTS, headers={"Host": host})
            assert stranger.status == 401, host
    assert re.fullmatch(
        r"__Host-bridge-console=[\w-]{43}; Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age=43200",
        answer.headers["Set-Cookie"],
    )


@pytest.mark.own_server
async def test_a_link_works_once_for_five_minutes_and_a_session_for_12_hours(server: RunningServer) -> None:
    late, link = await new_link(server), await new_link(server)
    looked_at = await ask(server, "HEAD", link)
    server.clock.advance(299)
    browser = ConsoleClient(server)
    first, second = await browser.get(link), await ConsoleClient(server).get(link)
    server.clock.advance(1)
    too_late = await ConsoleClient(server).get(late)

    assert (looked_at.status, first.status, second.status, too_late.status) == (200, 303, 410, 410)
    check_texts(second.body.decode(), "Run <code>bridge-server console</code> again")
    assert "Set-Cookie" not in second.headers
    server.clock.advance(12 * HOURS - 2)
    await browser.page(PROJECTS)
    server.clock.advance(1)
    await browser.page(PROJECTS, "Run <code>bridge-server console</code> on the server", status=401)


@pytest.mark.own_server
async def test_a_user_ends_a_session_and_the_operator_all_sessions_and_links(console: ConsoleClient) -> None:
    other, link = await ConsoleClient(console.server).sign_in(), await new_link(console.server)
    answer = await console.send("/console/sign-out", "sign-out")
    check_texts(answer.body.decode(), "You are signed out")
    assert "Max-Age=0" in answer.headers["Set-Cookie"]
    await console.page(PROJECTS, status=401)
    await other.page(NO_PAGE, "no such page", 'aria-label="Pages"', status=404)
    assert await sign_out_all(console.server) == 1
    await other.page(PROJECTS, status=401)
    await ConsoleClient(console.server).page(link, status=410)


@pytest.mark.own_server
async def test_expired_rows_are_swept(server: RunningServer) -> None:
    await ConsoleClient(server).sign_in()
    await new_link(server)
    server.clock.advance(12 * HOURS)
    headers = {"Authorization": f"Bearer {server.test_token}"}
    moved = (await ask(server, "PUT", "/_test/clock", b'{"advance": 0}', headers)).json
    assert moved["swept"] == 0  # the tables of sign-ins are not counted among those that tests empty
    assert await sign_out_all(server) == 0


@pytest.mark.own_server
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


@each_row("settings", [{}, {"console": True, "console_port": 0}])
async def test_a_port_without_a_console_has_no_such_pages(tmp_path: Path, settings: dict[str, Any]) -> None:
    async with running_server(tmp_path / "data", **settings) as server:
        for path in ("", "/projects", "/sign-in?link=x", "/events", "/static/x.css"):
            (await ask(server, "GET", f"/console{path}")).problem(404)
    with pytest.raises(ValueError, match="console_port: the console is off"):
        Settings(data_dir=tmp_path, console_port=8081)
