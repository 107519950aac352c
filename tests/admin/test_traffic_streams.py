"""What a stream of requests costs has a bound: requests beyond its allowance are counted, and not sent."""

import asyncio

import pytest

from bridge_server.admin.traffic_records import EVERYTHING
from bridge_server.admin.traffic_stream import MOST_AT_ONCE, MOST_IN_TURN, TrafficStream, TrafficStreams
from bridge_server.kernel.signals import Signals
from bridge_server.web.answers import EventStream, Piece
from bridge_server.web.traffic import Exchange, TrafficLog
from tests.support.clock import ManualClock


class Following:
    """A stream whose batches are kept instead of sent."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.log = TrafficLog(Signals(), ManualClock(), keeps_contents=False)
        streams = TrafficStreams(self.log, lambda recorded: {"number": recorded.number})
        self.stream: TrafficStream = streams.join(EVERYTHING, 0)
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


@pytest.fixture
async def following(monkeypatch: pytest.MonkeyPatch) -> Following:
    found = Following(monkeypatch)
    await found.begin()
    return found


async def test_a_burst_is_sent_whole_up_to_its_bound(following: Following) -> None:
    assert following.pushed_after(MOST_AT_ONCE - 1) == (MOST_AT_ONCE - 1, b'data: {"number":99}')


async def test_of_a_larger_burst_the_newest_are_sent_and_the_others_counted(following: Following) -> None:
    assert following.pushed_after(150) == (MOST_AT_ONCE, b'data: {"changes":50}')


async def test_while_requests_go_on_less_is_sent_in_turn_and_more_again_after_a_pause(
    following: Following,
) -> None:
    following.pushed_after(150)

    assert following.pushed_after(150) == (MOST_IN_TURN, b'data: {"changes":125}')
    assert following.pushed_after(MOST_IN_TURN)[0] == MOST_IN_TURN
    for _ in range(3):
        following.pushed_after(0)
    assert following.pushed_after(150)[0] == MOST_AT_ONCE
