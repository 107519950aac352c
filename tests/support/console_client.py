"""A browser without JavaScript, as far as the console's tests need one: cookies, forms, redirects."""

import html
import re
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from html.parser import HTMLParser
from urllib.parse import urlencode

import aiohttp

from bridge_server.assembly.command_line import console_access, operations
from tests.support.asking import Answer, Headers, ask
from tests.support.engines import database_of
from tests.support.server import RunningServer

FORM = "application/x-www-form-urlencoded"


async def new_link(server: RunningServer) -> str:
    """The path of a sign-in link, as the operator's command makes it beside the server."""
    async with operations(server.settings, clock=server.clock) as opened:
        return f"/console/sign-in?link={await console_access(opened.foundation).new_link()}"


async def sign_out_all(server: RunningServer) -> int:
    """End every session, as the operator's command does beside the server."""
    async with operations(server.settings, clock=server.clock) as opened:
        return await console_access(opened.foundation).store.sign_out_all()


@dataclass
class ConsoleClient:
    server: RunningServer
    cookies: dict[str, str] = field(default_factory=dict)

    async def sign_in(self) -> "ConsoleClient":
        answer = await self.get(await new_link(self.server))
        assert answer.status == 303, answer
        return self

    async def get(self, path: str, headers: Headers = None) -> Answer:
        return await self._ask("GET", path, headers)

    async def page(self, path: str, *shown: str, status: int = 200) -> str:
        """A page that must be answered with this status and have these texts."""
        return _page(await self.get(path), status, shown)

    async def form_token(self) -> str:
        return found(r'name="form_token" value="([^"]+)"', await self.page("/console/projects"))

    async def send(self, path: str, do: str, headers: Headers = None, **fields: str) -> Answer:
        """Submit a form of the page; the answer is that of the change itself."""
        form = {"form_token": await self.form_token(), "do": do, **fields}
        return await self.post(path, form, headers)

    async def post(
        self, path: str, form: Mapping[str, str], headers: Headers = None, content_type: str = FORM
    ) -> Answer:
        return await self._ask("POST", path, headers, urlencode(form).encode(), content_type)

    async def refused(self, path: str, do: str, *shown: str, code: int = 400, **fields: str) -> str:
        """Submit a form whose change must be refused; returns the page, which must have these texts."""
        return _page(await self.send(path, do, None, **fields), code, shown)

    async def change(self, path: str, do: str, *shown: str, **fields: str) -> str:
        """Submit a form whose change must be made; returns the page that follows, with these texts."""
        answer = await self.send(path, do, None, **fields)
        assert answer.status == 303, answer.body.decode()
        return await self.page(answer.headers["Location"], *shown)

    @property
    def cookie(self) -> dict[str, str]:
        text = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        return {"Cookie": text} if text else {}

    @asynccontextmanager
    async def stream(self, path: str, **headers: str) -> AsyncIterator[aiohttp.StreamReader]:
        url, sent = f"{self.server.url}{path}", {**self.cookie, **headers}
        endless = aiohttp.ClientTimeout(total=None)  # a test may move time past any timeout
        async with self.server.client.get(url, headers=sent, timeout=endless) as response:
            assert response.headers["Content-Type"] == "text/event-stream"
            yield response.content

    async def _ask(
        self, method: str, path: str, headers: Headers, body: bytes | None = None, content_type: str = FORM
    ) -> Answer:
        sent = {**self.cookie, **(headers or {})}
        answer = await ask(self.server, method, path, body, sent, content_type=content_type)
        for line in answer.headers.getall("Set-Cookie", []):
            name, _, value = line.partition(";")[0].partition("=")
            self.cookies[name] = value
        return answer


def _page(answer: Answer, status: int, shown: Iterable[str]) -> str:
    assert answer.status == status, answer
    page = answer.body.decode()
    check_texts(page, *shown)
    return page


def elements(page: str) -> list[tuple[str, dict[str, str | None]]]:
    """The elements of a page with their attributes, as a browser's parser sees them."""
    seen: list[tuple[str, dict[str, str | None]]] = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attrs: seen.append((tag, dict(attrs)))  # type: ignore[method-assign]
    parser.feed(page)
    return seen


def found(pattern: str, page: str) -> str:
    """The text of the first match of the pattern's group in the page, as a browser reads it."""
    match = re.search(pattern, page, re.DOTALL)
    assert match is not None, pattern
    return html.unescape(match[1])


def words(markup: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", markup).split())


def check_texts(page: str, *shown: str, hidden: tuple[str, ...] = ()) -> None:
    """The page has each of the texts, and none of the hidden ones."""
    assert [text for text in shown if text not in page] == []
    assert [text for text in hidden if text in page] == []


async def make_project(console: ConsoleClient, project_id: str, *types: str, name: str = "App") -> None:
    await console.send("/console/projects", "create", name=name, project_id=project_id)
    for type_id in types:
        path = f"/console/projects/{project_id}"
        await console.send(path, "add-type", name=type_id.capitalize(), type_id=type_id)


async def subscribe(console: ConsoleClient, project_id: str, account: str, types: str = "") -> None:
    """Subscribe an account to these types, or to all."""
    path = f"/console/projects/{project_id}"
    answer = await console.send(path, "subscribe", account=account, types=types)
    assert answer.status == 303, answer.body.decode()


def subscribe_crowd(console: ConsoleClient, count: int, like: str, project_id: str) -> None:
    """So many more subscribers with the types of this one."""
    with database_of(console.server.settings) as database:
        database.executemany(
            "INSERT INTO accounts (account_key) VALUES (?)",
            ((f"test:crowd:{project_id}-{number:08d}",) for number in range(count)),
        )
        model = (
            "SELECT {} FROM subscriptions JOIN projects ON projects.id = project"
            " WHERE project_id = ?1 AND account_id = ?2"
        )
        database.execute(
            f"""
            INSERT INTO subscriptions (project, account_key, account, account_id, type_set, subscribed_at_ms)
            SELECT ({model.format("project")}), account_key, id, account_key, ({model.format("type_set")}), 0
            FROM accounts WHERE account_key LIKE 'test:crowd:' || ?1 || '-%'
            """,
            (project_id, like),
        )
        database.execute(
            f"UPDATE type_sets SET subscribers = subscribers + ?3 WHERE id = ({model.format('type_set')})",
            (project_id, like, count),
        )
