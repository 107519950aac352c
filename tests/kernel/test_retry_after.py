from datetime import UTC, datetime
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge_server.kernel.fields import parse_retry_after
from tests.support.rows import each_row

NOW_MS = 1_800_000_000_000


@each_row(("value", "seconds"), [("0", 0), ("120", 120), (" 7 ", 7), ("9" * 15, 1e15)])
def test_retry_after_in_seconds(value: str, seconds: float) -> None:
    assert parse_retry_after(value, NOW_MS) == pytest.approx(seconds)


@each_row(("ahead_seconds", "expected"), [(90, 90), (0, 0), (-90, 0)])
def test_retry_after_as_a_date_is_counted_from_now(ahead_seconds: int, expected: float) -> None:
    moment = datetime.fromtimestamp(NOW_MS / 1_000 + ahead_seconds, UTC)

    assert parse_retry_after(format_datetime(moment, usegmt=True), NOW_MS) == expected


@each_row("value", ["", "soon", "-5", "1.5", "٣", "9" * 16, "Mon, 99 Foo 2026 00:00:00 GMT"])
def test_an_unclear_retry_after_is_ignored(value: str) -> None:
    assert parse_retry_after(value, NOW_MS) is None


@given(st.text(max_size=60) | st.from_regex(r"\w{3}, \d{1,9} \w{3} \d{1,9} \d\d:\d\d:\d\d [+-]\d{1,9}"))
def test_the_parser_survives_any_header(value: str) -> None:
    asked = parse_retry_after(value, NOW_MS)

    assert asked is None or asked >= 0
