"""The inbox's page and its web component over HTTP: headers, caching, origins."""

import re
from pathlib import Path
from typing import Any

from tests.support.asking import ask
from tests.support.rows import each_row
from tests.support.server import RunningServer, running_server

ORIGIN = "https://app.example"
SCRIPT, PAGE = "/inbox/widget.js", "/inbox/"


async def test_the_script_is_one_module_that_imports_nothing(server: RunningServer) -> None:
    answer = await ask(server, "GET", SCRIPT)

    text = answer.body.decode()
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "text/javascript; charset=utf-8"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert not re.search(r"^(import|export)\b", text, re.MULTILINE)
    assert "customElements.define('bridge-inbox'" in text


@each_row("spelled", ["{etag}", "W/{etag}", '"other", {etag}', "*"])
async def test_a_browser_that_has_the_script_is_sent_none(server: RunningServer, spelled: str) -> None:
    first = await ask(server, "GET", SCRIPT)

    known = spelled.format(etag=first.headers["ETag"])
    answer = await ask(server, "GET", SCRIPT, headers={"If-None-Match": known})

    assert (answer.status, answer.body) == (304, b"")
    assert answer.headers["ETag"] == first.headers["ETag"]
    assert answer.headers["Cache-Control"] == first.headers["Cache-Control"]


async def test_a_browser_that_has_another_script_is_sent_this_one(server: RunningServer) -> None:
    answer = await ask(server, "GET", SCRIPT, headers={"If-None-Match": '"other"'})

    assert answer.status == 200


async def test_the_script_is_loaded_by_pages_of_configured_origins_alone(tmp_path: Path) -> None:
    async with running_server(tmp_path, inbox_origins=[ORIGIN]) as server:
        allowed = await ask(server, "GET", SCRIPT, headers={"Origin": ORIGIN})
        etag = {"If-None-Match": allowed.headers["ETag"]}
        unchanged = await ask(server, "GET", SCRIPT, headers={"Origin": ORIGIN, **etag})
        other = await ask(server, "GET", SCRIPT, headers={"Origin": "https://other.example"})

    assert allowed.headers["Access-Control-Allow-Origin"] == ORIGIN
    assert allowed.headers["Cross-Origin-Resource-Policy"] == "cross-origin"
    assert (unchanged.status, unchanged.headers["Access-Control-Allow-Origin"]) == (304, ORIGIN)
    assert "Access-Control-Allow-Origin" not in other.headers
    assert allowed.headers["Vary"] == other.headers["Vary"] == "Origin"


async def test_the_page_runs_this_servers_scripts_alone(server: RunningServer) -> None:
    answer = await ask(server, "GET", PAGE)

    policy = dict(part.split(" ", 1) for part in answer.headers["Content-Security-Policy"].split("; "))
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert policy["default-src"] == policy["frame-ancestors"] == policy["form-action"] == "'none'"
    assert policy["script-src"] == policy["connect-src"] == "'self'"
    assert "unsafe" not in answer.headers["Content-Security-Policy"]
    assert (answer.headers["X-Frame-Options"], answer.headers["Cache-Control"]) == ("DENY", "no-store")
    assert b"<script>" not in answer.body


async def test_the_page_shows_the_project_of_its_address(server: RunningServer) -> None:
    one = await ask(server, "GET", f"{PAGE}?project=shop")
    every = await ask(server, "GET", PAGE)
    unnamed = await ask(server, "GET", f"{PAGE}?project=")

    assert b'<bridge-inbox project="shop"></bridge-inbox>' in one.body
    assert b"<bridge-inbox></bridge-inbox>" in every.body
    assert unnamed.body == every.body


@each_row(
    ("settings", "offers"),
    [
        ({"test": True, "dev_accounts": True}, True),
        ({"test": True}, False),
        ({"dev_accounts": True}, False),
        ({"test": True, "dev_accounts": True, "rpc_token": "t" * 40}, False),
    ],
)
async def test_a_development_account_is_offered_in_test_mode_where_the_page_may_call_the_wallet(
    tmp_path: Path, settings: dict[str, Any], offers: bool
) -> None:
    async with running_server(tmp_path, **settings) as server:
        page = await ask(server, "GET", f"{PAGE}?project=shop")

    assert (b'<bridge-inbox development project="shop"></bridge-inbox>' in page.body) == offers


@each_row("project", ["Shop", "a" * 65, "%22%3E%3Cscript%3E", "shop%0A", "sh%C3%B6p"])
async def test_an_address_that_names_no_project_is_refused(server: RunningServer, project: str) -> None:
    problem = (await ask(server, "GET", f"{PAGE}?project={project}")).problem(400)

    assert problem["errors"][0]["pointer"] == "#/project"


@each_row("path", [SCRIPT, PAGE])
async def test_head_sends_no_body_and_other_methods_are_refused(server: RunningServer, path: str) -> None:
    head = await ask(server, "HEAD", path)
    posted = await ask(server, "POST", path, b"{}")

    assert (head.status, head.body) == (200, b"")
    assert posted.problem(405)["status"] == 405
