"""Events cross from one process to another, and whatever is lost on the way shows.

White-box: a lost announcement shows to clients only as an answer that comes late.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge_server.kernel.events import Events, EventTexts
from bridge_server.kernel.signals import Key, Touched
from bridge_server.storage.database import Statement, Transaction
from bridge_server.storage.postgres import announcing, listening
from bridge_server.storage.postgres.connection import COMMITS_EARLY, connect
from bridge_server.storage.postgres.database import PostgresDatabase
from bridge_server.storage.postgres.listening import CommitCounts, Listener
from tests.support.postgres import connected
from tests.support.rows import each_row
from tests.support.waiting import eventually

TEXTS = EventTexts([Touched])


@dataclass
class Process:
    """A process, and the keys that it has heard."""

    database: PostgresDatabase
    announcer: announcing.Announcer
    listener: Listener
    heard: list[Key] = field(default_factory=list)
    own: list[Key] = field(default_factory=list)
    gaps: int = 0

    async def touch(self, *keys: Key) -> None:
        def work() -> Transaction[None]:
            yield Statement("INSERT INTO notes (name) VALUES ('a') ON CONFLICT (name) DO NOTHING")
            yield from map(Touched, keys)

        await self.database.transaction(work)

    def gap(self) -> None:
        self.gaps += 1


class DeafWire:
    """A connection whose LISTEN has no effect, as behind a pooler."""

    def __init__(self, wire: Any) -> None:
        self._wire = wire

    def __getattr__(self, name: str) -> Any:
        return getattr(self._wire, name)

    async def add_listener(self, channel: str, _: Callable[..., None]) -> None:
        await self._wire.execute(f"LISTEN {channel}")


@asynccontextmanager
async def running(url: str, *, is_deaf: bool = False) -> AsyncIterator[Process]:
    """A process that does not check for announcements; a deaf one does."""
    events = Events()
    database = PostgresDatabase(url, events, {})

    async def listen() -> Any:
        wire = await connect(url, f"listener {database.number}")
        return DeafWire(wire) if is_deaf else wire

    def announce() -> Any:
        return connect(url, f"announcer {database.number}", is_pooled=False, **COMMITS_EARLY)

    announcer = announcing.Announcer(lambda: database.number, TEXTS, announce)
    database.add_commit_listener(announcer.on_commit)
    async with announcer.announcing(), database.opened():
        listener = Listener(database.number, TEXTS, events, announcer, listen, 0.05 if is_deaf else 1_000.0)
        process = Process(database, announcer, listener)
        events.subscribe(Touched, lambda event: process.heard.append(event.key), everywhere=True)
        events.subscribe(Touched, lambda event: process.own.append(event.key))
        async with listener.listening():
            events.on_gap(process.gap)  # what follows the start
            yield process


@pytest.fixture(autouse=True)
def quick_gaps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gaps are heard at once, and not one a second. A busy machine has time to announce."""
    monkeypatch.setattr(listening, "_EVERYTHING_SECONDS", 0.0)
    monkeypatch.setattr(announcing, "_EXCHANGE_SECONDS", 30.0)


@pytest.fixture
async def writer(url: str) -> AsyncIterator[Process]:
    async with running(url) as process:
        yield process


@pytest.fixture
async def reader(url: str, writer: Process) -> AsyncIterator[Process]:
    async with running(url) as process:
        yield process


async def test_an_event_is_heard_in_another_process_and_no_gap(writer: Process, reader: Process) -> None:
    await writer.touch(("session", "a"))
    await eventually(lambda: reader.heard == [("session", "a")])
    await reader.touch(("calls", "b"))
    await eventually(lambda: ("calls", "b") in writer.heard)
    assert (reader.gaps, writer.gaps) == (0, 0)
    assert reader.own == [("calls", "b")]
    assert writer.heard == [("session", "a"), ("calls", "b")]


async def test_many_events_are_one(writer: Process, reader: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(announcing, "_MOST_EVENTS", 10)
    await writer.touch(*(("session", str(number)) for number in range(11)))
    await eventually(lambda: reader.gaps >= 1)
    assert (reader.gaps, reader.heard) == (1, [])


async def test_unreadable_announcements_mean_everything(reader: Process, writer: Process) -> None:
    unreadable = ['[["Touched"]]', "[[]]", "[7]", '[[["Touched"],1]]']
    number, known = writer.database.number, '["Touched",["session","a"]]'
    async with connected(reader.database.url) as wire:
        await wire.execute(
            "SELECT pg_notify($1, $2)", announcing.CHANNEL, f'[{number},0,0,1,[["Newer",1],{known}]]'
        )
        await eventually(lambda: reader.heard == [("session", "a")])
        assert reader.gaps == 0

        announcements = [f"[{number},0,0,1,{events}]" for events in unreadable]
        for before, payload in enumerate(["", '"*"', "[1,2]", *announcements]):
            assert reader.gaps == before
            await wire.execute("SELECT pg_notify($1, $2)", announcing.CHANNEL, payload)
            await eventually(lambda before=before: reader.gaps > before)  # type: ignore[misc]


async def test_behind_a_pooler_that_swallows_listen_the_ledger_wakes_and_a_trouble_says_why(url: str) -> None:
    async with running(url) as writer, running(url, is_deaf=True) as reader:
        await writer.touch(("session", "a"))
        await eventually(lambda: reader.gaps >= 1)
        await eventually(lambda: bool(reader.listener.troubles))
        assert "database_direct" in reader.listener.troubles[0]
        assert writer.listener.troubles == []
    assert reader.heard == []


TEXTS_OF_EVENTS = st.builds(lambda text, times: text * times, st.text(max_size=5), st.integers(0, 600))
EVENTS = st.lists(st.lists(TEXTS_OF_EVENTS, min_size=1, max_size=3), max_size=30)


@given(EVENTS, st.integers(0, 2**62), st.integers(0, 1_000))
def test_announcements_bring_events_whole_and_in_order(
    events: list[list[str]], since: int, more: int
) -> None:
    payloads = announcing.write_announcement(
        7, 1, since, since + more, [orjson.dumps(event) for event in events]
    )

    announcements = [announcing.read_announcement(payload) for payload in payloads]
    brought = [event for each in announcements for event in each.events]
    assert all(len(payload.encode()) <= announcing.MOST_BYTES for payload in payloads)
    for event, instead in zip(events, brought, strict=True):
        assert instead == event or (
            instead == announcing.ANYTHING and len(orjson.dumps(event)) > announcing.MOST_BYTES - 100
        )
    assert {(each.process, each.lane, each.since) for each in announcements} == {(7, 1, since)}
    assert [each.until for each in announcements] == [since] * (len(announcements) - 1) + [since + more]


def test_a_payload_of_another_format_is_refused() -> None:
    for payload in ("", "no JSON", "{}", "[]", "[1, 0, 1, 2]", '[1, 0, "1", 2, []]', "7"):
        with pytest.raises(announcing.UnreadableAnnouncementError):
            announcing.read_announcement(payload)


# The counts: whatever becomes of announcements, a commit that was not heard of shows within two checks.


QUICK, BULK, NEW = (7, 0), (7, 1), (8, 0)
Place: TypeAlias = tuple[int, int]


def begun(quick: int = 0) -> CommitCounts:
    counts = CommitCounts()
    counts.begin({QUICK: quick, BULK: 0})
    return counts


@each_row(
    ("quick", "steps"),
    [
        (5, [(True, (QUICK, 5, 6)), (True, (QUICK, 6, 9)), (True, (BULK, 0, 1))]),
        (5, [(True, (QUICK, 5, 5)), (True, (QUICK, 5, 5)), (True, (QUICK, 5, 8)), (True, (QUICK, 8, 9))]),
        (9, [(True, (QUICK, 5, 7)), (True, (QUICK, 8, 12)), (True, (QUICK, 12, 13))]),
        (0, [(True, (NEW, 0, 4)), (False, ((9, 0), 3, 4))]),
        (5, [(True, {QUICK: 6, BULK: 0}), (True, (QUICK, 5, 6)), (True, {QUICK: 7, BULK: 0})]),
        (5, [(True, {QUICK: 6, BULK: 0}), (False, {QUICK: 6, BULK: 0}), (True, {QUICK: 6, BULK: 0})]),
        (5, [(True, {QUICK: 5, NEW: 3}), (True, (NEW, 0, 3)), (True, {QUICK: 5}), (False, (NEW, 3, 4))]),
    ],
    ids=[
        "announcements that follow one another leave no gap",
        "parts of an announcement that is larger than a payload leave no gap",
        "an announcement that comes late is no gap and sets nothing back",
        "the first announcement of a new process is no gap",
        "an announcement has until the next check to arrive",
        "a commit that is never announced shows at the second check and only there",
        "a process whose rows are gone is forgotten",
    ],
)
def test_the_ledger_tells_a_gap_from_what_is_on_its_way(
    quick: int, steps: list[tuple[bool, tuple[Place, int, int] | dict[Place, int]]]
) -> None:
    counts = begun(quick)
    found = [counts.compare(each) if isinstance(each, dict) else counts.announced(*each) for _, each in steps]
    assert found == [expected for expected, _ in steps]


def test_counts_that_went_back_with_a_standby_are_the_new_truth() -> None:
    counts = begun(quick=90)
    counts.begin({QUICK: 80, BULK: 0})
    assert counts.compare({QUICK: 80, BULK: 0})
    assert counts.announced(QUICK, 80, 81)


class Lane:
    """A lane whose commits a listener follows. `known` is the count up to which it has heard of them."""

    def __init__(self) -> None:
        self.counts = begun()
        self.written = self.rung = self.known = 0
        self.late: list[tuple[int, int]] = []
        self.before = 0

    def commit(self) -> None:
        self.written += 1

    def lose_an_announcement(self) -> None:
        self.rung = self.written

    def announce_late(self) -> None:
        self.late.append((self.rung, self.written))
        self.rung = self.written

    def announce(self) -> None:
        for since, until in [(self.rung, self.written), *self.late]:
            if not self.counts.announced(QUICK, since, until):
                self.known = self.written
            elif since <= self.known:
                self.known = max(self.known, until)
        self.late, self.rung = [], self.written
        assert self.known == self.written

    def compare(self) -> None:
        if not self.counts.compare({QUICK: self.written, BULK: 0}):
            self.known = self.written
        assert self.known >= self.before
        self.before = self.written


STEPS = [Lane.commit, Lane.lose_an_announcement, Lane.announce_late, Lane.announce, Lane.compare]


@given(st.lists(st.sampled_from(STEPS), max_size=60))
def test_every_commit_is_heard_of_at_the_second_check(steps: list[Callable[[Lane], None]]) -> None:
    lane = Lane()
    for step in steps:
        step(lane)
