"""The record of requests by itself: its bounds, and what it leaves out where it is watched in production."""

from bridge_server.kernel.signals import Signals
from bridge_server.web.traffic import MOST_REQUESTS, Exchange, TrafficLog, with_short_ids
from tests.support.clock import ManualClock

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
