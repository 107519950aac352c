"""The record of requests of all processes as one: followed as events, by polling, and in the console."""

import asyncio
import os
import re
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest

from tests.cluster.processes import (
    UNBOUNDED,
    ClusterProcess,
    answer_of_all,
    known_to_each_other,
    page_of_all,
    processes_over,
)
from tests.support.admin_client import ADMIN_TOKEN, AdminClient
from tests.support.bridge_client import BridgeClient
from tests.support.console_client import ConsoleClient
from tests.support.needs import needs_chromium, needs_test_runners, slow
from tests.support.node_project import run_console_specifications
from tests.support.postgres import PostgresServer, needs_postgres
from tests.support.waiting import eventually

pytestmark = needs_postgres

SETTINGS: dict[str, Any] = {**UNBOUNDED, "admin_token": ADMIN_TOKEN, "console": True, "quota_exempt": "none"}
STREAM = "/admin/traffic/stream"
_SPECIFICATION = Path(__file__).parent / "traffic.spec.js"
PATIENCE_SECONDS = 60.0


@pytest.fixture(scope="module")
def cluster_settings() -> dict[str, Any]:
    """Each test looks at requests of its own."""
    return SETTINGS


class Reader:
    """An open stream of requests."""

    def __init__(self, content: aiohttp.StreamReader) -> None:
        self._content = content
        self.last_id = ""

    async def next(self) -> dict[str, Any]:
        """The next request."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while line := await self._content.readline():
                if line.startswith(b"id: "):
                    self.last_id = line[4:].decode().strip()
                elif line.startswith(b"data: "):
                    found: dict[str, Any] = orjson.loads(line[6:])
                    if "changes" not in found:
                        return found
        raise AssertionError("the stream has ended")

    async def paths(self, count: int) -> list[str]:
        return [(await self.next())["path"] for _ in range(count)]


@asynccontextmanager
async def followed(
    process: ClusterProcess, query: str = "", path: str = STREAM, **headers: str
) -> AsyncIterator[Reader]:
    sent = {"Authorization": f"Bearer {ADMIN_TOKEN}", **headers}
    endless = aiohttp.ClientTimeout(total=None)
    async with process.server.client.get(
        process.url + path + query, headers=sent, timeout=endless
    ) as response:
        assert response.status == 200, await response.text()
        yield Reader(response.content)


async def ask(pair: Sequence[ClusterProcess], word: str, count: int) -> list[str]:
    """Ask both processes in turn for paths that nobody else asks for; the paths in the order of time."""
    paths = [f"/{word}-{number}" for number in range(count)]
    for number, path in enumerate(paths):
        await BridgeClient(pair[number % len(pair)].server).get(path)
    return paths


def in_turn(found: list[dict[str, Any]], numbers: list[int], name: str = "path") -> list[str]:
    """The paths of requests in the order of both, if each process has its own in the order of their coming.

    The clocks of the processes agree to some milliseconds only.
    """
    lists = [[str(each[name]) for each in found if each["process"] == number] for number in numbers]
    assert sum(map(len, lists)) == len(found)
    return [lists[place % 2][place // 2] for place in range(len(found))]


async def test_a_stream_has_the_requests_of_all_processes_and_names_each(
    pair: Sequence[ClusterProcess], numbers: list[int]
) -> None:
    for process in pair:
        async with followed(process, "?filter=in-order") as stream:
            paths = await ask(pair, "in-order", 24)
            found = [await stream.next() for _ in paths]

        assert in_turn(found, numbers) == paths


async def test_a_stream_goes_on_after_an_event_without_a_gap_or_a_repetition_at_either_process(
    pair: Sequence[ClusterProcess],
) -> None:
    async with followed(pair[0], "?filter=resumed") as stream:
        paths = await ask(pair, "resumed", 12)
        first = await stream.paths(5)
        last_id = stream.last_id
    paths += [f"{path}-later" for path in paths[:4]]
    for number, path in enumerate(paths[12:]):
        await BridgeClient(pair[number % 2].server).get(path)

    for process in pair:
        headers = {"Last-Event-ID": last_id}
        async with followed(process, "?filter=resumed", **headers) as stream:
            assert sorted(await stream.paths(11)) == sorted(set(paths) - set(first))
        async with followed(process, f"?filter=resumed&since={last_id}") as stream:
            assert sorted(await stream.paths(11)) == sorted(set(paths) - set(first))


async def test_a_stream_can_be_that_of_one_process(
    pair: Sequence[ClusterProcess], numbers: list[int]
) -> None:
    first, second = pair
    for query, wanted in (
        ("process=own", 0),
        (f"process={numbers[0]}", 0),
        (f"process={numbers[1]}", 1),
    ):
        async with followed(first, f"?filter=of-one&{query}") as stream:
            paths = await ask([first, second], "of-one", 6)
            assert await stream.paths(3) == paths[wanted::2]
            last_id = stream.last_id
            paths = await ask([first, second], "of-one", 2)
        async with followed(first, f"?filter=of-one&{query}&since={last_id}") as stream:
            assert await stream.paths(1) == paths[wanted::2]


async def test_changes_are_polled_of_all_processes(
    pair: Sequence[ClusterProcess], numbers: list[int]
) -> None:
    first, second = pair
    admin = AdminClient(first.server)
    since = (await answer_of_all(first, "/admin/traffic?limit=1"))["last"]
    paths = await ask(pair, "polled", 7)
    seen: list[dict[str, Any]] = []
    while len(seen) < 7:
        page = await answer_of_all(first, f"/admin/traffic?filter=polled&since={since}&limit=3")
        assert 0 < len(page["requests"]) <= 3
        seen, since = seen + page["requests"], page["last"]

    assert in_turn(seen, numbers) == paths
    assert [each["fault"] for each in page["processes"]] == [None, None]
    waiting = asyncio.create_task(admin.get(f"/admin/traffic?filter=polled&since={since}&wait=20"))
    for _ in range(3):  # it would be answered before them
        await answer_of_all(first, "/admin/traffic?limit=1")
    assert not waiting.done()
    await BridgeClient(second.server).get("/polled-at-other")
    news = (await waiting).json
    assert [each["path"] for each in news["requests"]] == ["/polled-at-other"]
    nothing = (await admin.get(f"/admin/traffic?filter=polled&since={news['last']}&wait=0.1")).json
    assert nothing["requests"] == []
    everything = await answer_of_all(first, "/admin/traffic?filter=polled&since=0")
    assert len(everything["requests"]) == 8


def rows(page: str) -> list[str]:
    """The texts of the list's rows, newest first."""
    found = re.findall(r'<tr id="request-[0-9-]+".*?</tr>', page, re.DOTALL)
    return [" ".join(re.sub(r"<[^>]*>", " ", row).split()) for row in found]


async def test_the_console_lists_the_requests_of_all_processes_and_shows_each(
    pair: Sequence[ClusterProcess], numbers: list[int]
) -> None:
    console = await ConsoleClient(pair[0].server).sign_in()
    paths = await ask(pair, "in-console", 4)

    page = await page_of_all(console, "/console/traffic?filter=in-console")

    found = [row.split() for row in reversed(rows(page))]
    assert in_turn([{"process": int(row[3]), "path": row[5]} for row in found], numbers) == paths
    links = re.findall(r'<a href="(/console/traffic/[^"]+)"', page)
    for link, (*_, path) in zip(reversed(links), [row[:6] for row in found], strict=True):
        shown = await console.page(link.replace("&amp;", "&"))
        assert f'<h2 class="mono">GET {path}</h2>' in shown
        process = re.search(r"process=(\d+)", link)
        assert process is not None
        assert f"of process {process[1]}" in shown
        assert 'class="open"' in shown
    assert f"Of 2 processes: {numbers[0]} (this one), {numbers[1]}." in page
    missing = await console.get(f"/console/traffic/999999?process={numbers[1]}")
    assert missing.status == 404
    assert "<live-traffic" in missing.body.decode()


async def test_the_lifetime_of_a_call_goes_across_processes(
    pair: Sequence[ClusterProcess], numbers: list[int]
) -> None:
    dapp, wallet = (BridgeClient(each.server) for each in pair)
    session_id = await dapp.open_session()
    call_id = await dapp.request_call(session_id)
    await wallet.calls(session_id)
    await wallet.answer(call_id)
    await dapp.status(call_id)
    first, second = numbers
    expected = {"asked": first, "fetched": second, "answered": second, "status read": first, "expires": None}

    for process in pair:
        listed = await answer_of_all(process, "/admin/traffic?filter=route:request-call")
        handle = listed["requests"][0]["call"]["handle"]
        life = await answer_of_all(process, f"/admin/traffic/calls/{handle}")
        found = [(each["step"], each["request"] and each["request"]["process"]) for each in life["steps"]]
        assert found[0] == ("asked", first)
        assert sorted(found, key=str) == sorted(expected.items(), key=str)
        assert life["session"]["id"][:8] == session_id[:8]


async def test_a_process_joins_and_leaves_an_open_stream(postgres: PostgresServer, tmp_path: Path) -> None:
    url = await postgres.database("joining")
    async with processes_over(url, tmp_path, **SETTINGS) as pair:
        first, second = pair
        numbers = await known_to_each_other(pair)
        await asyncio.to_thread(second.process.stop)
        async with followed(first, "?filter=joining") as stream:
            await asyncio.to_thread(second.process.start)
            await BridgeClient(second.server).get("/joining-1")  # before it is known here
            joined = await stream.next()
            assert joined["path"] == "/joining-1"
            assert joined["process"] > numbers[1]
            await asyncio.to_thread(second.process.kill)
            await BridgeClient(first.server).get("/joining-2")
            assert (await stream.next())["path"] == "/joining-2"
            await asyncio.to_thread(second.process.start)
            os.kill(second.pid, signal.SIGSTOP)
            try:
                await BridgeClient(first.server).get("/joining-3")
                assert (await stream.next())["path"] == "/joining-3"
            finally:
                os.kill(second.pid, signal.SIGCONT)
            await BridgeClient(second.server).get("/joining-4")
            again = await stream.next()
            assert again["path"] == "/joining-4"
            assert again["process"] > joined["process"]


async def test_without_a_token_the_console_says_what_is_missing(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    url = await postgres.database("tokenless")
    settings = {**UNBOUNDED, "console": True, "quota_exempt": "none"}
    async with processes_over(url, tmp_path, **settings) as pair:
        console = await ConsoleClient(pair[0].server).sign_in()
        await ask(pair, "alone", 2)

        async def is_said() -> bool:
            page = await console.page("/console/traffic?filter=alone")
            return len(rows(page)) == 1 and "by admin_token, which is not set" in page

        await eventually(is_said)
        assert "which is not set" in await console.page("/console/clients")


@slow
@needs_chromium
@needs_test_runners
@pytest.mark.timeout(600)
async def test_a_person_watches_the_traffic_of_two_processes(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    url = await postgres.database("browser")
    settings = {**UNBOUNDED, "admin_token": ADMIN_TOKEN, "console": True}
    async with processes_over(url, tmp_path, **settings) as pair:
        numbers = await known_to_each_other(pair)
        facts = {"urls": [each.url for each in pair], "numbers": numbers}
        files = {"processes.json": orjson.dumps(facts).decode()}
        await run_console_specifications(tmp_path, {_SPECIFICATION: pair[0].server}, files)
