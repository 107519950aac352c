"""Rings: whole events in payloads that PostgreSQL takes."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge_server.storage.postgres.announcing import (
    ANYTHING,
    MOST_BYTES,
    UnreadableRingError,
    read_ring,
    write_ring,
)
from tests.support.rows import each_row

EVENTS = st.lists(st.lists(st.text(max_size=3_000), min_size=1, max_size=3), max_size=30)


@given(EVENTS, st.integers(0, 2**62), st.integers(0, 1_000))
def test_a_ring_brings_its_events_whole_and_in_order(events: list[list[str]], since: int, more: int) -> None:
    until = since + more

    payloads = write_ring(7, 1, since, until, [orjson.dumps(event) for event in events])

    rings = [read_ring(payload) for payload in payloads]
    brought = [event for ring in rings for event in ring.events]
    assert all(len(payload.encode()) <= MOST_BYTES for payload in payloads)
    assert len(brought) == len(events)
    for event, instead in zip(events, brought, strict=True):
        assert instead == event or (instead == ANYTHING and len(orjson.dumps(event)) > MOST_BYTES - 100)
    assert {(ring.process, ring.lane, ring.since) for ring in rings} == {(7, 1, since)}
    assert [ring.until for ring in rings] == [since] * (len(rings) - 1) + [until]


def test_a_ring_without_events_is_one_payload() -> None:
    assert write_ring(7, 0, 3, 4, []) == ["[7,0,3,4,[]]"]


def test_an_event_that_is_longer_than_a_payload_stands_for_everything() -> None:
    (payload,) = write_ring(7, 0, 3, 4, [orjson.dumps(["Touched", "x" * MOST_BYTES])])

    assert read_ring(payload).events == [ANYTHING]


def test_ten_thousand_events_fit_into_few_payloads() -> None:
    events = [orjson.dumps(["Touched", ["session", f"{number:032}"]]) for number in range(10_000)]

    payloads = write_ring(7, 0, 0, 1, events)

    assert len(payloads) < 80
    assert sum(len(read_ring(payload).events) for payload in payloads) == 10_000


@each_row("payload", ["", "no JSON", "{}", "[]", "[1, 0, 1, 2]", '[1, 0, "1", 2, []]', "7"])
def test_a_payload_of_another_format_is_refused(payload: str) -> None:
    with pytest.raises(UnreadableRingError):
        read_ring(payload)
