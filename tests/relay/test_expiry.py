"""How long sessions, calls and statuses live, and the walk that deletes them.

The walk is held against a table in memory, because a server shows only its end.
"""

from bisect import bisect_right
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from bridge_server.relay.models import SweptSlice
from bridge_server.relay.service import Walk
from tests.relay.test_sessions import MOVES, Move, every_move
from tests.support.asking import METRICS_TOKEN, figure
from tests.support.bridge_client import BridgeClient
from tests.support.rows import each_row
from tests.support.server import RunningServer, running_server
from tests.support.waiting import eventually

# How long sessions, calls and statuses live: alive one millisecond before the end, gone at it.

_HOUR = 3600
_DAY = 24 * _HOUR
_MS = 0.001
_SWEEPS = 10  # no fewer than the server has: each commits at least once in turn
_TABLES = ["sessions", "calls", "call_statuses", "topic_webhooks"]


@every_move
async def test_a_session_lives_a_day(bridge: BridgeClient, move: Move) -> None:
    before, after = await bridge.open_session(), await bridge.open_session()
    is_unknown_anyway = move is MOVES["read a call"]
    await bridge.session(after)
    await bridge.calls(after)

    bridge.clock.advance(_DAY - _MS)
    alive = await move(bridge, before)
    bridge.clock.advance(_MS)
    gone = await move(bridge, after)

    assert is_unknown_anyway or alive.status in (200, 204)
    gone.problem(404)


@pytest.mark.parametrize("move", ["update", "post a call"])
async def test_an_update_and_a_call_prolong_the_session(
    bridge: BridgeClient, session_id: str, move: str
) -> None:
    bridge.clock.advance(_DAY - _MS)
    await MOVES[move](bridge, session_id)

    bridge.clock.advance(_DAY - _MS)
    assert (await bridge.session(session_id)).status in (200, 204)
    bridge.clock.advance(_MS)
    (await bridge.session(session_id)).problem(404)
    (await bridge.calls(session_id)).problem(404)


@each_row(
    ("lifetime", "too_little", "enough"), [(_DAY, 60, 60 + _MS), (600, 10, 10 + _MS), (20, 0.333, 0.334)]
)
async def test_a_call_prolongs_its_session_only_by_a_minute_or_a_sixtieth_of_a_short_life(
    tmp_path: Path, lifetime: int, too_little: float, enough: float
) -> None:
    async with running_server(tmp_path, session_ttl=lifetime, call_ttl=5, status_ttl=5) as server:
        bridge, lives = BridgeClient(server), []
        for idle in (too_little, enough):
            session_id = await bridge.open_session()
            server.clock.advance(idle)
            await bridge.request_call(session_id)
            server.clock.advance(lifetime - idle - _MS)
            assert (await bridge.session(session_id)).status == 204
            server.clock.advance(_MS)
            lives.append((await bridge.session(session_id)).status)

        assert lives == [404, 204]


async def test_a_session_is_prolonged_by_less_than_that_if_it_would_end_before_a_status(
    tmp_path: Path,
) -> None:
    async with running_server(tmp_path, session_ttl=600, call_ttl=300, status_ttl=300) as server:
        bridge = BridgeClient(server)
        session_id = await bridge.open_session()
        server.clock.advance(9)
        call_id = await bridge.request_call(session_id)
        server.clock.advance(300 - _MS)
        await bridge.answer(call_id)

        server.clock.advance(300 - _MS)

        assert (await bridge.status(call_id)).status == 200


async def test_a_status_that_was_read_is_gone_with_its_session(tmp_path: Path) -> None:
    async with running_server(tmp_path, session_ttl=30, call_ttl=20, status_ttl=10) as server:
        bridge = BridgeClient(server)
        session_id = await bridge.open_session()
        call_id = await bridge.request_call(session_id)
        for seconds in (19, 9):
            server.clock.advance(seconds)
            await bridge.answer(call_id)

        server.clock.advance(2 - _MS)
        read = await bridge.status(call_id)
        server.clock.advance(_MS)

        assert read.status == 200
        (await bridge.status(call_id)).problem(404)


async def test_reading_and_answering_do_not_prolong_the_session(
    bridge: BridgeClient, session_id: str
) -> None:
    call_id = await bridge.request_call(session_id)
    bridge.clock.advance(_HOUR - _MS)
    await bridge.answer(call_id)
    await bridge.session(session_id)
    await bridge.calls(session_id)
    await bridge.call(session_id, call_id)
    await bridge.status(call_id)

    bridge.clock.advance(_DAY - _HOUR + _MS)

    (await bridge.session(session_id)).problem(404)


async def test_a_call_lives_an_hour(bridge: BridgeClient, session_id: str) -> None:
    call_id = await bridge.request_call(session_id)
    bridge.clock.advance(_HOUR - _MS)
    assert await bridge.pending(session_id) == [call_id]
    assert (await bridge.call(session_id, call_id)).status == 200
    assert (await bridge.status(call_id)).status == 204

    bridge.clock.advance(_MS)

    assert await bridge.pending(session_id) == []
    (await bridge.call(session_id, call_id)).problem(404)
    (await bridge.status(call_id)).problem(404)
    (await bridge.answer(call_id)).problem(404)


async def test_a_status_can_be_replaced_while_it_can_be_read(bridge: BridgeClient, session_id: str) -> None:
    call_id = await bridge.request_call(session_id)
    bridge.clock.advance(_HOUR - _MS)
    await bridge.answer(call_id, "late")

    bridge.clock.advance(_HOUR - _MS)
    replaced = await bridge.answer(call_id, "later still")
    bridge.clock.advance(_HOUR - _MS)
    read = await bridge.status(call_id)
    bridge.clock.advance(_MS)

    assert replaced.status == 200
    assert read.json == {"encryptionPayload": "later still"}
    assert await bridge.pending(session_id) == []
    (await bridge.answer(call_id)).problem(404)
    (await bridge.status(call_id)).problem(404)


async def _sweep_twice(server: RunningServer) -> None:
    before = await figure(server, "database_commits_total")

    async def swept_twice() -> bool:
        return await figure(server, "database_commits_total") >= before + 2 * _SWEEPS

    await eventually(swept_twice)


def _rows(server: RunningServer) -> dict[str, int]:
    return {table: server.rows(f"SELECT count(*) FROM {table}")[0][0] for table in _TABLES}


async def test_a_sweep_deletes_expired_rows_and_no_living_ones(tmp_path: Path) -> None:
    async with running_server(tmp_path, sweep_interval=0.01, metrics_token=METRICS_TOKEN) as server:
        bridge = BridgeClient(server)
        session_id = await bridge.open_session()
        open_call, answered = [await bridge.request_call(session_id) for _ in range(2)]
        await bridge.subscribe(session_id, "https://example.org/hook")
        server.clock.advance(_HOUR - _MS)
        await bridge.answer(answered, "late")

        server.clock.advance(_HOUR - _MS)
        await _sweep_twice(server)
        status = await bridge.status(answered)
        server.clock.advance(_DAY - 2 * _HOUR + 2 * _MS)
        await _sweep_twice(server)
        (await bridge.status(open_call)).problem(404)
        without_session = _rows(server)
        server.clock.advance(30 * _DAY)
        await _sweep_twice(server)

        assert status.json == {"encryptionPayload": "late"}
        assert without_session == {**dict.fromkeys(_TABLES, 0), "topic_webhooks": 1}
        assert _rows(server) == dict.fromkeys(_TABLES, 0)


# The walk through a table: on from where it stopped, round and round, past what lives.


@dataclass
class Table:
    """Numbers of rows, and which of them live."""

    rows: list[int]
    living: set[int] = field(default_factory=set)
    slices: list[int] = field(default_factory=list)

    async def sweep_slice(self, now_ms: int, after: int, span: int, limit: int) -> SweptSlice:
        self.slices.append(after)
        expired = [n for n in self.rows if after < n <= after + span and n not in self.living][:limit]
        self.rows = [number for number in self.rows if number not in expired]
        if len(expired) == limit:
            return SweptSlice(limit, expired[-1])
        following = self.rows[bisect_right(self.rows, after + span) :]
        return SweptSlice(len(expired), following[0] - 1 if following else None)


async def sweep(walk: Walk) -> None:
    """As the sweeper does, but for the pauses."""
    while await walk.sweep(0):
        pass


@each_row("living", [set(), {1, 2, 30, 59, 60}, set(range(1, 61))])
async def test_one_sweep_deletes_every_expired_row_of_a_small_table(living: set[int]) -> None:
    table = Table(list(range(1, 61)), living)

    await sweep(Walk(table.sweep_slice, span=10))

    assert table.rows == sorted(living)


async def test_a_sweep_that_passes_many_living_rows_is_continued_by_the_next_one() -> None:
    table = Table(list(range(1, 101)), set(range(1, 101)))
    walk = Walk(table.sweep_slice, span=10, patience=30)

    rounds = []
    for _ in range(4):
        table.slices.clear()
        await sweep(walk)
        rounds.append(table.slices[:])

    assert rounds == [[0, 10, 20], [30, 40, 50], [60, 70, 80], [90, 0, 10]]


async def test_a_round_that_began_in_the_middle_ends_there() -> None:
    table = Table(list(range(1, 101)), set(range(1, 101)))
    walk = Walk(table.sweep_slice, span=10, patience=60)
    await sweep(walk)
    table.living.clear()
    table.slices.clear()

    await sweep(walk)

    assert table.rows == []
    assert table.slices[0] == 60
