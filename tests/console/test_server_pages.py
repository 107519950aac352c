"""The pages of settings, faults and clock; and the streams that announce what has changed on a page."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import aiohttp
import pytest

from bridge_server.console.handlers import SignedInSource
from bridge_server.console.rendering import MOST_WATCHES, PageChanges
from bridge_server.kernel.events import Events
from bridge_server.projects.models import ProjectChanged
from bridge_server.settings.settings import Settings
from bridge_server.storage.database import ChangedOutside
from bridge_server.web.answers import EventStream
from tests.support.admin_client import ADMIN_TOKEN
from tests.support.clock import PassTime, passed_until
from tests.support.console_client import ConsoleClient, sign_out_all
from tests.support.rows import each_row
from tests.support.waiting import turns

PATH = "/console/settings"
SECRET = {"admin_token": ADMIN_TOKEN, "rpc_token": "of-the-wallet", "node_url": "http://node.example/a-key"}
FAULTS = "/console/faults"
PROJECTS = "/console/projects"


def row_of(page: str, name: str) -> str:
    """The text of the row of a setting."""
    found = re.search(rf'<tr>\s*<th scope="row"[^>]*>{name}</th>(.*?)</tr>', page, re.DOTALL)
    assert found is not None
    return " ".join(re.sub(r"<[^>]*>", " ", found[1]).split())


async def test_every_setting_is_shown_with_its_source_and_no_secret(console: ConsoleClient) -> None:
    page = await console.page(PATH)
    found = await console.page(f"{PATH}?search=MAX_wait")

    for name in Settings.model_fields:
        assert f'class="mono">{name}</th>' in page
    assert row_of(page, "max_wait") == "25 default by SIGHUP"
    assert row_of(page, "console") == "on given by the program by a restart"
    assert row_of(page, "webhook_secret") == "not set default by SIGHUP"
    assert row_of(page, "rpc_token").startswith("(set)")
    assert not [text for text in SECRET.values() if text in page]
    assert "The server can do its work." in page
    assert re.findall(r'<th scope="row"[^>]*>(\w+)</th>', found) == ["max_wait"]
    assert "No setting fits" in await console.page(f"{PATH}?search=%3Cscript%3E")


@pytest.fixture(scope="module")
def server_settings() -> dict[str, Any]:
    return {"console": True, "test": True, **SECRET}


async def test_a_rule_strikes_counts_its_hits_and_is_removed(console: ConsoleClient) -> None:
    page = await console.change(FAULTS, "add", where="request", route="info", status="503", times="2")
    assert "The rule is in force." in page
    assert "Faults and clock" in page
    stream_since = page.partition("&amp;since=")[2].partition('"')[0]
    async with console.stream(f"/console/events?on=faults&since={stream_since}") as content:
        statuses = [(await console.get("/info")).status for _ in range(3)]
        assert await Stream(content).next() == "changed-faults"
    page = await console.page(FAULTS)
    number = re.search(r'name="rule" value="(\d+)"', page)
    assert number is not None
    others = await console.change(FAULTS, "add", where="request", status="503")

    assert statuses == [503, 503, 200]
    assert re.search(r'data-label="Hits"[^>]*>2<', page)
    assert re.findall(r'data-label="Hits"[^>]*>(\d+)<', others) == ["2", "0"]  # the console goes on
    assert (await console.get("/info")).status == 503
    await console.change(FAULTS, "remove", rule=number[1])
    assert (await console.send(FAULTS, "remove", rule=number[1])).status == 400


async def test_no_more_rules_than_a_hundred_and_a_faulty_one_keeps_its_fields(
    console: ConsoleClient,
) -> None:
    headers = {"Authorization": f"Bearer {console.server.test_token}"}
    rules, url = [{"where": "webhook", "drop": True}] * 100, f"{console.server.url}/_test/faults"
    async with console.server.client.put(url, json=rules, headers=headers) as response:
        assert response.status == 200

    answer = await console.send(FAULTS, "add", where="webhook", drop="on")

    assert (answer.status, "at most 100 rules" in answer.body.decode()) == (400, True)
    await console.change(FAULTS, "reset")
    odd = await console.send(FAULTS, "add", where="request", route="no-such-route", status="teapot")
    page = odd.body.decode()
    assert (odd.status, "<strong>status</strong>" in page) == (400, True)
    assert 'value="no-such-route"' in page
    assert "No rule is in force" in page


async def test_time_passes_the_clock_is_set_and_a_reset_empties_the_server(console: ConsoleClient) -> None:
    assert "1 d 12 h have passed" in await console.change(FAULTS, "advance", number="1.5", unit="days")
    assert "clock +1 d 12 h" in await console.page(FAULTS)
    page = await console.change(FAULTS, "set-clock", now="2030-01-01T00:00:00Z", frozen="on")
    assert "It is 2030-01-01T00:00:00.000Z now." in page
    assert "the clock is frozen" in page
    for wrong in ("soon", "nan", "-1", "1e99", ""):
        assert (await console.send(FAULTS, "advance", number=wrong, unit="days")).status == 400
    assert (await console.send(FAULTS, "set-clock", now="soon")).status == 400
    await console.send(PROJECTS, "create", name="Gone", project_id="gone")
    page = await console.change(FAULTS, "reset")
    assert "The server is reset" in page
    assert "clock +0 s" in page
    assert "There are no projects yet: create one" in await console.page(PROJECTS)


class Stream:
    """An open stream of a console."""

    def __init__(self, content: aiohttp.StreamReader) -> None:
        self._content = content

    async def next(self) -> str:
        """The name of the next event; empty at the end."""
        while line := (await self._content.readline()).decode():
            if line.startswith("event: "):
                return line.removeprefix("event: ").strip()
        return ""

    async def end(self) -> None:
        """Return when there are no more events."""
        while await self.next():
            pass


Opened = Callable[..., Awaitable[Stream]]


@pytest.fixture
async def opened() -> AsyncIterator[Opened]:
    """Opens a stream of these topics since that number; all are closed at the end."""
    async with AsyncExitStack() as stack:

        async def opened(console: ConsoleClient, topics: str, since: str, **headers: str) -> Stream:
            path = f"/console/events?on={topics}&since={since}"
            return Stream(await stack.enter_async_context(console.stream(path, **headers)))

        yield opened


async def number_of_page(console: ConsoleClient) -> str:
    found = re.search(
        r'hx-sse:connect="/console/events\?on=projects&amp;since=(\d+)"', await console.page(PROJECTS)
    )
    assert found is not None
    return found[1]


async def test_a_change_after_the_page_is_announced_also_if_the_stream_comes_later(
    console: ConsoleClient, opened: Opened
) -> None:
    since = await number_of_page(console)
    early = await opened(console, "projects", since)
    answer = await console.send(PROJECTS, "create", name="Fresh", project_id="fresh")
    assert answer.status == 303, answer
    late, odd = await opened(console, "projects", since), await opened(console, "nothing,,projects", "x")

    page = await console.page(f"{PROJECTS}/fresh?search=a%26b&notice=seen")

    assert await early.next() == await late.next() == await odd.next() == "changed-projects"
    assert f'hx-get="{PROJECTS}/fresh?search=a%26b"' in page  # the query is kept, and the notice is not


async def test_a_stream_that_resumes_is_sent_what_it_missed_and_nothing_else(
    console: ConsoleClient, opened: Opened
) -> None:
    await console.send(PROJECTS, "create", name="Old", project_id="old")
    since = await number_of_page(console)
    resumed = await opened(console, "projects,outbox", "0", **{"Last-Event-ID": since})

    await console.send(f"{PROJECTS}/old", "add-type", name="Type")

    assert await resumed.next() == "changed-projects"


async def test_a_stream_ends_after_its_session(
    console: ConsoleClient, pass_time: PassTime, opened: Opened
) -> None:
    stream = await opened(console, "outbox", await number_of_page(console))
    await sign_out_all(console.server)
    ended = asyncio.ensure_future(stream.end())

    await passed_until(ended, pass_time)


async def test_the_streams_of_a_browser_end_when_it_signs_out(
    console: ConsoleClient, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bridge_server.console.access._CHECK_SECONDS", 3_600.0)  # no stream looks by itself
    other = await ConsoleClient(console.server).sign_in()
    since = await number_of_page(console)
    page, others_page = await opened(console, "projects", since), await opened(other, "projects", since)

    async with console.stream("/console/traffic/stream") as traffic:
        assert (await console.send("/console/sign-out", "sign-out")).status == 200
        async with asyncio.timeout(60):
            await page.end()
            await traffic.read()

    await other.send(PROJECTS, "create", name="Later", project_id="later")
    assert await others_page.next() == "changed-projects"


async def test_no_more_streams_than_64(console: ConsoleClient, opened: Opened) -> None:
    since = await number_of_page(console)
    first = await opened(console, "projects", since)
    for _ in range(MOST_WATCHES):
        await opened(console, "projects", since)

    await first.end()


class Outlet(EventStream):
    """A stream without a client."""

    async def write(self, data: bytes | bytearray | memoryview) -> None:
        pass


@each_row("turns_later", range(4))
async def test_a_stream_ends_although_a_page_changes_as_its_session_ends(turns_later: int) -> None:
    """White-box: no client chooses the turn of the event loop."""
    changes = PageChanges(100, ["projects"])
    watch = changes.watch(["projects"], 100)
    end = asyncio.Event()

    async def end_of_session() -> None:
        await end.wait()

    flow = asyncio.create_task(SignedInSource(watch, end_of_session).flow(Outlet(watch)))
    await turns()

    end.set()
    await turns(turns_later)
    changes.note("projects")
    await turns()

    assert flow.done()


def test_numbers_grow_from_run_to_run_and_changes_of_other_processes_are_noted() -> None:
    """White-box: a test has one process, and one run."""
    changes, events = PageChanges(100, ["projects", "wallet"]), Events()
    changes.follow(events, {"projects": (ProjectChanged,), "wallet": ()}, ChangedOutside)

    events.hear(ProjectChanged("app"))
    assert changes.changed(["projects", "wallet"], 100) == ["projects"]
    assert changes.changed(["projects", "wallet"], 101) == []
    assert changes.changed(["projects", "wallet"], 7) == ["projects", "wallet"]

    events.hear_everything()
    assert changes.changed(["projects", "wallet"], 101) == ["projects", "wallet"]
