"""The pages of settings, faults and clock; and the streams that announce what has changed on a page.

White-box: how often a stream checks its session has no setting, and would hide the sign-out.
"""

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
from tests.support.asking import next_event
from tests.support.clock import PassTime, passed_until
from tests.support.console_client import ConsoleClient, check_texts, found, sign_out_all, words
from tests.support.rows import each_row
from tests.support.waiting import turns

PATH = "/console/settings"
SECRET = {"admin_token": ADMIN_TOKEN, "rpc_token": "of-the-wallet", "node_url": "http://node.example/a-key"}
FAULTS = "/console/faults"
PROJECTS = "/console/projects"


@pytest.fixture(scope="module")
def server_settings() -> dict[str, Any]:
    return {"console": True, "test": True, **SECRET}


async def test_every_setting_is_shown_with_its_source_and_no_secret(console: ConsoleClient) -> None:
    page = await console.page(PATH)
    searched = await console.page(f"{PATH}?search=MAX_wait")

    def row_of(name: str) -> str:
        return words(found(rf'<tr>\s*<th scope="row"[^>]*>{name}</th>(.*?)</tr>', page))

    check_texts(page, *(f'class="mono">{name}</th>' for name in Settings.model_fields))
    assert row_of("max_wait") == "25 default by SIGHUP"
    assert row_of("console") == "on given by the program by a restart"
    assert row_of("webhook_secret") == "not set default by SIGHUP"
    assert row_of("rpc_token").startswith("(set)")
    check_texts(page, "The server can do its work.", hidden=tuple(SECRET.values()))
    assert re.findall(r'<th scope="row"[^>]*>(\w+)</th>', searched) == ["max_wait"]
    await console.page(f"{PATH}?search=%3Cscript%3E", "No setting fits")


async def test_rules_strike_count_their_hits_and_are_at_most_a_hundred(console: ConsoleClient) -> None:
    page = await console.change(FAULTS, "add", where="request", route="info", status="503", times="2")
    check_texts(page, "The rule is in force.", "Faults and clock")
    since = found(r"&amp;since=(\d+)", page)
    async with console.stream(f"/console/events?on=faults&since={since}") as content:
        statuses = [(await console.get("/info")).status for _ in range(3)]
        assert (await next_event(content))["event"] == "changed-faults"
    page = await console.page(FAULTS)
    number = found(r'name="rule" value="(\d+)"', page)
    others = await console.change(FAULTS, "add", where="request", status="503")

    assert statuses == [503, 503, 200]
    assert re.search(r'data-label="Hits"[^>]*>2<', page)
    assert re.findall(r'data-label="Hits"[^>]*>(\d+)<', others) == ["2", "0"]  # the console goes on
    assert (await console.get("/info")).status == 503
    await console.change(FAULTS, "remove", rule=number)
    await console.refused(FAULTS, "remove", rule=number)

    headers = {"Authorization": f"Bearer {console.server.test_token}"}
    rules, url = [{"where": "webhook", "drop": True}] * 100, f"{console.server.url}/_test/faults"
    async with console.server.client.put(url, json=rules, headers=headers) as response:
        assert response.status == 200
    await console.refused(FAULTS, "add", "at most 100 rules", where="webhook", drop="on")
    await console.change(FAULTS, "reset")
    odd = await console.refused(FAULTS, "add", where="request", route="no-such-route", status="teapot")
    check_texts(odd, "<strong>status</strong>", 'value="no-such-route"', "No rule is in force")


async def test_time_passes_the_clock_is_set_and_a_reset_empties_the_server(console: ConsoleClient) -> None:
    await console.change(FAULTS, "advance", "1 d 12 h have passed", number="1.5", unit="days")
    await console.page(FAULTS, "clock +1 d 12 h")
    page = await console.change(FAULTS, "set-clock", now="2030-01-01T00:00:00Z", frozen="on")
    check_texts(page, "It is 2030-01-01T00:00:00.000Z now.", "the clock is frozen")
    for wrong in ("soon", "nan", "-1", "1e99", ""):
        await console.refused(FAULTS, "advance", number=wrong, unit="days")
    await console.refused(FAULTS, "set-clock", now="soon")
    await console.send(PROJECTS, "create", name="Gone", project_id="gone")
    await console.change(FAULTS, "reset", "The server is reset", "clock +0 s")
    await console.page(PROJECTS, "There are no projects yet: create one")


Opened = Callable[..., Awaitable[aiohttp.StreamReader]]


@pytest.fixture
async def opened() -> AsyncIterator[Opened]:
    """Opens a stream of these topics since that number; all are closed at the end."""
    async with AsyncExitStack() as stack:

        async def opened(
            console: ConsoleClient, since: str, topics: str = "projects", **headers: str
        ) -> aiohttp.StreamReader:
            path = f"/console/events?on={topics}&since={since}"
            return await stack.enter_async_context(console.stream(path, **headers))

        yield opened


async def number_of_page(console: ConsoleClient) -> str:
    connecting = r'hx-sse:connect="/console/events\?on=projects&amp;since=(\d+)"'
    return found(connecting, await console.page(PROJECTS))


async def test_a_change_after_the_page_reaches_each_stream(console: ConsoleClient, opened: Opened) -> None:
    await console.send(PROJECTS, "create", name="Old", project_id="old")
    since = await number_of_page(console)
    early = await opened(console, since)
    resumed = await opened(console, "0", **{"Last-Event-ID": since})
    await console.change(PROJECTS, "create", name="Fresh", project_id="fresh")
    late, odd = await opened(console, since), await opened(console, "x", "nothing,,projects")
    page = await console.page(f"{PROJECTS}/fresh?search=a%26b&notice=seen")
    events = [await next_event(stream) for stream in (early, late, odd, resumed)]
    assert [event["event"] for event in events] == ["changed-projects"] * 4
    assert int(events[-1]["id"]) > int(since)  # what resumes is not told again of what it knows
    check_texts(page, f'hx-get="{PROJECTS}/fresh?search=a%26b"')  # the query is kept, and the notice is not


async def test_streams_end_with_sessions(console: ConsoleClient, pass_time: PassTime, opened: Opened) -> None:
    stream = await opened(console, await number_of_page(console), "outbox")
    await sign_out_all(console.server)
    await passed_until(asyncio.ensure_future(stream.read()), pass_time)


async def test_the_streams_of_a_browser_end_when_it_signs_out(
    console: ConsoleClient, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bridge_server.console.access._CHECK_SECONDS", 3_600.0)  # no stream looks by itself
    other = await ConsoleClient(console.server).sign_in()
    since = await number_of_page(console)
    page, others_page = await opened(console, since), await opened(other, since)

    async with console.stream("/console/traffic/stream") as traffic:
        assert (await console.send("/console/sign-out", "sign-out")).status == 200
        async with asyncio.timeout(60):
            await page.read()
            await traffic.read()

    await other.send(PROJECTS, "create", name="Later", project_id="later")
    assert (await next_event(others_page))["event"] == "changed-projects"


async def test_no_more_streams_than_64(console: ConsoleClient, opened: Opened) -> None:
    since = await number_of_page(console)
    first = await opened(console, since)
    for _ in range(MOST_WATCHES):
        await opened(console, since)
    await first.read()


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
