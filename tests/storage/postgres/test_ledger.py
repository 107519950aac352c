"""The ledger: whatever becomes of rings, a commit that was not heard of shows within two looks."""

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from bridge_server.storage.postgres.listening import Ledger

QUICK, BULK = (7, 0), (7, 1)


def begun(**written: int) -> Ledger:
    ledger = Ledger()
    ledger.begin({QUICK: written.get("quick", 0), BULK: written.get("bulk", 0)})
    return ledger


def test_rings_that_follow_one_another_leave_no_gap() -> None:
    ledger = begun(quick=5)

    assert ledger.ring(QUICK, 5, 6)
    assert ledger.ring(QUICK, 6, 9)
    assert ledger.ring(BULK, 0, 1)


def test_parts_of_a_ring_that_is_larger_than_a_payload_leave_no_gap() -> None:
    ledger = begun(quick=5)

    assert ledger.ring(QUICK, 5, 5)
    assert ledger.ring(QUICK, 5, 5)
    assert ledger.ring(QUICK, 5, 8)
    assert ledger.ring(QUICK, 8, 9)


def test_a_ring_that_begins_above_what_was_heard_shows_a_gap_once() -> None:
    ledger = begun(quick=5)

    assert not ledger.ring(QUICK, 6, 9)
    assert ledger.ring(QUICK, 9, 10)


def test_a_ring_that_comes_late_is_no_gap_and_sets_nothing_back() -> None:
    ledger = begun(quick=9)

    assert ledger.ring(QUICK, 5, 7)
    assert ledger.ring(QUICK, 8, 12)
    assert ledger.ring(QUICK, 12, 13)


def test_the_first_ring_of_a_new_process_is_no_gap() -> None:
    ledger = begun()

    assert ledger.ring((8, 0), 0, 4)
    assert not ledger.ring((9, 0), 3, 4)


def test_a_ring_has_until_the_next_look_to_arrive() -> None:
    ledger = begun(quick=5)

    assert ledger.look({QUICK: 6, BULK: 0})
    assert ledger.ring(QUICK, 5, 6)
    assert ledger.look({QUICK: 7, BULK: 0})


def test_a_commit_that_never_rings_shows_at_the_second_look_and_only_there() -> None:
    ledger = begun(quick=5)

    assert ledger.look({QUICK: 6, BULK: 0})
    assert not ledger.look({QUICK: 6, BULK: 0})
    assert ledger.look({QUICK: 6, BULK: 0})


def test_a_lane_that_is_always_ahead_by_what_is_on_its_way_is_not_behind() -> None:
    ledger = begun(quick=0)

    for count in range(1, 50):
        assert ledger.look({QUICK: count, BULK: 0})
        assert ledger.ring(QUICK, count - 1, count)


def test_a_lane_that_never_rings_shows_while_others_do() -> None:
    ledger, gaps = begun(), 0

    for count in range(1, 50):
        gaps += not ledger.look({QUICK: count, BULK: count})
        ledger.ring(BULK, count - 1, count)

    assert gaps >= 24


def test_a_process_whose_rows_are_gone_is_forgotten() -> None:
    ledger = begun(quick=5)
    assert ledger.look({QUICK: 5, (8, 0): 3})
    ledger.ring((8, 0), 0, 3)

    assert ledger.look({QUICK: 5})
    assert not ledger.ring((8, 0), 3, 4)


def test_counts_that_went_back_with_a_standby_are_the_new_truth() -> None:
    ledger = begun(quick=90)

    ledger.begin({QUICK: 80, BULK: 0})

    assert ledger.look({QUICK: 80, BULK: 0})
    assert ledger.ring(QUICK, 80, 81)


class Lane:
    """A lane whose commits a listener follows. `known` is the count up to which it has heard of them."""

    def __init__(self) -> None:
        self.ledger = begun()
        self.written = self.rung = self.known = 0
        self.late: list[tuple[int, int]] = []
        self.before = 0

    def commit(self) -> None:
        self.written += 1

    def lose_a_ring(self) -> None:
        self.rung = self.written

    def ring_late(self) -> None:
        self.late.append((self.rung, self.written))
        self.rung = self.written

    def ring(self) -> None:
        for since, until in [(self.rung, self.written), *self.late]:
            if not self.ledger.ring(QUICK, since, until):
                self.known = self.written
            elif since <= self.known:
                self.known = max(self.known, until)
        self.late, self.rung = [], self.written
        assert self.known == self.written

    def look(self) -> None:
        if not self.ledger.look({QUICK: self.written, BULK: 0}):
            self.known = self.written
        assert self.known >= self.before
        self.before = self.written


STEPS = [Lane.commit, Lane.lose_a_ring, Lane.ring_late, Lane.ring, Lane.look]


@given(st.lists(st.sampled_from(STEPS), max_size=60))
def test_every_commit_is_heard_of_at_the_second_look_after_it_at_the_latest(
    steps: list[Callable[[Lane], None]],
) -> None:
    lane = Lane()

    for step in steps:
        step(lane)
