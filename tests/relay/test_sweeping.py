"""The walk through a table: on from where it stopped, round and round, past what lives."""

from bisect import bisect_right
from dataclasses import dataclass, field

from bridge_server.relay.models import SweptSlice
from bridge_server.relay.service import Walk
from tests.support.rows import each_row


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


@each_row("living", [set(), {1}, {60}, {1, 2, 30, 59, 60}, set(range(1, 61))])
async def test_one_sweep_deletes_every_expired_row_of_a_small_table(living: set[int]) -> None:
    table = Table(list(range(1, 61)), living)

    await sweep(Walk(table.sweep_slice, span=10))

    assert table.rows == sorted(living)


async def test_an_empty_table_is_looked_at_once() -> None:
    table = Table([])

    await sweep(Walk(table.sweep_slice))

    assert table.slices == [0]


async def test_gaps_between_the_numbers_are_skipped() -> None:
    table = Table([5, 10**9, 10**12], {10**9})

    await sweep(Walk(table.sweep_slice, span=10))

    assert table.rows == [10**9]
    assert len(table.slices) <= 6


async def test_a_sweep_that_passes_many_living_rows_is_continued_by_the_next_one() -> None:
    table = Table(list(range(1, 101)), set(range(1, 101)))
    walk = Walk(table.sweep_slice, span=10, patience=30)

    rounds = []
    for _ in range(4):
        table.slices.clear()
        await sweep(walk)
        rounds.append(table.slices[:])

    assert rounds == [[0, 10, 20], [30, 40, 50], [60, 70, 80], [90, 0, 10]]


async def test_a_row_that_expires_behind_a_stopped_sweep_is_deleted_in_the_next_round() -> None:
    table = Table(list(range(1, 101)), set(range(1, 101)))
    walk = Walk(table.sweep_slice, span=10, patience=30)
    await sweep(walk)
    table.living -= {3, 95}

    for _ in range(4):
        await sweep(walk)

    assert table.rows == sorted(table.living)


async def test_a_round_that_began_in_the_middle_ends_there() -> None:
    table = Table(list(range(1, 101)), set(range(1, 101)))
    walk = Walk(table.sweep_slice, span=10, patience=60)
    await sweep(walk)
    table.living.clear()
    table.slices.clear()

    await sweep(walk)

    assert table.rows == []
    assert table.slices[0] == 60
