"""Clocks, and token buckets against a plain model of one and at their exact boundaries."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from bridge_server.kernel.clock import MovableClock
from bridge_server.kernel.token_bucket import Limit, per_second, reckoned_anew, spend, whole_seconds
from tests.support.clock import ManualClock

NOW = 1_800_000_000_000_000


@dataclass(slots=True)
class ModelBucket:
    """A bucket as one explains it: it fills while time passes, and the clock going back drains it.

    The level is counted in microseconds of filling, so that parts of a token are whole numbers.
    """

    limit: Limit
    level_us: int
    seen_us: int | None = None

    @property
    def capacity_us(self) -> int:
        return self.limit.burst * self.limit.interval_us

    def take(self, now_us: int, cost: int) -> bool:
        passed_us = 0 if self.seen_us is None else now_us - self.seen_us
        self.level_us = max(0, min(self.capacity_us, self.level_us + passed_us))
        self.seen_us = now_us
        price_us = cost * self.limit.interval_us
        if price_us > self.level_us:
            return False
        self.level_us -= price_us
        return True


limits = st.builds(
    Limit, name=st.just("calls"), burst=st.integers(1, 500), interval_us=st.integers(1, 10_000_000)
)
# In units of the limit's interval, so that a step matters whatever the interval is: back, still, forward.
steps = st.lists(
    st.tuples(st.integers(-3_000, 3_000), st.integers(-2, 2), st.integers(1, 40)), min_size=1, max_size=60
)


@given(limits, steps)
def test_a_bucket_grants_what_the_model_does(limit: Limit, steps: list[tuple[int, int, int]]) -> None:
    model = ModelBucket(limit, level_us=limit.window_us)
    now_us, full_at_us = NOW, 0

    for thousandths, offset_us, cost in steps:
        now_us += thousandths * limit.interval_us // 1_000 + offset_us
        spending = spend(limit, full_at_us, now_us, cost)
        full_at_us = spending.full_at_us
        granted = model.take(now_us, cost)
        missing_us = 0 if granted else cost * limit.interval_us - model.level_us

        assert spending.allowed is granted
        assert spending.remaining == model.level_us // limit.interval_us
        assert spending.retry_after_us == missing_us
        assert spending.reset_us == model.capacity_us - model.level_us


@given(limits, st.integers(0, 10**12), st.integers(1, 500))
def test_a_refused_client_is_served_after_retry_after(limit: Limit, emptied_by_us: int, cost: int) -> None:
    cost = min(cost, limit.burst)
    refused = spend(limit, NOW + min(emptied_by_us, limit.window_us), NOW, cost)
    if not refused.allowed:
        at_us = NOW + refused.retry_after_us
        assert spend(limit, refused.full_at_us, at_us, cost).allowed
        too_soon = spend(limit, refused.full_at_us, at_us - 1, cost)
        assert (too_soon.allowed, too_soon.retry_after_us) == (False, 1)


def test_a_rate_per_second_is_an_interval_of_at_least_a_microsecond() -> None:
    for rate, interval_us in ((1, 1_000_000), (100, 10_000), (1 / 60, 60_000_000), (3, 333_333), (1e9, 1)):
        limit = per_second("calls", rate, burst=7)
        assert limit == Limit("calls", 7, interval_us)
        assert limit.window_us == 7 * interval_us


def test_a_bucket_owes_as_many_tokens_when_its_rate_changes() -> None:
    for owed_us, interval_us, new_interval_us, expected_us in (
        (0, 10, 5, 0),
        (-7, 10, 5, -7),
        (30, 10, 10, 30),
        (30, 10, 5, 15),
        (30, 10, 100, 300),
        (31, 10, 5, 20),
        (1, 10, 5, 5),
    ):
        full_at_us = reckoned_anew(NOW + owed_us, NOW, interval_us, new_interval_us)
        assert full_at_us == NOW + expected_us, (owed_us, new_interval_us)


def test_a_bucket_that_gains_many_tokens_at_once_prices_each_exactly_enough() -> None:
    fine = Limit("bytes", burst=4_096, interval_us=100, gain=1_024)
    assert fine.window_us == 400
    assert [fine.price_us(tokens) for tokens in (0, 1, 10, 11, 1_024, 1_025)] == [0, 1, 1, 2, 100, 101]
    half = spend(fine, 0, NOW, cost=2_048)
    refused = spend(fine, half.full_at_us, NOW, cost=2_049)
    assert (half.allowed, half.remaining, half.reset_us) == (True, 2_048, 200)
    assert (refused.allowed, refused.remaining, refused.retry_after_us) == (False, 2_048, 1)


def test_seconds_are_rounded_up() -> None:
    assert [whole_seconds(us) for us in (0, 1, 999_999, 1_000_000, 1_000_001)] == [0, 1, 1, 1, 2]


def test_a_movable_clock_that_is_set_back_lets_no_time_elapse_and_never_back() -> None:
    clock = MovableClock(ManualClock())
    before_us, elapsed_us = clock.now_us(), clock.elapsed_us()
    clock.set(before_us - 500_000, frozen=False)
    assert (clock.now_us(), clock.elapsed_us()) == (before_us - 500_000, elapsed_us)
