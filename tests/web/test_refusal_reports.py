"""Refusals for asking too often: a line now and then says how many, and whose."""

import asyncio
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from bridge_server.web import request_log as module
from bridge_server.web.request_log import Refusals
from tests.support.asking import ask
from tests.support.eventually import eventually
from tests.support.server import running_server


def test_refusals_are_counted_by_address_until_they_are_reported() -> None:
    refusals = Refusals()
    for address in ("192.0.2.1", "192.0.2.2", "192.0.2.1"):
        refusals.count(address, "requests")

    report = refusals.take()

    assert report is not None
    assert (report.total, report.addresses) == (3, {"192.0.2.1": 2, "192.0.2.2": 1})
    assert refusals.take() is None


def test_the_number_of_addresses_is_limited_and_every_refusal_counts() -> None:
    refusals = Refusals(most_addresses=2)
    for address in ("a", "b", "c", "d", "b"):
        refusals.count(address, "requests")

    report = refusals.take()

    assert report is not None
    assert (report.total, report.addresses) == (5, {"b": 2, "a": 1})


def test_the_ten_addresses_with_the_most_are_named() -> None:
    refusals = Refusals()
    for number in range(20):
        for _ in range(number + 1):
            refusals.count(str(number), "requests")

    report = refusals.take()

    assert report is not None
    assert report.total == 210
    assert report.addresses == {str(number): number + 1 for number in range(19, 9, -1)}


async def test_a_server_logs_the_refused_addresses_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_REPORT_SECONDS", 0.05)
    with capture_logs() as lines:
        async with running_server(
            tmp_path / "data", quota_exempt=(), requests_burst=1, requests_per_second=0.001
        ) as server:
            statuses = [(await ask(server, "GET", "/hello")).status for _ in range(4)]

            async def is_logged() -> bool:
                return sum(int(line.get("requests", 0)) for line in lines) == 3

            await eventually(is_logged)

    reports = [line for line in lines if line["event"] == "requests_refused"]
    assert statuses == [200, 429, 429, 429]
    assert all(line["addresses"] == {"127.0.0.1": line["requests"]} for line in reports)
    assert {line["log_level"] for line in reports} == {"warning"}


async def test_refusals_before_the_end_are_logged(tmp_path: Path) -> None:
    with capture_logs() as lines:
        async with running_server(
            tmp_path / "data", quota_exempt=(), requests_burst=1, requests_per_second=0.001
        ) as server:
            await asyncio.gather(*(ask(server, "GET", "/hello") for _ in range(3)))

    (line,) = [line for line in lines if line["event"] == "requests_refused"]
    assert (line["requests"], line["addresses"], line["other_addresses"]) == (2, {"127.0.0.1": 2}, 0)
