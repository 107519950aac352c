"""A stream of several processes is in the order of time, and what it writes has a bound."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest

from bridge_server.admin.other_processes import Neighbours
from bridge_server.admin.traffic_records import EVERYTHING
from bridge_server.admin.traffic_stream import (
    MOST_AT_ONCE,
    MOST_IN_TURN,
    StreamOfAll,
    TrafficStreams,
    WantedStream,
)
from bridge_server.kernel.background import cancelled
from bridge_server.kernel.instants import rfc3339
from bridge_server.kernel.signals import Signals
from bridge_server.storage.database import Process
from bridge_server.web.answers import EventStream, Piece
from bridge_server.web.traffic import Exchange, Recorded, TrafficLog
from tests.support.clock import ManualClock
from tests.support.eventually import eventually

OWN, OTHER = 1, 2


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
        wanted = WantedStream(EVERYTHING, "", None, {OWN: 0, OTHER: 0})
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
        async with asyncio.timeout(20):
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


async def test_requests_of_two_processes_are_written_in_the_order_of_time(following: Following) -> None:
    following.own("/1")
    following.other("/2")
    following.own("/3")
    following.other("/4")
    assert following.paths() == []  # the other process may still have something to send
    await following.arrived()
    assert following.paths() == []

    following.clock.advance(1)

    events = following.pushed()
    assert [orjson.loads(lines[-1].removeprefix("data: "))["path"] for lines in events] == [
        "/1", "/2", "/3", "/4"
    ]  # fmt: skip
    assert [lines[0] for lines in events] == ["id: 1:1,2:0", "id: 1:1,2:1", "id: 1:2,2:1", "id: 1:2,2:2"]
    following.other("/5")
    await following.arrived()
    following.clock.advance(1)
    assert following.paths() == [line("/5", OTHER)]


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
