"""The pages at /docs/: every link on every page leads somewhere, and no path leads out of them."""

import asyncio
import re
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from html.parser import HTMLParser
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit

import aiohttp
import click
import pytest
from aiohttp import web

from bridge_server.assembly.application import build_app, every_route
from bridge_server.cli.commands import commands
from bridge_server.description.markdown import Markdown, open_library
from bridge_server.description.site import FOLDER, Problem, Site, every_problem, swagger_ui_files
from bridge_server.kernel.version import REPOSITORY
from bridge_server.kit.headless.control import control_api
from bridge_server.kit.headless.wallet import HeadlessWallet
from bridge_server.settings.settings import Settings
from bridge_server.wallet.rpc.openrpc import METHODS
from bridge_server.web.problems import BUG, ORDERED_FAULT, REFUSALS, status_of_kind
from bridge_server.web.serving import runner_of
from tests.dev.conftest import running_dev
from tests.support.asking import Answer, ask
from tests.support.described import every_failure
from tests.support.node_project import in_browser, run_specification
from tests.support.rows import each_row
from tests.support.server import RunningServer, running_server

_ROOT = Path(__file__).parents[2]
_OTHERS = ("/openapi.json", "/openrpc.json")


@pytest.fixture(scope="module")
def server_settings() -> dict[str, Any]:
    """A server with every operation, in test mode: no limit is in the way of a reader of every page."""
    return {"test": True, "admin_token": "t" * 40}


class Links(HTMLParser):
    """The anchors of a page, and where its links, pictures, styles and scripts are."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.anchors: list[str] = []
        self.targets: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id":
                self.anchors.append(value or "")
            if name in ("href", "src") and tag != "bridge-inbox":
                self.targets.append(value or "")


def page_of(answer: Answer) -> str:
    """The page in an answer that must be one, with headers that let it run and load nothing of others."""
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'self'")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    return answer.body.decode()


async def test_every_link_on_every_page_leads_somewhere(server: RunningServer) -> None:
    waiting, seen = ["/docs/"], dict[str, list[str]]()
    wanted: set[tuple[str, str, str]] = set()
    dead = []
    while waiting:
        path = waiting.pop()
        answer = await ask(server, "GET", path)
        assert answer.status == 200, path
        if not answer.headers["Content-Type"].startswith("text/html"):
            seen[path] = []
            continue
        links = Links(answer.body.decode())
        assert len(links.anchors) == len(set(links.anchors)), path
        seen[path] = links.anchors
        for target in links.targets:
            parts = urlsplit(urljoin(f"{server.url}{path}", target))
            if target.startswith(f"{REPOSITORY}/blob/main/"):
                file = parts.path.removeprefix(f"{urlsplit(REPOSITORY).path}/blob/main/")
                dead += [] if (_ROOT / file).is_file() else [(path, target)]
            if f"{parts.scheme}://{parts.netloc}" == server.url and not target.startswith("data:"):
                wanted.add((path, parts.path, unquote(parts.fragment)))
                if parts.path not in seen and parts.path not in waiting:
                    waiting.append(parts.path)

    dead += [
        (page, f"{path}#{anchor}") for page, path, anchor in wanted if anchor and anchor not in seen[path]
    ]
    assert dead == []
    assert {f"/docs/{name}" for name in open_library().pages} <= seen.keys()
    assert {"/docs/api", "/docs/methods", "/docs/errors/limit-exceeded", "/docs/try", *_OTHERS} <= seen.keys()


async def test_the_pages_are_about_this_server(server: RunningServer) -> None:
    start = page_of(await ask(server, "GET", "/docs/"))
    operations = page_of(await ask(server, "GET", "/docs/api"))
    relay = page_of(await ask(server, "GET", "/docs/api/bridge"))
    webhooks = page_of(await ask(server, "GET", "/docs/api/webhooks"))
    methods = page_of(await ask(server, "GET", "/docs/methods"))

    assert start == page_of(await ask(server, "GET", "/docs"))
    assert '<a href="/docs/wallet">' in start
    assert "<code>POST /session/new</code>" in operations
    assert '<a href="/docs/errors/limit-exceeded">limit-exceeded</a>' in relay
    assert '<section class="operation" id="subscription-changed"' in webhooks
    assert '<a href="#shape-SubscriptionMessage">' in webhooks
    assert 'id="shape-SubscriptionMessage"' not in relay
    assert "<code>personal_sign</code>" in methods
    assert "&#34;jsonrpc&#34;: &#34;2.0&#34;" in methods


async def test_a_page_has_tables_anchors_links_sections_and_neighbours(server: RunningServer) -> None:
    page = page_of(await ask(server, "GET", "/docs/protocol"))

    assert page == page_of(await ask(server, "GET", "/docs/protocol.md"))
    assert '<h2 id="d-wallet">D. Wallet</h2>' in page
    assert "<td>idle, empty</td>" in page_of(await ask(server, "GET", "/docs/operate"))
    page = page_of(await ask(server, "GET", "/docs/connect"))
    contents = page.partition('aria-label="On this page"')[2].partition("</nav>")[0]
    assert '<a href="#generation-1x">Generation 1.x</a>' in contents
    assert '<a rel="prev" href="/docs/quickstart">' in page
    assert '<a rel="next" href="/docs/notify">' in page
    assert 'rel="prev"' not in page_of(await ask(server, "GET", "/docs/quickstart"))


async def test_the_start_says_a_line_about_each_page(server: RunningServer) -> None:
    start = page_of(await ask(server, "GET", "/docs/"))

    lines = dict(re.findall(r'<dt><a href="/docs/([\w/]+)">[^<]+</a></dt><dd>([^<]*)</dd>', start))
    assert {name for name, line in lines.items() if not line} == set()
    assert lines["connect"].startswith("Published WalletConnect clients work unmodified")


async def test_the_search_has_every_heading_and_its_words(server: RunningServer) -> None:
    answer = await ask(server, "GET", "/docs/search.json")

    rows = {path: (page, heading, words) for path, page, heading, words in answer.json}
    assert answer.headers["Content-Type"] == "application/json"
    assert rows["/docs/connect#generation-1x"][:2] == ("Connect dapps and wallets", "Generation 1.x")
    assert "openapi-typescript" in "".join(
        words for path, (_, _, words) in rows.items() if path.startswith("/docs/protocol#")
    )
    assert rows["/docs/errors/limit-exceeded"][:2] == ("Errors", "limit-exceeded")
    assert rows["/docs/methods#personal_sign"][1] == "personal_sign"
    assert any(heading == "POST /session/new" for _, heading, _ in rows.values())


@each_row(
    ("asked", "near"),
    [("quickstrat", "quickstart"), ("errors/limit-exceded", "errors/limit-exceeded")],
)
async def test_a_path_that_is_misspelt_gets_a_page_with_similar_ones(
    server: RunningServer, asked: str, near: str
) -> None:
    answer = await ask(server, "GET", f"/docs/{asked}")

    assert answer.status == 404
    suggested = page_of(answer).partition("Did you mean:")[2].partition("</ul>")[0]
    assert suggested.count(f'<a href="/docs/{near}">{near}</a>') == 1


@each_row(
    "path",
    [
        "..%2fsetup.cfg", "..%2F..%2Fsetup.cfg", "..%5csetup.cfg", "%2e%2e/setup.cfg", "pages", "images",
        "%00", "%2fetc%2fpasswd", "images/..%2f..%2fsetup.cfg", "layout/page.html", "problems.toml",
        "x" * 4_000, "errors/%22%3E%3Cscript%3E", "errors/..%2fwallet", "%0d%0aSet-Cookie:a=b", "%ff%fe",
        "%f0%9f%9a%80",
    ],
)  # fmt: skip
async def test_a_path_leads_to_no_other_file(server: RunningServer, path: str) -> None:
    answer = await ask(server, "GET", f"/docs/{path}")

    assert answer.status == 404
    page = page_of(answer)
    assert "<h1>No such page</h1>" in page
    assert not re.search(r"<script(?! src=)", page)
    assert len(page) < 10_000


@each_row("path", ["static/docs.css", "static/..%2fsite.py", "try/index.html", "try/..%2fLICENSE"])
async def test_only_the_files_of_pages_are_answered(server: RunningServer, path: str) -> None:
    (await ask(server, "GET", f"/docs/{path}")).problem(404)


async def test_a_picture_runs_nothing(server: RunningServer) -> None:
    picture = await ask(server, "GET", f"/docs/{next(iter(open_library().pictures))}")

    assert (picture.status, picture.headers["Content-Type"].partition("/")[0]) == (200, "image")
    assert "sandbox" in picture.headers["Content-Security-Policy"]


async def test_pages_are_only_read(server: RunningServer) -> None:
    head = await ask(server, "HEAD", "/docs/errors")

    assert (head.status, head.body) == (200, b"")
    (await ask(server, "POST", "/docs/errors")).problem(405)


def test_an_installation_without_guides_has_the_other_pages(tmp_path: Path) -> None:
    site = Site(open_library((tmp_path / "nowhere",)), dict)

    assert b"The guides are not part of this installation." in site.page("").body
    assert site.page("wallet").status == 404
    assert site.page("errors/not-found").status == 200


def test_without_swagger_ui_its_page_says_how_to_get_it(tmp_path: Path) -> None:
    page = Site(open_library(), dict, tmp_path).page("try")

    assert page.status == 200
    assert b"<code>scripts/swagger_ui</code>" in page.body
    assert b"/docs/try/" not in page.body


def test_with_swagger_ui_its_page_runs_the_scripts_of_this_server_alone(tmp_path: Path) -> None:
    for name in ("swagger-ui.css", "swagger-ui-bundle.js"):
        (tmp_path / name).write_text("/* it */")
    site = Site(open_library(), dict, tmp_path)

    page = site.page("try")

    policy = page.headers["Content-Security-Policy"]
    assert "script-src 'self';" in policy
    assert policy.startswith("default-src 'none';")
    for target in (target for target in Links(page.body.decode()).targets if target.startswith("/docs/try/")):
        assert target in site.tried_files.paths.values()
    assert not re.search(r"<script(?! src=)", page.body.decode())


def test_links_of_markdown_lead_to_pages_pictures_and_the_repository(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(
        "# A `b`\n## Some words: here!\n## Some words: here\n"
        "[1](b.md#x) [2](sub/c.md) [3](../LICENSE) [4](https://example.org/a.md) [5](#a-b) ![6](p.svg)\n"
    )
    (tmp_path / "b.md").write_text("# B\n")
    (tmp_path / "p.svg").write_text("<svg/>")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "c.md").write_text("[1](../a.md) [2](../p.svg) [3](../../README.md#x)\n")
    markdown = Markdown(open_library((tmp_path,)))

    page, inner = Links(markdown.page("a").text), Links(markdown.page("sub/c").text)

    assert page.anchors == ["a-b", "some-words-here", "some-words-here-1"]
    assert page.targets == [
        "/docs/b#x", "/docs/sub/c", f"{REPOSITORY}/blob/main/LICENSE", "https://example.org/a.md", "#a-b",
        "/docs/p.svg",
    ]  # fmt: skip
    assert inner.targets == ["/docs/a", "/docs/p.svg", f"{REPOSITORY}/blob/main/README.md#x"]


# The page at the root, which a browser is shown, and what every other client gets there.

_BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}

Shown = Callable[..., Awaitable[str]]


async def front(server: RunningServer, **headers: str) -> str:
    answer = await ask(server, "GET", "/", headers={**_BROWSER, **headers})
    assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'self'")
    return answer.body.decode()


def links(page: str) -> dict[str, str]:
    """The targets of links by their texts."""
    return {text: target for target, text in re.findall(r'<a [^>]*?href="([^"]*)"[^>]*>([^<]*)</a>', page)}


@pytest.fixture
def other(tmp_path: Path) -> Shown:
    """Starts a server with other settings."""

    async def shown(settings: Mapping[str, Any], **headers: str) -> str:
        async with running_server(tmp_path / "data", **settings) as server:
            return await front(server, **headers)

    return shown


async def test_a_browser_is_shown_addresses_to_copy_and_links_that_lead_somewhere(
    server: RunningServer,
) -> None:
    page = await front(server)

    address = server.url.removeprefix("http://")
    assert f'relayUrl: "<span>ws://{address}</span>' in page
    assert f'bridge: "<span>http://{address}</span>' in page
    assert {"Docs", "API", "Inbox"} <= links(page).keys()
    for target in {*links(page).values(), *re.findall(r' (?:src|href)="(/[^"]*)"', page)}:
        assert (await ask(server, "GET", target)).status == 200, target


@each_row("accept", ["*/*", "application/json", "text/plain", ""])
async def test_other_clients_get_a_short_page(server: RunningServer, accept: str) -> None:
    answer = await ask(server, "GET", "/", headers={"Accept": accept})

    assert b"<h1>Bridge Server 1." in answer.body
    assert "Accept" in answer.headers["Vary"]


async def test_the_address_is_the_one_that_the_browser_names_or_the_public_url(other: Shown) -> None:
    elsewhere, here = await other({}, Host="bridge.test:81"), await other({}, Host="[::1]:1")
    assert "ws://bridge.test:81</span>" in elsewhere
    assert ["BRIDGE_CONSOLE=on" in page for page in (elsewhere, here)] == [False, True]
    assert "ws://localhost</span>" in await other({}, Host="<script>")
    public = await other({"public_url": "https://bridge.example"}, Host="127.0.0.1")
    assert "wss://bridge.example</span>" in public
    assert "https://bridge.example</span>" in public


@each_row(
    ("settings", "host", "target"),
    [
        ({"console": True}, "bridge.test", "/console"),
        ({"console": True, "console_port": 4711}, "localhost:1", "http://localhost:4711/console"),
        ({"console": True, "console_port": 4711}, "bridge.test", None),
        ({"console": True, "console_port": 0}, "localhost:1", None),
        ({}, "localhost:1", None),
    ],
)
async def test_the_console_is_linked_where_the_visitor_can_open_it(
    other: Shown, settings: dict[str, Any], host: str, target: str | None
) -> None:
    assert links(await other(settings, Host=host)).get("Console") == target


async def test_in_dev_the_inbox_is_the_demo_projects_and_phones_get_no_links(tmp_path: Path) -> None:
    async with running_dev(tmp_path / "data") as dev:
        _, page = await dev.ask("GET", f"{dev.url}/", **_BROWSER)
        _, for_phones = await dev.ask("GET", f"{dev.lan_url}/", **_BROWSER)

    assert links(page)["Inbox"] == "/inbox/?project=demo"
    assert "<h1>Bridge Server 1." in for_phones


# Each problem has a page that is true: status, title, and the settings, methods and commands in it.

_PROBLEMS = every_problem()
_OF_HTTP = {"method-not-allowed": 405}
_OF_REFUSALS = {code: status for status, (code, _) in REFUSALS.items()}


def texts() -> Iterator[tuple[Problem, str]]:
    for problem in _PROBLEMS.values():
        yield from ((problem, text) for text in (problem.meaning, problem.cause, problem.cure))


def test_every_problem_has_a_page_with_its_status_and_title() -> None:
    failures = every_failure()
    statuses = {failure.code: status_of_kind(failure) for failure in failures}
    titles = {failure.code: failure.title for failure in failures} | {BUG[0]: BUG[1]}

    assert {code: problem.status for code, problem in _PROBLEMS.items()} == {
        **statuses, **_OF_HTTP, **_OF_REFUSALS, BUG[0]: 500, ORDERED_FAULT: 503,
    }  # fmt: skip
    assert {code: _PROBLEMS[code].title for code in titles} == titles
    assert {_PROBLEMS[code].title for code in _OF_HTTP} == {HTTPStatus(405).phrase.capitalize()}


def test_the_texts_name_settings_methods_and_commands_that_exist() -> None:
    known = {*Settings.model_fields, *(method.name for method in METHODS)}
    names = {name for _, text in texts() for name in re.findall(r"\b[a-z]+(?:_[A-Za-z]+)+\b", text)}
    named = {name for _, text in texts() for name in re.findall(r"bridge-server ([a-z]+)", text)}

    assert names <= known
    assert named <= set(commands.list_commands(click.Context(commands)))


def test_the_texts_name_routes_that_exist() -> None:
    rows = {(row.method, re.sub(r"\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}", "*", row.path)) for row in every_route()}
    missing = [
        (problem.code, method, path)
        for problem, text in texts()
        if "control API" not in text
        for method, path in re.findall(r"(GET|POST|PUT|DELETE) (/[\w/-]+)", text)
        if (method, re.sub(r"/(ID|PROJECT)\b", "/*", path)) not in rows
    ]

    assert missing == []


async def test_the_link_of_a_problem_leads_to_its_page(server: RunningServer) -> None:
    for path, code in (("/nope", "not-found"), ("/session/a", "session-not-found")):
        answer = await ask(server, "GET", path)
        answer.problem(404)
        link = re.fullmatch(r'<([^>]*)>; rel="help"', answer.headers["Link"])
        assert link is not None

        page = await ask(server, "GET", link[1])

        assert link[1] == f"/docs/errors/{code}"
        assert (page.status, f"<h1>{_PROBLEMS[code].title}</h1>" in page.body.decode()) == (200, True)


# A problem links the page about its code only at ports that have the pages.

LINK = b"Link: </docs/errors/"
UNREADABLE = b"GET / HTTP/1.1\r\nno field\r\n\r\n"
ABSENT = b"GET /absent HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Ports:
    """The port of each application of a server."""

    main: int
    others: tuple[int, ...]


@pytest.fixture
async def ports(tmp_path: Path) -> AsyncIterator[Ports]:
    settings = Settings(
        data_dir=tmp_path / "data", console=True, console_port=0, max_address_connections=1, quota_exempt=""
    )
    built = build_app(settings)
    assert built.console is not None
    applications = (
        built.application,
        built.metrics,
        built.console,
        built.lan_application("http://a.example"),
    )
    async with AsyncExitStack() as stack:
        found = [await _port_of(stack, application) for application in applications]
        yield Ports(found[0], tuple(found[1:]))


async def _port_of(stack: AsyncExitStack, application: web.Application) -> int:
    runner = runner_of(application)
    stack.push_async_callback(runner.cleanup)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    return int(runner.addresses[0][1])


async def _head(port: int, sent: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent)
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer.partition(b"\r\n\r\n")[0]


@each_row(("sent", "status"), [(ABSENT, b"404"), (UNREADABLE, b"400")])
async def test_only_the_port_with_the_pages_links_them(ports: Ports, sent: bytes, status: bytes) -> None:
    main = await _head(ports.main, sent)
    others = [await _head(port, sent) for port in ports.others]

    assert [head.split(b" ")[1] for head in (main, *others)] == [status] * 4
    assert [LINK in head for head in (main, *others)] == [True, False, False, False]


async def test_a_connection_over_the_limit_has_the_link_where_the_pages_are(ports: Ports) -> None:
    _, first = await asyncio.open_connection("127.0.0.1", ports.main)
    heads = [await _head(port, b"") for port in (ports.main, *ports.others)]
    first.close()
    await first.wait_closed()

    assert [head.split(b" ")[1] for head in heads] == [b"429"] * 4
    assert [LINK in head for head in heads] == [True, False, False, False]


async def test_the_wallets_control_api_links_nothing() -> None:
    async with (
        HeadlessWallet() as wallet,
        control_api(wallet, "127.0.0.1", 0) as facts,
        aiohttp.ClientSession() as http,
        http.get(f"{facts.url}/sessions") as answer,
    ):
        assert (answer.status, answer.content_type) == (401, "application/problem+json")
        assert "Link" not in answer.headers


# The pages in Debian's Chromium, by Playwright and axe-core.


_SPECIFICATION = Path(__file__).parent / "browser" / "docs.spec.js"
_TESTS = 8


@in_browser
async def test_a_reader_uses_the_pages(tmp_path: Path) -> None:
    # Without npm's registry the page says how to get Swagger UI, and one test fewer runs.
    await asyncio.to_thread(subprocess.run, [_ROOT / "scripts" / "swagger_ui"], check=False)
    has_swagger_ui = bool(swagger_ui_files(FOLDER))
    async with running_server(tmp_path / "data", test=True) as server:
        variables = {"DOCS_URL": f"{server.url}/docs", "HAS_SWAGGER_UI": str(int(has_swagger_ui))}
        output = await asyncio.to_thread(run_specification, tmp_path, _SPECIFICATION, environment=variables)

    assert f"{_TESTS - (not has_swagger_ui)} passed" in output
