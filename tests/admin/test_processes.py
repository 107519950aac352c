"""Lists and streams that several processes keep, merged; white-box, since a test has one process."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest

from bridge_server.admin.other_processes import Neighbours, Reply, merged_page, page_query, read_cursor
from bridge_server.admin.traffic_records import Filter, merged_life
from bridge_server.admin.traffic_stream import (
    MOST_AT_ONCE,
    MOST_IN_TURN,
    StreamOfAll,
    TrafficStream,
    TrafficStreams,
    WantedStream,
)
from bridge_server.kernel.background import cancelled
from bridge_server.kernel.instants import rfc3339
from bridge_server.kernel.signals import Signals
from bridge_server.relay.models import CallNotFoundError
from bridge_server.storage.database import Process
from bridge_server.web.answers import EventStream, Piece
from bridge_server.web.traffic import Exchange, Recorded, TrafficLog
from tests.support.clock import ManualClock
from tests.support.rows import each_row
from tests.support.waiting import eventually

OWN, OTHER = 1, 2
BEGAN = {OWN: {1: 10, 2: 40, 3: 20, 4: 50, 5: 30}, OTHER: {1: 35, 2: 15, 3: 45}}
"""By process and number, the second at which each entry began: a slow request ends after a later one."""


def page_of(process: int, query: dict[str, str]) -> dict[str, Any]:
    """A page as one process answers it."""
    before, limit = int(query.get("after", 99)), int(query["limit"])
    numbers = sorted((number for number in BEGAN[process] if number < before), reverse=True)
    entries = [
        {"number": each, "at": f"2026-01-01T00:00:{BEGAN[process][each]}Z"} for each in numbers[:limit]
    ]
    return {"entries": entries, "next": entries[-1]["number"] if len(numbers) > limit else None}


@each_row("limit", [1, 2, 3, 4, 8])
def test_every_entry_is_on_one_page_in_the_order_of_its_process(limit: int) -> None:
    shown: list[tuple[int, int]] = []
    after: str | None = ""
    while after is not None:
        cursor = read_cursor(after)
        queries = {each: page_query(cursor, {}, limit, each) for each in (OWN, OTHER)}
        own, other = (
            None if query is None else page_of(each, dict(query)) for each, query in queries.items()
        )
        replies = [Reply(OTHER, "", other)] if other is not None else []
        page = merged_page("entries", cursor, OWN, own, replies, limit)
        assert len(page["entries"]) <= limit
        shown += [(each["process"], each["number"]) for each in page["entries"]]
        after = page["next"]

    assert [number for process, number in shown if process == OWN] == [5, 4, 3, 2, 1]
    assert [number for process, number in shown if process == OTHER] == [3, 2, 1]


def step(name: str, second: int, *, about: str | None = None) -> dict[str, Any]:
    """A step by a request about the call or, for "session", about the whole session; or by none."""
    request = {"number": second, "call": {"id": "c"} if about == "call" else None}
    return {
        "step": name,
        "at": f"2026-01-01T00:00:{second:02}.000Z",
        "outcome": None,
        "request": None if about is None else request,
    }


def life(*steps: dict[str, Any], session: str | None = "s") -> dict[str, Any]:
    return {
        "call": {"id": "c"},
        "session": session,
        "state": "answered",
        "expires_at": None,
        "steps": list(steps),
    }


def summary(merged: dict[str, Any]) -> list[tuple[str, int | None]]:
    return [(each["step"], each["request"] and each["request"]["process"]) for each in merged["steps"]]


def test_requests_about_the_session_before_and_after_the_call_are_no_steps() -> None:
    own = life(step("asked", 10, about="call"), step("answered", 20, about="call"))
    other = life(
        step("fetched", 5, about="session"), step("fetched", 15, about="session"),
        step("webhook", 25, about="session"), step("status read", 30, about="call"),
    )  # fmt: skip

    assert summary(merged_life({OWN: own, OTHER: other})) == [
        ("asked", OWN), ("fetched", OTHER), ("answered", OWN), ("status read", OTHER)
    ]  # fmt: skip


def test_a_call_that_is_gone_is_known_by_the_process_that_recorded_it() -> None:
    other = life(step("asked", 10, about="call"))

    assert summary(merged_life({OTHER: other})) == [("asked", OTHER)]
    assert merged_life({OWN: life(session=None), OTHER: other})["session"] == "s"
    with pytest.raises(CallNotFoundError):
        merged_life({})


class Burst:
    """A stream whose batches are kept instead of sent."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.log = TrafficLog(Signals(), ManualClock(), keeps_contents=False)
        streams = TrafficStreams(self.log, lambda recorded: {"number": recorded.number})
        self.stream: TrafficStream = streams.join(Filter(), 0)
        self._outlet = EventStream(self.stream)
        self._pieces: list[Piece] = []
        monkeypatch.setattr(self._outlet, "push", self._pieces.append)

    async def begin(self) -> None:
        flowing = asyncio.create_task(self.stream.flow(self._outlet))
        await asyncio.sleep(0)
        self.stream.end()
        await flowing

    def pushed_after(self, requests: int) -> tuple[int, bytes]:
        """How many of so many new requests the next batch has, and its last line of data."""
        for _ in range(requests):
            self.log.note(Exchange("dapp", "GET", "/hello", "hello", 200, 1.0))
        self._pieces.clear()
        self.stream.push()
        written = b"".join(each.plain for each in self._pieces)
        return written.count(b"event: request\n"), written.strip().rpartition(b"\n")[2]


async def test_of_a_burst_the_newest_are_sent_and_the_others_counted_fewer_while_it_lasts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    burst = Burst(monkeypatch)
    await burst.begin()

    assert burst.pushed_after(MOST_AT_ONCE - 1) == (MOST_AT_ONCE - 1, b'data: {"number":99}')
    for _ in range(4):
        burst.pushed_after(0)
    assert burst.pushed_after(150) == (MOST_AT_ONCE, b'data: {"changes":50}')
    assert burst.pushed_after(150) == (MOST_IN_TURN, b'data: {"changes":125}')
    assert burst.pushed_after(MOST_IN_TURN)[0] == MOST_IN_TURN
    for _ in range(3):
        burst.pushed_after(0)
    assert burst.pushed_after(150)[0] == MOST_AT_ONCE


async def processes() -> Sequence[Process]:
    return [Process(OTHER, "http://other", "1", "running", None, 0.0, False)]


class Neighbour(Neighbours):
    """Another process whose lines the test writes."""

    def __init__(self) -> None:
        super().__init__(processes, lambda: OWN, lambda: "token")
        self.written: asyncio.Queue[bytes] = asyncio.Queue()

    @asynccontextmanager
    async def stream(
        self, process: Process, path: str, query: Mapping[str, str]
    ) -> AsyncIterator[AsyncIterable[bytes]]:
        yield self._lines()

    async def _lines(self) -> AsyncIterator[bytes]:
        while True:
            line = await self.written.get()
            yield line
            self.written.task_done()


def spelled(recorded: Recorded) -> dict[str, Any]:
    return {"path": recorded.exchange.path}


class Following:
    """A stream whose batches are kept instead of sent."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = ManualClock()
        self.log = TrafficLog(Signals(), self.clock, keeps_contents=False)
        self.neighbour = Neighbour()
        streams = TrafficStreams(self.log, spelled)
        wanted = WantedStream(Filter(), "", None, {OWN: 0, OTHER: 0})
        self.stream = StreamOfAll(streams, self.neighbour, wanted, lambda fields: {"path": fields["path"]})
        self.pieces: list[Piece] = []
        self.outlet = EventStream(self.stream)
        self._changes = 0
        monkeypatch.setattr(self.outlet, "push", self.pieces.append)

    def own(self, path: str) -> None:
        """The process of the stream records a request now."""
        self.clock.advance(0.01)
        self.log.note(Exchange("dapp", "GET", path, "hello", 200, 0.0))

    def other(self, path: str) -> None:
        """The other process records a request now, and sends it later."""
        self.clock.advance(0.01)
        self._changes += 1
        fields = {
            "change": self._changes, "at": rfc3339(self.clock.now_ms()), "milliseconds": 0.0, "path": path
        }  # fmt: skip
        for line in (b"event: request\n", b"data: " + orjson.dumps(fields) + b"\n"):
            self.neighbour.written.put_nowait(line)

    async def arrived(self) -> None:
        """Return once the other's lines were read."""
        async with asyncio.timeout(60):
            await self.neighbour.written.join()

    def pushed(self) -> list[list[str]]:
        """The lines of the events of the next batch, without comments."""
        self.pieces.clear()
        self.stream.push()
        text = b"".join(each.plain for each in self.pieces).decode()
        return [event.split("\n") for event in text.split("\n\n") if event]

    def paths(self) -> list[str]:
        """The paths of the next batch, and how many requests it leaves out."""
        return [str(orjson.loads(lines[-1].removeprefix("data: "))) for lines in self.pushed()]


@pytest.fixture
async def following(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Following]:
    found = Following(monkeypatch)
    flowing = asyncio.create_task(found.stream.flow(found.outlet))
    try:
        yield found
    finally:
        await cancelled([flowing])


def line(path: str, process: int) -> str:
    return str({"path": path, "process": process})


async def test_what_is_written_at_once_has_a_bound_for_all_processes_together(following: Following) -> None:
    for number in range(MOST_AT_ONCE):
        following.own(f"/own-{number}")
        following.other(f"/other-{number}")
    await following.arrived()
    following.clock.advance(1)

    *events, skipped = following.pushed()

    assert len(events) == MOST_AT_ONCE
    assert events[0][0] == "id: 1:51,2:50"
    assert events[-1][0] == "id: 1:100,2:100"
    assert skipped == ["event: skipped", 'data: {"changes":100}']
    for number in range(MOST_AT_ONCE):
        following.other(f"/more-{number}")
    await following.arrived()
    following.clock.advance(1)
    assert len(following.paths()) == MOST_IN_TURN + 1


async def test_a_process_that_writes_nonsense_is_read_again(following: Following) -> None:
    for written in (b"event: request\n", b'data: {"change": "x"}\n', b"data: [\n"):
        following.neighbour.written.put_nowait(written)

    async def is_read_again() -> bool:
        if following.neighbour.written.empty():
            following.other("/fine")
        following.clock.advance(1)
        return line("/fine", OTHER) in following.paths()

    await eventually(is_read_again)
