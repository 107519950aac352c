from datetime import UTC, datetime
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge_server.outbox.retry import DELAYS_SECONDS, next_delay_ms, parse_retry_after

NOW_MS = 1_800_000_000_000
MIDDLE = 0.5


def test_the_delays_grow_and_make_up_about_a_day() -> None:
    assert sorted(DELAYS_SECONDS) == list(DELAYS_SECONDS)
    assert DELAYS_SECONDS[0] == 5
    assert 23 * 3_600 < sum(DELAYS_SECONDS) < 25 * 3_600


@pytest.mark.parametrize(("attempts", "seconds"), list(enumerate(DELAYS_SECONDS, start=1)))
def test_each_failure_has_its_delay(attempts: int, seconds: int) -> None:
    assert next_delay_ms(attempts, MIDDLE) == seconds * 1_000


def test_the_failure_after_the_last_delay_is_final() -> None:
    assert next_delay_ms(len(DELAYS_SECONDS), MIDDLE) is not None
    assert next_delay_ms(len(DELAYS_SECONDS) + 1, MIDDLE) is None
    assert next_delay_ms(len(DELAYS_SECONDS) + 1, MIDDLE, asked_seconds=5) is None


@given(st.integers(1, len(DELAYS_SECONDS)), st.floats(0, 1, exclude_max=True))
def test_chance_moves_a_delay_by_a_fifth_at_most(attempts: int, chance: float) -> None:
    delay_ms = next_delay_ms(attempts, chance)

    assert delay_ms is not None
    assert 0.8 <= delay_ms / 1_000 / DELAYS_SECONDS[attempts - 1] <= 1.2


@given(st.floats(5, 3_000), st.floats(0, 1, exclude_max=True))
def test_a_receiver_that_asks_for_time_gets_it(asked: float, chance: float) -> None:
    delay_ms = next_delay_ms(1, chance, asked)

    assert delay_ms is not None
    assert delay_ms >= int(asked * 1_000)


def test_asking_never_shortens_a_delay() -> None:
    assert next_delay_ms(6, MIDDLE, asked_seconds=1) == next_delay_ms(6, MIDDLE)


@pytest.mark.parametrize("asked", [3_601.0, 86_400.0, 1e15])
def test_asking_for_more_than_an_hour_gets_an_hour(asked: float) -> None:
    assert next_delay_ms(1, MIDDLE, asked) == 3_600_000


def test_asking_for_more_than_an_hour_leaves_a_longer_delay_alone() -> None:
    assert next_delay_ms(8, MIDDLE, asked_seconds=86_400) == 14_400_000


@pytest.mark.parametrize(("value", "seconds"), [("0", 0), ("120", 120), (" 7 ", 7), ("9" * 15, 1e15)])
def test_retry_after_in_seconds(value: str, seconds: float) -> None:
    assert parse_retry_after(value, NOW_MS) == pytest.approx(seconds)


@pytest.mark.parametrize(("ahead_seconds", "expected"), [(90, 90), (0, 0), (-90, 0)])
def test_retry_after_as_a_date_is_counted_from_now(ahead_seconds: int, expected: float) -> None:
    moment = datetime.fromtimestamp(NOW_MS / 1_000 + ahead_seconds, UTC)

    assert parse_retry_after(format_datetime(moment, usegmt=True), NOW_MS) == expected


@pytest.mark.parametrize("value", ["", "soon", "-5", "1.5", "٣", "9" * 16, "Mon, 99 Foo 2026 00:00:00 GMT"])
def test_an_unclear_retry_after_is_ignored(value: str) -> None:
    assert parse_retry_after(value, NOW_MS) is None


@given(st.text(max_size=60) | st.from_regex(r"\w{3}, \d{1,9} \w{3} \d{1,9} \d\d:\d\d:\d\d [+-]\d{1,9}"))
def test_no_header_breaks_the_parser(value: str) -> None:
    asked = parse_retry_after(value, NOW_MS)

    assert asked is None or asked >= 0
