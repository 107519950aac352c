"""How soon a bridge that fails is asked again."""

from hypothesis import given
from hypothesis import strategies as st

from bridge_server.kit.client import Pace

chances = st.floats(0, 1, exclude_max=True)


@given(st.integers(1, 100_000), chances)
def test_retries_slow_down_to_a_limit(failures: int, chance: float) -> None:
    pace = Pace(first_retry_seconds=0.25, longest_retry_seconds=15.0)
    planned = min(0.25 * 2 ** min(failures - 1, 20), 15.0)

    assert planned / 2 <= pace.retry_seconds(failures, chance) <= planned


@given(st.integers(1, 100), chances, st.floats(0, 3_600))
def test_a_bridge_that_asks_for_time_gets_it(failures: int, chance: float, asked_seconds: float) -> None:
    assert Pace().retry_seconds(failures, chance, asked_seconds) >= asked_seconds


def test_no_bridge_is_left_alone_for_more_than_an_hour() -> None:
    assert Pace().retry_seconds(1, 0.5, 1e9) < 3_601
