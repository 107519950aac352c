"""The inbox in web pages: its page, its component, and the origins that may use it."""

import re
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from bridge_server.ethereum.address import checksummed
from bridge_server.inbox.page import widget_script
from bridge_server.web.addresses import origins_of_socket
from tests.support.asking import Answer, ask
from tests.support.inbox_client import log_in, sign_in
from tests.support.needs import needs_node_alone
from tests.support.node_project import in_browser, run_specification
from tests.support.rows import each_row
from tests.support.rpc_client import Wallet
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


async def test_the_script_is_loaded_by_pages_of_configured_origins_alone(named: RunningServer) -> None:
    allowed = await ask(named, "GET", SCRIPT, headers={"Origin": ORIGIN})
    etag = {"If-None-Match": allowed.headers["ETag"]}
    unchanged = await ask(named, "GET", SCRIPT, headers={"Origin": ORIGIN, **etag})
    other = await ask(named, "GET", SCRIPT, headers={"Origin": "https://other.example"})

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


_MODULES = Path(__file__).parents[2] / "bridge_server" / "inbox" / "widget"
_FACTOR = 0x9E3779B97F4A7C15F39CC0605CEDC8341082276B
_ADDRESSES = [f"0x{number * _FACTOR % 2**160:040x}" for number in range(200)]
_SPELL = """
import { checksummed } from './address.mjs'
console.log(JSON.stringify(JSON.parse(process.argv[2]).map(checksummed)))
"""


def _node(*arguments: str, folder: Path) -> str:
    done = subprocess.run(
        ["node", *arguments], cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_module_is_in_the_file_once_and_after_the_modules_that_it_imports() -> None:
    script = widget_script().decode()

    firsts = {path.stem: path.read_text("utf-8").split("\n", 1)[0] for path in _MODULES.glob("*.js")}
    assert {name: script.count(f"{first}\n") for name, first in firsts.items()} == dict.fromkeys(firsts, 1)
    for name, first in firsts.items():
        imports = re.findall(r"from './(\w+)\.js'", (_MODULES / f"{name}.js").read_text("utf-8"))
        assert all(script.index(firsts[imported]) < script.index(first) for imported in imports)


@needs_node_alone
def test_the_modules_have_no_name_in_common(tmp_path: Path) -> None:
    (tmp_path / "widget.mjs").write_bytes(widget_script())

    _node("--check", "widget.mjs", folder=tmp_path)


@needs_node_alone
def test_addresses_have_the_servers_spelling(tmp_path: Path) -> None:
    (tmp_path / "address.mjs").write_text((_MODULES / "address.js").read_text("utf-8"), "utf-8")
    (tmp_path / "spell.mjs").write_text(_SPELL, "utf-8")

    spelled = orjson.loads(_node("spell.mjs", orjson.dumps(_ADDRESSES).decode(), folder=tmp_path))

    assert spelled == [checksummed(address) for address in _ADDRESSES]


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


@pytest.fixture(scope="module")
async def named(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningServer]:
    """A server outside of test mode that names the page's origin."""
    async with running_server(tmp_path_factory.mktemp("named") / "data", inbox_origins=[ORIGIN]) as server:
        yield server


@each_row(("path", "methods"), PATHS.items())
async def test_a_configured_page_may_ask(named: RunningServer, path: str, methods: str) -> None:
    answer = await preflight(named, path, ORIGIN)

    assert answer.status == 204
    assert answer.headers["Access-Control-Allow-Origin"] == ORIGIN
    assert answer.headers["Access-Control-Allow-Methods"] == methods
    assert answer.headers["Access-Control-Allow-Headers"] == WANTED


@each_row("origin", ["https://other.example", "null", "*", f"{ORIGIN}:8443", f"{ORIGIN}.evil"])
async def test_other_pages_may_not(named: RunningServer, origin: str) -> None:
    inbox = await sign_in(named)
    answers = [await preflight(named, path, origin) for path in PATHS]
    answers.append(await inbox.ask("GET", "/devices", headers={"Origin": origin}))

    assert not any("Access-Control-Allow-Origin" in answer.headers for answer in answers)


async def test_answers_refusals_and_streams_may_be_read_by_a_configured_page(named: RunningServer) -> None:
    inbox, headers = await sign_in(named), {"Origin": ORIGIN}
    answers = [
        await inbox.ask("GET", "/notifications", headers=headers),
        await inbox.ask("GET", "/notifications?limit=x", headers=headers),
        await ask(named, "GET", "/inbox/devices", headers=headers),
    ]
    sent = {**inbox.headers, **headers}
    async with named.client.get(f"{named.url}/inbox/stream", headers=sent) as stream:
        allowed = stream.headers["Access-Control-Allow-Origin"]

    assert [answer.status for answer in answers] == [200, 400, 401]
    assert {answer.headers["Access-Control-Allow-Origin"] for answer in answers} == {ORIGIN} == {allowed}


@pytest.mark.own_server
async def test_without_configured_pages_none_may_ask_or_sign_in(server: RunningServer) -> None:
    for path in PATHS:
        assert (await preflight(server, path, ORIGIN)).status in (401, 405)
    refused = await log_in(server, Wallet(1), domain="localhost:3000", uri="http://localhost:3000/")

    assert refused.status == 400


@each_row("origin", ["http://localhost:3000", "http://127.0.0.1:5173", "https://localhost"])
async def test_in_test_mode_pages_of_this_machine_may_ask_and_sign_in(
    server: RunningServer, origin: str
) -> None:
    answer = await preflight(server, "/inbox/login", origin)
    inbox = await sign_in(server, domain=origin.partition("://")[2], uri=f"{origin}/login")

    assert answer.headers["Access-Control-Allow-Origin"] == origin
    assert (await inbox.ask("GET", "/subscriptions")).status == 200


async def test_in_test_mode_no_other_page_may(server: RunningServer) -> None:
    answer = await preflight(server, "/inbox/login", ORIGIN)
    refused = await log_in(server, Wallet(1), domain="app.example", uri=f"{ORIGIN}/")

    assert "Access-Control-Allow-Origin" not in answer.headers
    assert refused.status == 400


@each_row(
    ("socket_name", "origins"),
    [
        (("192.0.2.7", 8080), {"http://192.0.2.7:8080"}),
        (("192.0.2.7", 80), {"http://192.0.2.7"}),
        (("2001:db8::7", 8080, 0, 0), {"http://[2001:db8::7]:8080"}),
        (("fe80::7%eth0", 8080, 0, 2), {"http://[fe80::7]:8080"}),
        (("::ffff:192.0.2.7", 8080, 0, 0), {"http://192.0.2.7:8080"}),
        ("/run/bridge.sock", set()),
        (None, set()),
    ],
)
def test_a_server_is_known_by_its_address(socket_name: Any, origins: set[str]) -> None:
    assert origins_of_socket(socket_name) == origins


@each_row("host", ["127.0.0.1", "::1", "::ffff:127.0.0.1"])
def test_a_server_on_loopback_is_known_by_all_names_of_it(host: str) -> None:
    names = {"http://localhost:8080", "http://127.0.0.1:8080", "http://[::1]:8080"}

    assert origins_of_socket((host, 8080)) == names


def test_another_address_of_loopback_is_one_name_more() -> None:
    assert "http://127.0.0.9:8080" in origins_of_socket(("127.0.0.9", 8080))


# The component in Debian's Chromium, by Playwright and the JavaScript kit's wallet.


_HERE = Path(__file__).parent / "browser"
_EXAMPLE_PAGE = _HERE.parents[2] / "docs" / "notify.md"
_FILE = re.compile(r"```(?:html|js|css)\n(?:// |<!-- |/\* )([\w.]+)(?: -->| \*/)?\n(.*?)```", re.DOTALL)
_POLICY = re.compile(r"^Content-Security-Policy: [^`]*", re.MULTILINE)


@in_browser
def test_an_account_uses_its_inbox(tmp_path: Path) -> None:
    specifications = sorted(_HERE.glob("*.spec.js"))
    files = {"shop.js": (_HERE / "shop.js").read_text("utf-8"), **_example()}

    output = run_specification(tmp_path, *specifications, files=files)

    assert re.search(r"^\s*[1-9][0-9]* passed", output, re.MULTILINE)


def _example() -> dict[str, str]:
    """The files of the documentation's example, and the header with its policy."""
    text = _EXAMPLE_PAGE.read_text("utf-8")
    files = {f"page-{name}": content for name, content in _FILE.findall(text)}
    assert set(files) == {"page-shop.html", "page-shop.js", "page-shop.css"}
    (policy,) = _POLICY.findall(text)
    return {**files, "policy.txt": " ".join(policy.split())}
