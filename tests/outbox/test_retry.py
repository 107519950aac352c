from hypothesis import given
from hypothesis import strategies as st

from bridge_server.outbox.delivery import DELAYS_SECONDS, next_delay_ms
from tests.support.rows import each_row

MIDDLE = 0.5


def test_the_delays_grow_and_make_up_about_a_day() -> None:
    assert sorted(DELAYS_SECONDS) == list(DELAYS_SECONDS)
    assert DELAYS_SECONDS[0] == 5
    assert 23 * 3_600 < sum(DELAYS_SECONDS) < 25 * 3_600


@each_row(("attempts", "seconds"), list(enumerate(DELAYS_SECONDS, start=1)))
def test_each_failure_has_its_delay(attempts: int, seconds: int) -> None:
    assert next_delay_ms(attempts, MIDDLE) == seconds * 1_000


def test_the_failure_after_the_last_delay_is_final() -> None:
    assert next_delay_ms(len(DELAYS_SECONDS), MIDDLE) is not None
    assert next_delay_ms(len(DELAYS_SECONDS) + 1, MIDDLE) is None
    assert next_delay_ms(len(DELAYS_SECONDS) + 1, MIDDLE, asked_seconds=5) is None


@given(st.integers(1, len(DELAYS_SECONDS)), st.floats(0, 1, exclude_max=True))
def test_a_delay_is_spread_by_a_fifth_at_most(attempts: int, chance: float) -> None:
    delay_ms = next_delay_ms(attempts, chance)

    assert delay_ms is not None
    assert 0.8 <= delay_ms / 1_000 / DELAYS_SECONDS[attempts - 1] <= 1.2


@given(st.floats(5, 3_000), st.floats(0, 1, exclude_max=True))
def test_a_receivers_wish_for_time_is_granted(asked: float, chance: float) -> None:
    delay_ms = next_delay_ms(1, chance, asked)

    assert delay_ms is not None
    assert delay_ms >= int(asked * 1_000)


def test_a_receivers_wish_never_shortens_a_delay() -> None:
    assert next_delay_ms(6, MIDDLE, asked_seconds=1) == next_delay_ms(6, MIDDLE)


@each_row("asked", [3_601.0, 86_400.0, 1e15])
def test_a_receivers_wish_for_more_than_an_hour_gets_an_hour(asked: float) -> None:
    assert next_delay_ms(1, MIDDLE, asked) == 3_600_000


def test_a_receivers_wish_for_more_than_an_hour_leaves_a_longer_delay_alone() -> None:
    assert next_delay_ms(8, MIDDLE, asked_seconds=86_400) == 14_400_000
