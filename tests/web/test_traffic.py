"""The record of requests: its batches, its bounds, and what it leaves out.

White-box: no client sees how many batches of requests are in memory.
"""

import pytest

from bridge_server.kernel.signals import Signals
from bridge_server.web.traffic import MOST_REQUESTS, Batch, Exchange, Kind, TrafficLog, batch_of
from tests.support.clock import ManualClock


def polls(first: int, count: int) -> Batch:
    paths = [f"/session/{number}" for number in range(first, first + count)]
    return batch_of(
        first, [Kind("dapp", "GET", "session", 204)] * count, paths, [0.0] * count, [0.002] * count
    )


@pytest.fixture
def traffic() -> TrafficLog:
    return TrafficLog(Signals(), ManualClock(), keeps_contents=False)


def test_a_failed_request_is_titled_as_its_problem() -> None:
    for status, answered, summary in (
        (404, b'{"title":"Session not found","detail":"secret"}', "Session not found"),
        (400, b"no JSON", ""),
        (400, b"[]", ""),
        (200, b'{"title":"not a problem"}', ""),
    ):
        kind = Kind("dapp", "GET", "session", status, answered)
        (failed,) = batch_of(1, [kind], ["/session/a"], [0.0], [0.0]).newest_first(0.0)
        assert failed.exchange.summary == summary


def test_of_batches_the_newest_requests_are_shown_to_the_last_one(traffic: TrafficLog) -> None:
    for first in range(1, 2 * MOST_REQUESTS, 70):
        traffic.add(polls(first, 70))
    last = traffic.newest()
    shown = [each.number for each in traffic.answered_after(0)]
    assert shown == list(range(last, last - MOST_REQUESTS, -1))
    assert len(traffic) == MOST_REQUESTS
    assert len(traffic._kept) == 29  # those that hold 2,000 requests, and no more


def test_requests_after_a_change_may_begin_within_a_batch(traffic: TrafficLog) -> None:
    traffic.add(polls(1, 10))
    traffic.note(Exchange("dapp", "GET", "/info", "info", 200, 1.0))
    traffic.add(polls(12, 10))
    assert [each.change for each in traffic.answered_after(8)] == [21, *range(20, 8, -1)]


def test_what_was_put_off_comes_before_the_end_of_a_long_poll(traffic: TrafficLog) -> None:
    waiting = traffic.begin(Exchange("dapp", "GET", "/session/x", "session", 0, 0.0))
    pending = [2]

    def put_off() -> None:
        while pending:
            traffic.add(polls(pending.pop(), 3))

    traffic.before_reading = put_off
    traffic.finish(waiting, Exchange("dapp", "GET", "/session/x", "session", 200, 5.0))
    shown = [(each.number, each.change) for each in traffic.answered_after(0)]
    assert shown == [(1, 5), (4, 4), (3, 3), (2, 2)]
