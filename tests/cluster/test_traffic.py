"""The record of requests of all processes as one: followed as events, by polling, and in the console."""

import asyncio
import os
import re
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest

from tests.cluster.processes import (
    UNBOUNDED,
    ClusterProcess,
    Pair,
    answer_of_all,
    known_to_each_other,
    once,
    page_of_all,
    processes_over,
)
from tests.support.admin_client import ADMIN_TOKEN, AdminClient
from tests.support.bridge_client import BridgeClient
from tests.support.console_client import ConsoleClient
from tests.support.needs import needs_chromium, needs_test_runners, slow
from tests.support.node_project import run_console_specifications
from tests.support.postgres import needs_postgres

pytestmark = needs_postgres

SETTINGS: dict[str, Any] = {**UNBOUNDED, "admin_token": ADMIN_TOKEN, "console": True, "quota_exempt": "none"}


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
        async with asyncio.timeout(60):
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
async def followed(process: ClusterProcess, query: str, **headers: str) -> AsyncIterator[Reader]:
    async with process.server.client.get(
        f"{process.url}/admin/traffic/stream?filter={query}",
        headers={"Authorization": f"Bearer {ADMIN_TOKEN}", **headers},
        timeout=aiohttp.ClientTimeout(total=None),
    ) as response:
        assert response.status == 200, await response.text()
        yield Reader(response.content)


async def ask(pair: Sequence[ClusterProcess], word: str, count: int) -> list[str]:
    """Ask both processes in turn for paths that nobody else asks for; the paths in the order of time."""
    paths = [f"/{word}-{number}" for number in range(count)]
    for number, path in enumerate(paths):
        await BridgeClient(pair[number % len(pair)].server).get(path)
    return paths


def in_turn(found: list[dict[str, Any]], numbers: list[int]) -> list[str]:
    """The paths of requests in the order of both, if each process has its own in the order of their coming.

    The clocks of the processes agree to some milliseconds only.
    """
    lists = [[str(each["path"]) for each in found if each["process"] == number] for number in numbers]
    assert sum(map(len, lists)) == len(found)
    return [lists[place % 2][place // 2] for place in range(len(found))]


async def test_a_stream_has_the_requests_of_all_processes_and_goes_on_after_an_event_at_either(
    pair: Pair, numbers: list[int]
) -> None:
    """There is neither a gap nor a repetition."""
    for place, process in enumerate(pair):
        word = f"turn-{place}"
        async with followed(process, word) as stream:
            paths = await ask(pair, word, 24)
            found = [await stream.next() for _ in range(5)]
            last_id = stream.last_id
            found += [await stream.next() for _ in paths[5:]]
        assert in_turn(found, numbers) == paths

        missed = {*paths, *await ask(pair, f"{word}-later", 4)} - {each["path"] for each in found[:5]}
        for other in pair:
            async with (
                followed(other, word, **{"Last-Event-ID": last_id}) as by_header,
                followed(other, f"{word}&since={last_id}") as by_query,
            ):
                for resumed in (by_header, by_query):
                    assert sorted(await resumed.paths(len(missed))) == sorted(missed)


async def test_a_stream_can_be_that_of_one_process(pair: Pair, numbers: list[int]) -> None:
    for process, wanted in (("own", 0), (numbers[0], 0), (numbers[1], 1)):
        query = f"of-one&process={process}"
        async with followed(pair[0], query) as stream:
            paths = await ask(pair, "of-one", 6)
            assert await stream.paths(3) == paths[wanted::2]
            last_id = stream.last_id
            paths = await ask(pair, "of-one", 2)
        async with followed(pair[0], f"{query}&since={last_id}") as stream:
            assert await stream.paths(1) == paths[wanted::2]


async def test_changes_are_polled_of_all_processes(pair: Pair, numbers: list[int]) -> None:
    first, second = pair
    admin, polled = AdminClient(first.server), "/admin/traffic?filter=polled"
    since = (await answer_of_all(first, "/admin/traffic?limit=1"))["last"]
    paths = await ask(pair, "polled", 7)
    seen: list[dict[str, Any]] = []
    while len(seen) < 7:
        page = await answer_of_all(first, f"{polled}&since={since}&limit=3")
        assert 0 < len(page["requests"]) <= 3
        seen, since = seen + page["requests"], page["last"]

    assert in_turn(seen, numbers) == paths
    waiting = asyncio.create_task(admin.get(f"{polled}&since={since}&wait=20"))
    for _ in range(3):  # it would be answered before them
        await answer_of_all(first, "/admin/traffic?limit=1")
    assert not waiting.done()
    await BridgeClient(second.server).get("/polled-at-other")
    news = (await waiting).json
    assert [each["path"] for each in news["requests"]] == ["/polled-at-other"]
    nothing = (await admin.get(f"{polled}&since={news['last']}&wait=0.1")).json
    assert nothing["requests"] == []
    everything = await answer_of_all(first, f"{polled}&since=0")
    assert len(everything["requests"]) == 8


def rows(page: str) -> list[str]:
    """The texts of the list's rows, newest first."""
    found = re.findall(r'<tr id="request-[0-9-]+".*?</tr>', page, re.DOTALL)
    return [" ".join(re.sub(r"<[^>]*>", " ", row).split()) for row in found]


async def test_the_console_lists_the_requests_of_all_processes_and_shows_each(
    pair: Pair, numbers: list[int]
) -> None:
    console = await ConsoleClient(pair[0].server).sign_in()
    paths = await ask(pair, "in-console", 4)

    page = await page_of_all(console, "/console/traffic?filter=in-console")

    found = [row.split() for row in reversed(rows(page))]
    assert in_turn([{"process": int(row[3]), "path": row[5]} for row in found], numbers) == paths
    links = re.findall(r'<a href="(/console/traffic/[^"]+)"', page)
    for link, row in zip(reversed(links), found, strict=True):
        shown = await console.page(link.replace("&amp;", "&"))
        assert f'<h2 class="mono">GET {row[5]}</h2>' in shown
        assert f"process={row[3]}" in link
        assert f"of process {row[3]}" in shown
        assert 'class="open"' in shown
    assert f"Of 2 processes: {numbers[0]} (this one), {numbers[1]}." in page
    missing = await console.get(f"/console/traffic/999999?process={numbers[1]}")
    assert missing.status == 404
    assert "<live-traffic" in missing.body.decode()


async def test_the_lifetime_of_a_call_goes_across_processes(pair: Pair, numbers: list[int]) -> None:
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


async def test_a_process_joins_and_leaves_an_open_stream(url: str, tmp_path: Path) -> None:
    async with processes_over(url, tmp_path, **SETTINGS) as (first, second):
        numbers = await known_to_each_other([first, second])
        await asyncio.to_thread(second.process.stop)
        async with followed(first, "joining") as stream:

            async def process_of(asked: ClusterProcess) -> int:
                """The number in the event of a request that this process is asked."""
                path = f"/joining-{asked.process.process.pid}"
                await BridgeClient(asked.server).get(path)
                found = await stream.next()
                assert found["path"] == path
                return int(found["process"])

            await asyncio.to_thread(second.process.start)
            joined = await process_of(second)  # before it is known at the first
            assert joined > numbers[1]
            await asyncio.to_thread(second.process.kill)
            await process_of(first)
            await asyncio.to_thread(second.process.start)
            os.kill(second.pid, signal.SIGSTOP)
            try:
                await process_of(first)
            finally:
                os.kill(second.pid, signal.SIGCONT)
            assert await process_of(second) > joined


async def test_without_a_token_the_console_says_what_is_missing(url: str, tmp_path: Path) -> None:
    settings = {**UNBOUNDED, "console": True, "quota_exempt": "none"}
    async with processes_over(url, tmp_path, **settings) as pair:
        console = await ConsoleClient(pair[0].server).sign_in()
        await ask(pair, "alone", 2)

        await once(
            lambda page: len(rows(page)) == 1 and "by admin_token, which is not set" in page,
            partial(console.page, "/console/traffic?filter=alone"),
        )
        assert "which is not set" in await console.page("/console/clients")


@slow
@needs_chromium
@needs_test_runners
@pytest.mark.timeout(600)
async def test_a_person_watches_the_traffic_of_two_processes(url: str, tmp_path: Path) -> None:
    settings = {**UNBOUNDED, "admin_token": ADMIN_TOKEN, "console": True}
    async with processes_over(url, tmp_path, **settings) as pair:
        facts = {"urls": [each.url for each in pair], "numbers": await known_to_each_other(pair)}
        files = {"processes.json": orjson.dumps(facts).decode()}
        specification = Path(__file__).parent / "traffic.spec.js"
        await run_console_specifications(tmp_path, {specification: pair[0].server}, files)
