"""How long sessions, calls and statuses live, and the walk that deletes them.

The walk is held against a table in memory, because a server shows only its end.
"""

from bisect import bisect_right
from dataclasses import dataclass, field
from pathlib import Path

from bridge_server.relay.models import SweptSlice
from bridge_server.relay.service import Walk
from tests.relay.test_sessions import MOVES, Move, every_move
from tests.support.asking import METRICS_TOKEN, figure
from tests.support.bridge_client import BridgeClient
from tests.support.rows import each_row
from tests.support.server import running_server
from tests.support.waiting import eventually

_HOUR = 3600
_DAY = 24 * _HOUR
_MS = 0.001


@every_move
async def test_a_session_lives_a_day(bridge: BridgeClient, move: Move) -> None:
    before, after = await bridge.open_session(), await bridge.open_session()
    await bridge.session(after)
    await bridge.calls(after)
    bridge.clock.advance(_DAY - _MS)
    alive = await move(bridge, before)
    bridge.clock.advance(_MS)
    gone = await move(bridge, after)

    assert move is MOVES["read a call"] or alive.status in (200, 204)
    gone.problem(404)


@each_row("move", ["update", "post a call"], empties=True)
async def test_an_update_and_a_call_prolong_the_session(bridge: BridgeClient, move: str) -> None:
    session_id = await bridge.open_session()
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
        call_id = await bridge.request_call(await bridge.open_session())
        for seconds in (19, 9):
            server.clock.advance(seconds)
            await bridge.answer(call_id)

        server.clock.advance(2 - _MS)
        assert (await bridge.status(call_id)).status == 200
        server.clock.advance(_MS)
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


async def test_a_call_and_a_status_live_an_hour_each(bridge: BridgeClient, session_id: str) -> None:
    call_id, late = [await bridge.request_call(session_id) for _ in range(2)]
    bridge.clock.advance(_HOUR - _MS)
    assert await bridge.pending(session_id) == [call_id, late]
    assert (await bridge.call(session_id, call_id)).status == 200
    assert (await bridge.status(call_id)).status == 204
    await bridge.answer(late, "late")
    bridge.clock.advance(_MS)
    assert await bridge.pending(session_id) == []
    (await bridge.call(session_id, call_id)).problem(404)

    bridge.clock.advance(_HOUR - 2 * _MS)
    assert (await bridge.answer(late, "later still")).status == 200
    bridge.clock.advance(_HOUR - _MS)
    assert (await bridge.status(late)).json == {"encryptionPayload": "later still"}
    bridge.clock.advance(_MS)
    assert await bridge.pending(session_id) == []
    for ended in (call_id, late):
        (await bridge.answer(ended)).problem(404)
        (await bridge.status(ended)).problem(404)


async def test_a_sweep_deletes_expired_rows_and_no_living_ones(tmp_path: Path) -> None:
    tables = ["sessions", "calls", "call_statuses", "topic_webhooks"]
    async with running_server(tmp_path, sweep_interval=0.01, metrics_token=METRICS_TOKEN) as server:
        bridge = BridgeClient(server)

        async def rows_after_sweeps() -> dict[str, int]:
            """The numbers of rows once all has been swept: ten commits at least, and twice in turn."""
            enough = await figure(server, "database_commits_total") + 2 * 10

            async def are_made() -> bool:
                return await figure(server, "database_commits_total") >= enough

            await eventually(are_made)
            return {table: server.rows(f"SELECT count(*) FROM {table}")[0][0] for table in tables}

        session_id = await bridge.open_session()
        open_call, answered = [await bridge.request_call(session_id) for _ in range(2)]
        await bridge.subscribe(session_id, "https://example.org/hook")
        server.clock.advance(_HOUR - _MS)
        await bridge.answer(answered, "late")

        server.clock.advance(_HOUR - _MS)
        await rows_after_sweeps()
        assert (await bridge.status(answered)).json == {"encryptionPayload": "late"}
        server.clock.advance(_DAY - 2 * _HOUR + 2 * _MS)
        assert await rows_after_sweeps() == {**dict.fromkeys(tables, 0), "topic_webhooks": 1}
        (await bridge.status(open_call)).problem(404)
        server.clock.advance(30 * _DAY)
        assert await rows_after_sweeps() == dict.fromkeys(tables, 0)


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


async def test_one_sweep_deletes_every_expired_row_of_a_small_table() -> None:
    for living in (set[int](), {1, 2, 30, 59, 60}, set(range(1, 61))):
        table = Table(list(range(1, 61)), living)
        await sweep(Walk(table.sweep_slice, span=10))

        assert table.rows == sorted(living)


async def test_a_sweep_past_many_living_rows_is_continued_by_the_next_one() -> None:
    table = Table(list(range(1, 101)), set(range(1, 101)))
    walk = Walk(table.sweep_slice, span=10, patience=30)

    for passed in ([0, 10, 20], [30, 40, 50], [60, 70, 80], [90, 0, 10]):
        table.slices.clear()
        await sweep(walk)
        assert table.slices == passed

    table.living.clear()
    table.slices.clear()
    await sweep(walk)
    assert table.rows == []
    assert table.slices[0] == 20
