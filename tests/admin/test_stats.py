"""The figures at a glance."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bridge_server.admin.server import memory_bytes
from tests.admin.observed import Observed, observing
from tests.support.admin_client import ETHEREUM
from tests.support.webhook_receiver import open_receiver


@pytest.fixture
async def observed(tmp_path: Path) -> AsyncIterator[Observed]:
    async with observing(tmp_path / "data") as running:
        yield running


async def test_totals_since_the_start_and_figures_of_the_moment(observed: Observed) -> None:
    session_id = await observed.bridge.open_session()
    await observed.bridge.open_session()
    await observed.bridge.request_call(session_id)
    secret = await observed.admin.create("app", "news")
    await observed.admin.subscribe("app", ETHEREUM)
    await observed.admin.notify("app", secret, "news", ETHEREUM)

    stats = (await observed.admin.get("/admin/stats")).json

    assert stats["sessions"] == {"living": 2, "since_start": 2, "last_minute": 2}
    assert stats["calls"] == {"since_start": 1, "last_minute": 1}
    assert stats["notifications"] == {"since_start": 1, "last_minute": 1}
    assert stats["outbox"] == {"due": 0, "dead": 0, "delivered": 0, "failed": 0}
    assert stats["memory_bytes"] > 2**20
    assert stats["disk"]["database_bytes"] > 0
    assert stats["disk"]["free_bytes"] > 0
    assert [each["address"] for each in stats["clients"]] == ["127.0.0.1"]
    assert (stats["up_seconds"], stats["pushes"]) == (0, {})
    assert stats["requests"]["answered"] > 0


async def test_the_last_minute_passes_and_sessions_are_counted_again(observed: Observed) -> None:
    await observed.bridge.open_session()
    first = (await observed.admin.get("/admin/stats")).json
    observed.admin.clock.advance(61)
    await observed.bridge.open_session()

    second = (await observed.admin.get("/admin/stats")).json

    assert first["sessions"]["living"] == 1
    assert second["sessions"] == {"living": 2, "since_start": 2, "last_minute": 1}
    assert second["up_seconds"] == 61


async def test_many_sessions_are_counted_in_slices(
    observed: Observed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bridge_server.relay.store._COUNTED_AT_ONCE", 3)
    ids = [await observed.bridge.open_session() for _ in range(9)]
    await observed.bridge.end(ids[4])

    assert (await observed.admin.get("/admin/stats")).json["sessions"]["living"] == 8


async def test_pushes_are_counted_by_their_outcome(tmp_path: Path) -> None:
    async with observing(tmp_path / "data", test=True) as observed, open_receiver():
        await observed.bridge.send(
            "POST",
            "/new",
            {"bridge": observed.admin.server.url, "topic": "t", "type": "fcm", "token": "x", "peerName": "",
             "language": "en"},
        )  # fmt: skip
        await observed.bridge.send("POST", "/push", {"topic": "t"})

        stats = (await observed.admin.get("/admin/stats")).json
        pushed = await observed.traffic("?filter=who:bridge route:fcm")

    assert stats["pushes"]["fcm"] == {"delivered": 1}
    assert [(each["path"], each["status"]) for each in pushed] == [("fcm:…", 200)]


def test_memory_is_known_where_proc_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridge_server.admin.server._STATM", Path("/nowhere"))

    assert memory_bytes() > 2**20
