"""Streams of server-sent events name the topics that have changed since a page was made."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial

import aiohttp
import pytest

from bridge_server.console.rendering import MOST_WATCHES, PageChanges
from bridge_server.kernel.events import Events
from bridge_server.projects.models import ProjectChanged
from bridge_server.storage.database import ChangedOutside
from tests.support.console_client import ConsoleClient, sign_out_all
from tests.support.loop_time import PassTime, passed_until

PROJECTS = "/console/projects"

_PATIENCE_SECONDS = 10
"""Less than the pause in which a stream looks by itself whether its session lasts."""


class Stream:
    """An open stream of a console."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    async def next(self) -> str:
        """The name of the next event; empty at the end."""
        while line := (await self._response.content.readline()).decode():
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
        yield partial(_opened, stack)


async def _opened(
    stack: AsyncExitStack, console: ConsoleClient, topics: str, since: str, **headers: str
) -> Stream:
    return await _streamed(stack, console, f"/console/events?on={topics}&since={since}", **headers)


async def _streamed(stack: AsyncExitStack, console: ConsoleClient, path: str, **headers: str) -> Stream:
    cookie = "; ".join(f"{name}={value}" for name, value in console.cookies.items())
    response = await stack.enter_async_context(
        console.server.client.get(
            f"{console.server.url}{path}",
            headers={"Cookie": cookie, **headers},
        )
    )
    assert response.headers["Content-Type"] == "text/event-stream"
    return Stream(response)


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
    late = await opened(console, "projects", since)

    assert await early.next() == await late.next() == "changed-projects"


async def test_a_stream_that_resumes_is_sent_what_it_missed_and_nothing_else(
    console: ConsoleClient, opened: Opened
) -> None:
    await console.send(PROJECTS, "create", name="Old", project_id="old")
    since = await number_of_page(console)
    resumed = await opened(console, "projects,outbox", "0", **{"Last-Event-ID": since})

    await console.send(f"{PROJECTS}/old", "add-type", name="Type")

    assert await resumed.next() == "changed-projects"


async def test_topics_that_nobody_knows_and_numbers_that_are_none_are_ignored(
    console: ConsoleClient, opened: Opened
) -> None:
    stream = await opened(console, "nothing,,projects", "x")

    assert await stream.next() == "changed-projects"


async def test_a_stream_ends_after_its_session(
    console: ConsoleClient, pass_time: PassTime, opened: Opened
) -> None:
    stream = await opened(console, "projects", await number_of_page(console))
    await sign_out_all(console.server)
    ended = asyncio.ensure_future(stream.end())

    await passed_until(ended, pass_time)


async def test_the_streams_of_a_browser_end_when_it_signs_out(console: ConsoleClient, opened: Opened) -> None:
    other = await ConsoleClient(console.server).sign_in()
    since = await number_of_page(console)
    page, others_page = await opened(console, "projects", since), await opened(other, "projects", since)

    async with AsyncExitStack() as stack:
        traffic = await _streamed(stack, console, "/console/traffic/stream")
        assert (await console.send("/console/sign-out", "sign-out")).status == 200
        async with asyncio.timeout(_PATIENCE_SECONDS):
            await page.end()
            await traffic.end()

    await other.send(PROJECTS, "create", name="Later", project_id="later")
    assert await others_page.next() == "changed-projects"


async def test_no_more_streams_than_64(console: ConsoleClient, opened: Opened) -> None:
    since = await number_of_page(console)
    first = await opened(console, "projects", since)
    for _ in range(MOST_WATCHES):
        await opened(console, "projects", since)

    await first.end()


def test_numbers_grow_from_one_run_to_the_next() -> None:
    changes = PageChanges(100, ["a", "b"])
    changes.note("a")

    assert changes.changed(["a", "b"], 100) == ["a"]
    assert changes.changed(["a", "b"], 101) == []
    assert changes.changed(["a", "b"], 7) == ["a", "b"]


def test_changes_of_other_processes_are_noted_and_after_a_gap_every_topic() -> None:
    changes, events = PageChanges(100, ["projects", "wallet"]), Events()
    changes.follow(events, {"projects": (ProjectChanged,), "wallet": ()}, ChangedOutside)

    events.hear(ProjectChanged("app"))
    assert changes.changed(["projects", "wallet"], 100) == ["projects"]

    events.hear_everything()
    assert changes.changed(["projects", "wallet"], 101) == ["projects", "wallet"]


async def test_a_change_by_a_command_beside_the_server_is_announced(
    console: ConsoleClient, opened: Opened
) -> None:
    stream = await opened(console, "outbox", await number_of_page(console))
    await sign_out_all(console.server)  # any commit of another process

    assert await stream.next() == "changed-outbox"


async def test_the_hit_of_a_rule_is_announced(console: ConsoleClient, opened: Opened) -> None:
    await console.send("/console/faults", "add", where="request", route="info", status="503")
    page = await console.page("/console/faults")
    stream = await opened(console, "faults", page.partition("&amp;since=")[2].partition('"')[0])

    await console.get("/info")

    assert await stream.next() == "changed-faults"


async def test_an_open_page_loads_again_with_its_query_and_without_its_notice(console: ConsoleClient) -> None:
    await console.send(PROJECTS, "create", name="Again", project_id="again")

    page = await console.page(f"{PROJECTS}/again?search=a%26b&notice=seen")

    assert f'hx-get="{PROJECTS}/again?search=a%26b"' in page
