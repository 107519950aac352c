"""The pages at /docs/: every link on every page leads somewhere, and no path leads out of them."""

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit

import pytest

from bridge_server.description.markdown import Markdown, open_library
from bridge_server.description.site import Site
from bridge_server.kernel.version import REPOSITORY
from tests.support.asking import Answer, ask
from tests.support.rows import each_row
from tests.support.server import RunningServer

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


async def test_a_page_of_markdown_has_tables_anchors_and_links(server: RunningServer) -> None:
    page = page_of(await ask(server, "GET", "/docs/protocol"))

    assert page == page_of(await ask(server, "GET", "/docs/protocol.md"))
    assert '<h2 id="d-wallet">D. Wallet</h2>' in page
    assert "<td>idle, empty</td>" in page_of(await ask(server, "GET", "/docs/operate"))
    assert re.search(r'<a href="/docs/[\w-]+', page)


async def test_a_page_has_its_sections_and_its_neighbours(server: RunningServer) -> None:
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


@each_row(("asked", "near"), [("protocoll", "protocol"), ("errors/limit-exceded", "errors/limit-exceeded")])
async def test_a_path_that_is_misspelt_gets_a_page_with_similar_ones(
    server: RunningServer, asked: str, near: str
) -> None:
    answer = await ask(server, "GET", f"/docs/{asked}")

    assert answer.status == 404
    assert f'<a href="/docs/{near}">{near}</a>' in page_of(answer)


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


async def test_a_misspelt_name_leads_to_each_page_that_resembles_it_once(server: RunningServer) -> None:
    page = page_of(await ask(server, "GET", "/docs/quickstrat"))

    suggested = page.partition("Did you mean:")[2].partition("</ul>")[0]
    assert re.findall(r"href=\"/docs/([^\"]*)\"", suggested) == ["quickstart"]


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


def test_the_cache_of_pages_has_a_bound() -> None:
    site = Site(open_library(), dict)
    names = [f"errors/{code}" for code in site._problems]

    for name in (*names, *(f"unknown-{number}" for number in range(100))):
        site.page(name)

    kept = site._kept.cache_info()
    assert len(names) > 64
    assert kept.currsize == kept.maxsize == 64


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
        assert site.tried_files.file(target.rpartition("/")[2]).status == 200
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
