"""Dates with times: the examples of RFC 3339, the limits, and there and back."""

from contextlib import suppress
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge_server.kernel.instants import milliseconds_of, rfc3339
from tests.support.rows import each_row

FIRST_MS = -62_135_596_800_000
LAST_MS = 253_402_300_799_999


def utc_ms(*parts: int) -> int:
    return round(datetime(*parts, tzinfo=UTC).timestamp() * 1_000)  # type: ignore[arg-type, misc]


@each_row(
    ("text", "milliseconds"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1969-12-31T23:59:59.999Z", -1),
        ("1985-04-12T23:20:50.52Z", utc_ms(1985, 4, 12, 23, 20, 50, 520_000)),
        ("1996-12-19T16:39:57-08:00", utc_ms(1996, 12, 20, 0, 39, 57)),
        ("1990-12-31T23:59:60Z", utc_ms(1991, 1, 1)),
        ("1990-12-31T15:59:60-08:00", utc_ms(1991, 1, 1)),
        ("1990-12-31T23:59:60.5Z", utc_ms(1991, 1, 1) + 500),
        ("1937-01-01T12:00:27.87+00:20", utc_ms(1937, 1, 1, 11, 40, 27, 870_000)),
        ("2021-09-30T16:25:24.125Z", utc_ms(2021, 9, 30, 16, 25, 24, 125_000)),
        ("2021-09-30t16:25:24z", utc_ms(2021, 9, 30, 16, 25, 24)),
        ("2021-09-30T16:25:24-00:00", utc_ms(2021, 9, 30, 16, 25, 24)),
        ("2021-09-30T16:25:24+23:59", utc_ms(2021, 9, 29, 16, 26, 24)),
        ("2021-09-30T16:25:24.0019999999999Z", utc_ms(2021, 9, 30, 16, 25, 24) + 1),
        (f"2021-09-30T16:25:24.{'9' * 8_000}Z", utc_ms(2021, 9, 30, 16, 25, 24) + 999),
        ("2024-02-29T00:00:00Z", utc_ms(2024, 2, 29)),
        ("0001-01-01T00:00:00Z", FIRST_MS),
        ("9999-12-31T23:59:59.999Z", LAST_MS),
        ("9999-12-31T23:59:59.999-00:00", LAST_MS),
    ],
)
def test_a_date_time_stands_for_a_moment(text: str, milliseconds: int) -> None:
    assert milliseconds_of(text) == milliseconds


@each_row(
    "text",
    [
        "",
        "2021-09-30",
        "2021-09-30T16:25:24",
        "2021-09-30 16:25:24Z",
        "2021-09-30T16:25Z",
        "2021-09-30T16:25:24.Z",
        "2021-09-30T16:25:24,5Z",
        "2021-09-30T24:00:00Z",
        "2021-09-30T16:60:00Z",
        "2021-09-30T16:25:61Z",
        "2021-09-30T16:25:24+24:00",
        "2021-09-30T16:25:24+02:60",
        "2021-09-30T16:25:24+0200",
        "2021-09-30T16:25:24Z\n",
        " 2021-09-30T16:25:24Z",
        "20210930T162524Z",
        "2021-W39-4T16:25:24Z",
        "+2021-09-30T16:25:24Z",
        "12021-09-30T16:25:24Z",
        "2021-09-30T16:25:2\N{ARABIC-INDIC DIGIT FOUR}Z",
        "Wed Oct 05 2011 16:48:00 GMT+0200 (CEST)",
    ],
)
def test_other_spellings_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="RFC 3339"):
        milliseconds_of(text)


@each_row(
    "text",
    [
        "0000-01-01T00:00:00Z",
        "2021-00-10T00:00:00Z",
        "2021-13-10T00:00:00Z",
        "2021-09-31T00:00:00Z",
        "2021-09-00T00:00:00Z",
        "2023-02-29T00:00:00Z",
        "0001-01-01T00:00:00+00:01",
        "9999-12-31T23:59:59-00:01",
        "9999-12-31T23:59:60Z",
    ],
)
def test_days_outside_of_the_calendar_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="calendar"):
        milliseconds_of(text)


@given(st.integers(FIRST_MS, LAST_MS))
def test_every_moment_is_read_as_it_was_written(milliseconds: int) -> None:
    assert milliseconds_of(rfc3339(milliseconds)) == milliseconds


@each_row("milliseconds", [FIRST_MS - 1, LAST_MS + 1, 10**30, -(10**30)])
def test_a_moment_outside_of_the_years_is_not_written(milliseconds: int) -> None:
    with pytest.raises(ValueError, match="years 1 to 9999"):
        rfc3339(milliseconds)


@given(
    st.text()
    | st.from_regex(
        r"\A[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})\Z"
    )
)
def test_any_text_is_a_moment_or_refused(text: str) -> None:
    with suppress(ValueError):
        assert FIRST_MS <= milliseconds_of(text) <= LAST_MS
