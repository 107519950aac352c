"""Lists and streams that several processes keep, merged.

White-box: a test has one process.
"""

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
    OpenStream,
    StreamOfAll,
    TrafficStreams,
    WantedStream,
)
from bridge_server.kernel.background import cancelled
from bridge_server.kernel.instants import rfc3339
from bridge_server.kernel.signals import Signals
from bridge_server.relay.models import CallNotFoundError
from bridge_server.storage.database import Process
from bridge_server.web.answers import EventStream, Piece
from bridge_server.web.traffic import Exchange, TrafficLog
from tests.support.clock import ManualClock
from tests.support.rows import each_row
from tests.support.waiting import eventually

OWN, OTHER = 1, 2


@each_row("limit", [1, 2, 3, 4, 8])
def test_every_entry_is_on_one_page_in_the_order_of_its_process(limit: int) -> None:
    # By process and number, the second at which each entry began: a slow request ends after a later one.
    began = {OWN: {1: 10, 2: 40, 3: 20, 4: 50, 5: 30}, OTHER: {1: 35, 2: 15, 3: 45}}

    def page_of(process: int) -> dict[str, Any] | None:
        """The page as one process answers it."""
        query = page_query(cursor, {}, limit, process)
        if query is None:
            return None
        before, most = int(query.get("after", 99)), int(query["limit"])
        numbers = sorted((number for number in began[process] if number < before), reverse=True)
        moments = {each: f"2026-01-01T00:00:{began[process][each]}Z" for each in numbers[:most]}
        entries = [{"number": number, "at": at} for number, at in moments.items()]
        return {"entries": entries, "next": numbers[most - 1] if len(numbers) > most else None}

    shown: list[tuple[int, int]] = []
    after: str | None = ""
    while after is not None:
        cursor = read_cursor(after)
        own, other = page_of(OWN), page_of(OTHER)
        replies = [Reply(OTHER, "", other)] if other is not None else []
        page = merged_page("entries", cursor, OWN, own, replies, limit)
        assert len(page["entries"]) <= limit
        shown += [(each["process"], each["number"]) for each in page["entries"]]
        after = page["next"]

    assert [number for process, number in shown if process == OWN] == [5, 4, 3, 2, 1]
    assert [number for process, number in shown if process == OTHER] == [3, 2, 1]


def step(name: str, second: int, *, about: str = "call") -> dict[str, Any]:
    """A step by a request about the call or about the whole session."""
    request = {"number": second, "call": {"id": "c"} if about == "call" else None}
    return {"step": name, "at": f"2026-01-01T00:00:{second:02}.000Z", "outcome": None, "request": request}


def life(*steps: dict[str, Any], session: str | None = "s") -> dict[str, Any]:
    fields = {"call": {"id": "c"}, "session": session, "state": "answered", "expires_at": None}
    return {**fields, "steps": list(steps)}


def summary(merged: dict[str, Any]) -> list[tuple[str, int | None]]:
    return [(each["step"], each["request"] and each["request"]["process"]) for each in merged["steps"]]


def test_requests_about_the_session_before_and_after_the_call_are_no_steps() -> None:
    asked = step("asked", 10)
    own = life(asked, step("answered", 20))
    other = life(
        step("fetched", 5, about="session"), step("fetched", 15, about="session"),
        step("webhook", 25, about="session"), step("status read", 30),
    )  # fmt: skip

    assert summary(merged_life({OWN: own, OTHER: other})) == [
        ("asked", OWN), ("fetched", OTHER), ("answered", OWN), ("status read", OTHER)
    ]  # fmt: skip
    # A call that is gone is known by the process that recorded it.
    assert summary(merged_life({OTHER: life(asked)})) == [("asked", OTHER)]
    assert merged_life({OWN: life(session=None), OTHER: life(asked)})["session"] == "s"
    with pytest.raises(CallNotFoundError):
        merged_life({})


class Kept:
    """A stream whose batches are kept instead of sent."""

    def __init__(self, stream: OpenStream, monkeypatch: pytest.MonkeyPatch) -> None:
        self._stream = stream
        self.outlet = EventStream(stream)
        self._pieces: list[Piece] = []
        monkeypatch.setattr(self.outlet, "push", self._pieces.append)

    def pushed(self) -> list[list[str]]:
        """The lines of the events of the next batch, without comments."""
        self._pieces.clear()
        self._stream.push()
        text = b"".join(each.plain for each in self._pieces).decode()
        return [event.split("\n") for event in text.split("\n\n") if event]


async def test_of_a_burst_the_newest_are_sent_and_the_others_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    log = TrafficLog(Signals(), ManualClock(), keeps_contents=False)
    stream = TrafficStreams(log, lambda recorded: {"number": recorded.number}).join(Filter(), 0)
    kept = Kept(stream, monkeypatch)
    flowing = asyncio.create_task(stream.flow(kept.outlet))
    await asyncio.sleep(0)
    stream.end()
    await flowing

    def pushed_after(requests: int) -> tuple[int, str]:
        """How many of so many new requests the next batch has, and its last line of data."""
        for _ in range(requests):
            log.note(Exchange("dapp", "GET", "/hello", "hello", 200, 1.0))
        events = kept.pushed()
        return sum("event: request" in lines for lines in events), events[-1][-1] if events else ""

    assert pushed_after(MOST_AT_ONCE - 1) == (MOST_AT_ONCE - 1, 'data: {"number":99}')
    for _ in range(4):
        pushed_after(0)
    assert pushed_after(150) == (MOST_AT_ONCE, 'data: {"changes":50}')
    assert pushed_after(150) == (MOST_IN_TURN, 'data: {"changes":125}')
    assert pushed_after(MOST_IN_TURN)[0] == MOST_IN_TURN
    for _ in range(3):
        pushed_after(0)
    assert pushed_after(150)[0] == MOST_AT_ONCE


class Neighbour(Neighbours):
    """Another process whose lines the test writes."""

    def __init__(self) -> None:
        async def processes() -> Sequence[Process]:
            return [Process(OTHER, "http://other", "1", "running", None, 0.0, False)]

        super().__init__(processes, lambda: OWN, lambda: "token")
        self.written: asyncio.Queue[bytes] = asyncio.Queue()

    @asynccontextmanager
    async def stream(
        self, process: Process, path: str, query: Mapping[str, str]
    ) -> AsyncIterator[AsyncIterable[bytes]]:
        async def lines() -> AsyncIterator[bytes]:
            while True:
                yield await self.written.get()
                self.written.task_done()

        yield lines()


class Following(Kept):
    """A stream of the requests of two processes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = ManualClock()
        self._log = TrafficLog(Signals(), self.clock, keeps_contents=False)
        self.neighbour = Neighbour()
        streams = TrafficStreams(self._log, lambda recorded: {"path": recorded.exchange.path})
        wanted = WantedStream(Filter(), "", None, {OWN: 0, OTHER: 0})
        self.stream = StreamOfAll(streams, self.neighbour, wanted, lambda fields: {"path": fields["path"]})
        super().__init__(self.stream, monkeypatch)
        self._changes = 0

    def own(self, path: str) -> None:
        """The process of the stream records a request now."""
        self.clock.advance(0.01)
        self._log.note(Exchange("dapp", "GET", path, "hello", 200, 0.0))

    def other(self, path: str) -> None:
        """The other process records a request now, and sends it later."""
        self.clock.advance(0.01)
        self._changes += 1
        at = rfc3339(self.clock.now_ms())
        fields = {"change": self._changes, "at": at, "milliseconds": 0.0, "path": path}
        for line in (b"event: request\n", b"data: " + orjson.dumps(fields) + b"\n"):
            self.neighbour.written.put_nowait(line)

    async def pushed_once_read(self) -> list[list[str]]:
        """The events of the next batch, once the other's lines were read."""
        async with asyncio.timeout(60):
            await self.neighbour.written.join()
        self.clock.advance(1)
        return self.pushed()


@pytest.fixture
async def following(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Following]:
    found = Following(monkeypatch)
    flowing = asyncio.create_task(found.stream.flow(found.outlet))
    try:
        yield found
    finally:
        await cancelled([flowing])


async def test_what_is_written_at_once_has_a_bound_for_all_processes_together(following: Following) -> None:
    for number in range(MOST_AT_ONCE):
        following.own(f"/own-{number}")
        following.other(f"/other-{number}")
    *events, skipped = await following.pushed_once_read()
    assert len(events) == MOST_AT_ONCE
    assert (events[0][0], events[-1][0]) == ("id: 1:51,2:50", "id: 1:100,2:100")
    assert skipped == ["event: skipped", 'data: {"changes":100}']
    for number in range(MOST_AT_ONCE):
        following.other(f"/more-{number}")
    assert len(await following.pushed_once_read()) == MOST_IN_TURN + 1


async def test_a_process_that_writes_nonsense_is_read_again(following: Following) -> None:
    for written in (b"event: request\n", b'data: {"change": "x"}\n', b"data: [\n"):
        following.neighbour.written.put_nowait(written)

    async def is_read_again() -> bool:
        if following.neighbour.written.empty():
            following.other("/fine")
        following.clock.advance(1)
        data = [orjson.loads(lines[-1].removeprefix("data: ")) for lines in following.pushed()]
        return {"path": "/fine", "process": OTHER} in data

    await eventually(is_read_again)
