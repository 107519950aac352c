"""The record of requests: its batches, its bounds, and what it leaves out."""

import orjson

from bridge_server.kernel.signals import Signals
from bridge_server.web.traffic import (
    MOST_REQUESTS,
    Batch,
    Exchange,
    Kind,
    TrafficLog,
    batch_of,
    with_short_ids,
)
from tests.support.clock import ManualClock
from tests.support.rows import each_row

EXCHANGE = Exchange("dapp", "GET", "/info", "info", 200, 1_500.0)


def record(*, keeps_contents: bool = True) -> TrafficLog:
    return TrafficLog(Signals(), ManualClock(), keeps_contents=keeps_contents)


async def test_the_oldest_go() -> None:
    traffic = record()
    for _ in range(MOST_REQUESTS + 10):
        traffic.note(EXCHANGE)

    numbers = [each.number for each in await traffic.after(0, 0)]

    assert numbers == list(range(11, MOST_REQUESTS + 11))


async def test_a_request_is_dated_by_its_beginning() -> None:
    traffic = record()
    traffic.note(EXCHANGE)

    (kept,) = await traffic.after(0, 0)

    assert kept.at_ms == ManualClock().now_ms() - 1_500


async def test_numbers_begin_anew_after_a_clearing() -> None:
    traffic = record()
    traffic.note(EXCHANGE)
    traffic.clear()
    traffic.note(EXCHANGE)

    assert [each.number for each in await traffic.after(0, 0)] == [1]


def test_long_ids_are_shortened_and_words_are_not() -> None:
    path = "/session/01a3185c-5000-7470-a913-5e217ff154e6/call/new"

    assert with_short_ids(path) == "/session/01a3185c…/call/new"
    assert with_short_ids("/v1/demo/mark-all-as-read") == "/v1/demo/mark-all-as-read"


POLL = Kind("dapp", "GET", "session", 204)


def polls(first: int, count: int) -> Batch:
    paths = [f"/session/{number}" for number in range(first, first + count)]
    return batch_of(first, [POLL] * count, paths, [0.0] * count, [0.002] * count)


def test_a_batch_gives_its_requests_back_newest_first() -> None:
    made = Kind("dapp", "POST", "open-session", 200, b'{"sessionId":"x"}')
    batch = batch_of(7, [POLL, made], ["/session/a?wait=0", "//session/new"], [1.5, 2.25], [0.00234, 0.5])

    newest, oldest = batch.newest_first(1_000_000.0)

    assert (len(batch), batch.last) == (2, 8)
    assert (oldest.number, oldest.change, oldest.at_ms) == (7, 7, 1_001_500)
    assert oldest.exchange == Exchange("dapp", "GET", "/session/a?wait=0", "session", 204, 2.3)
    assert (newest.number, newest.at_ms) == (8, 1_002_250)
    assert newest.exchange == Exchange(
        "dapp", "POST", "//session/new", "open-session", 200, 500.0, about=made.about
    )


@each_row(
    ("status", "answered", "summary"),
    [
        (404, orjson.dumps({"title": "Session not found", "detail": "secret"}), "Session not found"),
        (404, b"", ""),
        (400, b"no JSON", ""),
        (400, b"[]", ""),
        (400, b"{}", ""),
        (200, orjson.dumps({"title": "not a problem"}), ""),
    ],
)
def test_a_failed_request_is_titled_as_its_problem(status: int, answered: bytes, summary: str) -> None:
    batch = batch_of(1, [Kind("dapp", "GET", "session", status, answered)], ["/session/a"], [0.0], [0.0])

    (failed,) = batch.newest_first(0.0)

    assert failed.exchange.summary == summary


def test_of_batches_the_newest_requests_are_shown_to_the_last_one() -> None:
    traffic = record(keeps_contents=False)
    for first in range(1, 2 * MOST_REQUESTS, 70):
        traffic.add(polls(first, 70))

    shown = [each.number for each in traffic.answered_after(0)]

    last = traffic.newest()
    assert shown == list(range(last, last - MOST_REQUESTS, -1))
    assert len(traffic) == MOST_REQUESTS
    assert len(traffic._kept) == 29  # those that hold 2,000 requests, and no more


def test_requests_after_a_change_may_begin_within_a_batch() -> None:
    traffic = record(keeps_contents=False)
    traffic.add(polls(1, 10))
    traffic.note(Exchange("dapp", "GET", "/info", "info", 200, 1.0))
    traffic.add(polls(12, 10))

    assert [each.change for each in traffic.answered_after(8)] == [21, *range(20, 8, -1)]


def test_what_was_put_off_comes_before_the_end_of_a_long_poll() -> None:
    traffic = record(keeps_contents=False)
    waiting = traffic.begin(Exchange("dapp", "GET", "/session/x", "session", 0, 0.0))
    pending = [2]

    def put_off() -> None:
        for _ in range(len(pending)):
            traffic.add(polls(pending.pop(), 3))

    traffic.before_reading = put_off

    traffic.finish(waiting, Exchange("dapp", "GET", "/session/x", "session", 200, 5.0))

    assert [(each.number, each.change) for each in traffic.answered_after(0)] == [
        (1, 5),
        (4, 4),
        (3, 3),
        (2, 2),
    ]
