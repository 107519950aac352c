"""The pages at /docs/: every link on every page leads somewhere, and no path leads out of them."""

import asyncio
import re
import subprocess
from collections.abc import Iterator
from contextlib import AsyncExitStack
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
from tests.support.console_client import check_texts, elements, found
from tests.support.described import every_failure
from tests.support.node_project import in_browser, run_specification
from tests.support.rows import each_row
from tests.support.server import RunningServer, running_server

_ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def server_settings() -> dict[str, Any]:
    """A server with every operation, in test mode: no limit is in the way of a reader of every page."""
    return {"test": True, "admin_token": "t" * 40}


def anchors_of(page: str) -> list[str]:
    return [attributes["id"] or "" for _, attributes in elements(page) if "id" in attributes]


def targets_of(page: str) -> list[str]:
    """Where the links, pictures, styles and scripts of a page are."""
    return [
        target
        for tag, attributes in elements(page)
        for name, target in attributes.items()
        if name in ("href", "src") and target is not None and tag != "bridge-inbox"
    ]


def page_of(answer: Answer, *texts: str) -> str:
    """The page in an answer that must be one, with headers that let it run and load nothing of others."""
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'self'")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    page = answer.body.decode()
    check_texts(page, *texts)
    return page


async def shown(server: RunningServer, name: str, *texts: str, status: int = 200) -> str:
    """A page that must be answered with this status and have these texts."""
    answer = await ask(server, "GET", f"/docs/{name}")
    assert answer.status == status, name
    return page_of(answer, *texts)


async def test_every_link_on_every_page_leads_somewhere(server: RunningServer) -> None:
    waiting, seen = ["/docs/"], dict[str, list[str]]()
    wanted: set[tuple[str, str, str]] = set()
    dead: list[object] = []
    while waiting:
        path = waiting.pop()
        answer = await ask(server, "GET", path)
        assert answer.status == 200, path
        if not answer.headers["Content-Type"].startswith("text/html"):
            seen[path] = []
            continue
        page = answer.body.decode()
        seen[path] = anchors_of(page)
        assert len(seen[path]) == len(set(seen[path])), path
        for target in targets_of(page):
            parts = urlsplit(urljoin(f"{server.url}{path}", target))
            if target.startswith(f"{REPOSITORY}/blob/main/"):
                file = parts.path.removeprefix(f"{urlsplit(REPOSITORY).path}/blob/main/")
                dead += [] if (_ROOT / file).is_file() else [(path, target)]
            if f"{parts.scheme}://{parts.netloc}" == server.url and not target.startswith("data:"):
                wanted.add((path, parts.path, unquote(parts.fragment)))
                if parts.path not in seen and parts.path not in waiting:
                    waiting.append(parts.path)

    dead += [(page, path, anchor) for page, path, anchor in wanted if anchor and anchor not in seen[path]]
    assert dead == []
    others = {"api", "methods", "errors/limit-exceeded", "try"}
    assert {f"/docs/{name}" for name in {*open_library().pages, *others}} <= seen.keys()
    assert {"/openapi.json", "/openrpc.json"} <= seen.keys()


async def test_the_pages_are_about_this_server_and_lead_to_each_other(server: RunningServer) -> None:
    start = await shown(server, "", '<a href="/docs/wallet">')
    relay = await shown(server, "api/bridge", '<a href="/docs/errors/limit-exceeded">limit-exceeded</a>')
    protocol = await shown(server, "protocol", '<h2 id="d-wallet">D. Wallet</h2>')
    neighbours = ('<a rel="prev" href="/docs/quickstart">', '<a rel="next" href="/docs/notify">')
    connect = await shown(server, "connect", *neighbours)
    lines = dict(re.findall(r'<dt><a href="/docs/([\w/]+)">[^<]+</a></dt><dd>([^<]*)</dd>', start))

    assert start == page_of(await ask(server, "GET", "/docs"))
    assert protocol == await shown(server, "protocol.md")
    assert {name for name, line in lines.items() if not line} == set()
    assert lines["connect"].startswith("Published WalletConnect clients work unmodified")
    assert 'id="shape-SubscriptionMessage"' not in relay
    webhooks = await shown(server, "api/webhooks", '<a href="#shape-SubscriptionMessage">')
    check_texts(webhooks, '<section class="operation" id="subscription-changed"')
    await shown(server, "api", "<code>POST /session/new</code>")
    await shown(server, "methods", "<code>personal_sign</code>", "&#34;jsonrpc&#34;: &#34;2.0&#34;")
    await shown(server, "operate", "<td>idle, empty</td>")
    contents = connect.partition('aria-label="On this page"')[2].partition("</nav>")[0]
    check_texts(contents, '<a href="#generation-1x">Generation 1.x</a>')
    assert 'rel="prev"' not in await shown(server, "quickstart")


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


async def test_a_path_leads_to_no_other_file_and_a_misspelt_one_to_near_ones(server: RunningServer) -> None:
    for path in (
        "..%2fsetup.cfg", "..%2F..%2Fsetup.cfg", "..%5csetup.cfg", "%2e%2e/setup.cfg", "pages", "images",
        "%00", "%2fetc%2fpasswd", "images/..%2f..%2fsetup.cfg", "layout/page.html", "problems.toml",
        "x" * 4_000, "errors/%22%3E%3Cscript%3E", "errors/..%2fwallet", "%0d%0aSet-Cookie:a=b", "%ff%fe",
        "%f0%9f%9a%80",
    ):  # fmt: skip
        page = await shown(server, path, "<h1>No such page</h1>", status=404)
        assert not re.search(r"<script(?! src=)", page)
        assert len(page) < 10_000
    for path, near in (("quickstrat", "quickstart"), ("errors/limit-exceded", "errors/limit-exceeded")):
        page = await shown(server, path, status=404)
        suggested = page.partition("Did you mean:")[2].partition("</ul>")[0]
        assert suggested.count(f'<a href="/docs/{near}">{near}</a>') == 1


async def test_only_the_files_of_pages_are_answered_and_only_read(server: RunningServer) -> None:
    for path in ("static/docs.css", "static/..%2fsite.py", "try/index.html", "try/..%2fLICENSE"):
        (await ask(server, "GET", f"/docs/{path}")).problem(404)
    picture = await ask(server, "GET", f"/docs/{next(iter(open_library().pictures))}")
    assert (picture.status, picture.headers["Content-Type"].partition("/")[0]) == (200, "image")
    assert "sandbox" in picture.headers["Content-Security-Policy"]  # it runs nothing
    head = await ask(server, "HEAD", "/docs/errors")
    assert (head.status, head.body) == (200, b"")
    (await ask(server, "POST", "/docs/errors")).problem(405)


def test_an_installation_without_guides_or_swagger_ui_has_the_other_pages(tmp_path: Path) -> None:
    site = Site(open_library((tmp_path / "nowhere",)), dict, tmp_path)
    check_texts(site.page("").body.decode(), "The guides are not part of this installation.")
    assert (site.page("wallet").status, site.page("errors/not-found").status) == (404, 200)
    without = site.page("try")
    assert without.status == 200
    check_texts(without.body.decode(), "<code>scripts/swagger_ui</code>", hidden=("/docs/try/",))


def test_the_page_of_swagger_ui_runs_the_scripts_of_this_server_alone(tmp_path: Path) -> None:
    for name in ("swagger-ui.css", "swagger-ui-bundle.js"):
        (tmp_path / name).write_text("/* it */")
    site = Site(open_library(), dict, tmp_path)
    page = site.page("try")
    policy = page.headers["Content-Security-Policy"]
    assert "script-src 'self';" in policy
    assert policy.startswith("default-src 'none';")
    targets = {target for target in targets_of(page.body.decode()) if target.startswith("/docs/try/")}
    assert targets <= set(site.tried_files.paths.values())
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

    page, inner = markdown.page("a").text, markdown.page("sub/c").text

    assert anchors_of(page) == ["a-b", "some-words-here", "some-words-here-1"]
    assert targets_of(page) == [
        "/docs/b#x", "/docs/sub/c", f"{REPOSITORY}/blob/main/LICENSE", "https://example.org/a.md", "#a-b",
        "/docs/p.svg",
    ]  # fmt: skip
    assert targets_of(inner) == ["/docs/a", "/docs/p.svg", f"{REPOSITORY}/blob/main/README.md#x"]


# The page at the root, which a browser is shown, and what every other client gets there.

_BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}


async def front(server: RunningServer, *texts: str, **headers: str) -> str:
    return page_of(await ask(server, "GET", "/", headers={**_BROWSER, **headers}), *texts)


def links(page: str) -> dict[str, str]:
    """The targets of links by their texts."""
    return {text: target for target, text in re.findall(r'<a [^>]*?href="([^"]*)"[^>]*>([^<]*)</a>', page)}


async def test_a_browser_is_shown_the_address_that_it_names_and_sound_links(server: RunningServer) -> None:
    page = await front(server)
    address = server.url.removeprefix("http://")
    check_texts(page, f'relayUrl: "<span>ws://{address}</span>', f'bridge: "<span>http://{address}</span>')
    assert {"Docs", "API", "Inbox"} <= links(page).keys()
    for target in {*links(page).values(), *re.findall(r' (?:src|href)="(/[^"]*)"', page)}:
        assert (await ask(server, "GET", target)).status == 200, target

    elsewhere = await front(server, Host="bridge.test:81")
    check_texts(elsewhere, "ws://bridge.test:81</span>", hidden=("BRIDGE_CONSOLE=on",))
    await front(server, "BRIDGE_CONSOLE=on", Host="[::1]:1")
    await front(server, "ws://localhost</span>", Host="<script>")
    for accept in ("*/*", "application/json", "text/plain", ""):
        answer = await ask(server, "GET", "/", headers={"Accept": accept})
        assert b"<h1>Bridge Server 1." in answer.body, accept
        assert "Accept" in answer.headers["Vary"]


async def test_a_public_url_is_the_address_whatever_the_browser_names(tmp_path: Path) -> None:
    async with running_server(tmp_path / "data", public_url="https://bridge.example") as server:
        await front(server, "wss://bridge.example</span>", "https://bridge.example</span>", Host="127.0.0.1")


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
    tmp_path: Path, settings: dict[str, Any], host: str, target: str | None
) -> None:
    async with running_server(tmp_path / "data", **settings) as server:
        assert links(await front(server, Host=host)).get("Console") == target


async def test_in_dev_the_inbox_is_the_demo_projects_and_phones_get_no_links(tmp_path: Path) -> None:
    async with running_dev(tmp_path / "data") as dev:
        _, page = await dev.ask("GET", f"{dev.url}/", **_BROWSER)
        _, for_phones = await dev.ask("GET", f"{dev.lan_url}/", **_BROWSER)
    assert links(page)["Inbox"] == "/inbox/?project=demo"
    assert "<h1>Bridge Server 1." in for_phones


# Each problem has a page that is true: status, title, and the settings, methods and commands in it.

_PROBLEMS = every_problem()


def texts() -> Iterator[tuple[Problem, str]]:
    for problem in _PROBLEMS.values():
        yield from ((problem, text) for text in (problem.meaning, problem.cause, problem.cure))


def test_every_problem_has_a_page_with_its_status_and_title() -> None:
    failures = every_failure()
    statuses = {failure.code: status_of_kind(failure) for failure in failures}
    titles = {failure.code: failure.title for failure in failures} | {BUG[0]: BUG[1]}
    titles["method-not-allowed"] = HTTPStatus(405).phrase.capitalize()
    assert {code: problem.status for code, problem in _PROBLEMS.items()} == {
        **statuses, **{code: status for status, (code, _) in REFUSALS.items()},
        "method-not-allowed": 405, BUG[0]: 500, ORDERED_FAULT: 503,
    }  # fmt: skip
    assert {code: _PROBLEMS[code].title for code in titles} == titles


def test_the_texts_name_settings_methods_commands_and_routes_that_exist() -> None:
    known = {*Settings.model_fields, *(method.name for method in METHODS)}
    names = {name for _, text in texts() for name in re.findall(r"\b[a-z]+(?:_[A-Za-z]+)+\b", text)}
    named = {name for _, text in texts() for name in re.findall(r"bridge-server ([a-z]+)", text)}
    rows = {(row.method, re.sub(r"\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}", "*", row.path)) for row in every_route()}
    missing = [
        (problem.code, method, path)
        for problem, text in texts()
        if "control API" not in text
        for method, path in re.findall(r"(GET|POST|PUT|DELETE) (/[\w/-]+)", text)
        if (method, re.sub(r"/(ID|PROJECT)\b", "/*", path)) not in rows
    ]

    assert names <= known
    assert named <= set(commands.list_commands(click.Context(commands)))
    assert missing == []


async def test_the_link_of_a_problem_leads_to_its_page(server: RunningServer) -> None:
    for path, code in (("/nope", "not-found"), ("/session/a", "session-not-found")):
        answer = await ask(server, "GET", path)
        answer.problem(404)
        link = found(r'^<([^>]*)>; rel="help"$', answer.headers["Link"])
        assert link == f"/docs/errors/{code}"
        await shown(server, f"errors/{code}", f"<h1>{_PROBLEMS[code].title}</h1>")


async def _answered(ports: list[int], sent: bytes) -> list[tuple[bytes, bool]]:
    """The status of the answer of each port to this, and whether it links a page about a problem."""
    answers = []
    for port in ports:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)
        head = (await reader.read()).partition(b"\r\n\r\n")[0]
        writer.close()
        await writer.wait_closed()
        answers.append((head.split(b" ")[1], b"Link: </docs/errors/" in head))
    return answers


async def test_only_the_port_with_the_pages_links_them(tmp_path: Path) -> None:
    settings = Settings(
        data_dir=tmp_path / "data", console=True, console_port=0, max_address_connections=1, quota_exempt=""
    )
    built = build_app(settings)
    assert built.console is not None
    others = (built.metrics, built.console, built.lan_application("http://a.example"))
    async with AsyncExitStack() as stack:
        ports = []
        for application in (built.application, *others):
            runner = runner_of(application)
            stack.push_async_callback(runner.cleanup)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            ports.append(int(runner.addresses[0][1]))

        absent = b"GET /absent HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        unreadable = b"GET / HTTP/1.1\r\nno field\r\n\r\n"
        for sent, status in ((absent, b"404"), (unreadable, b"400")):
            assert await _answered(ports, sent) == [(status, True), *[(status, False)] * 3]
        _, first = await asyncio.open_connection("127.0.0.1", ports[0])
        over_the_limit = await _answered(ports, b"")
        first.close()
        await first.wait_closed()
        assert over_the_limit == [(b"429", True), *[(b"429", False)] * 3]


async def test_the_wallets_control_api_links_nothing() -> None:
    async with (
        HeadlessWallet() as wallet,
        control_api(wallet, "127.0.0.1", 0) as facts,
        aiohttp.ClientSession() as http,
        http.get(f"{facts.url}/sessions") as answer,
    ):
        assert (answer.status, answer.content_type) == (401, "application/problem+json")
        assert "Link" not in answer.headers


@in_browser
async def test_a_reader_uses_the_pages(tmp_path: Path) -> None:
    # Without npm's registry the page says how to get Swagger UI, and one test fewer runs.
    await asyncio.to_thread(subprocess.run, [_ROOT / "scripts" / "swagger_ui"], check=False)
    has_swagger_ui = bool(swagger_ui_files(FOLDER))
    async with running_server(tmp_path / "data", test=True) as server:
        variables = {"DOCS_URL": f"{server.url}/docs", "HAS_SWAGGER_UI": str(int(has_swagger_ui))}
        specification = Path(__file__).parent / "browser" / "docs.spec.js"
        output = await asyncio.to_thread(run_specification, tmp_path, specification, environment=variables)
    assert f"{7 + has_swagger_ui} passed" in output
