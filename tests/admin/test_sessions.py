"""Sessions: listed without their ids, shown with what happened in them, and ended."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bridge_server.kernel.clock import Clock
from bridge_server.web.recorder import Activities
from tests.admin.observed import Observed, observing
from tests.support.bridge_client import BridgeClient
from tests.support.clock import ManualClock
from tests.support.rows import each_row

NOW = "2027-01-15T08:00:00.000Z"
LATER = "2027-01-15T08:01:00.000Z"


@pytest.fixture
async def observed(tmp_path: Path) -> AsyncIterator[Observed]:
    async with observing(tmp_path / "data") as running:
        yield running


async def test_a_new_session_is_listed_without_its_id(observed: Observed) -> None:
    session_id = await observed.bridge.open_session()

    answer = await observed.admin.get("/admin/sessions")

    (session,) = answer.json["sessions"]
    assert session_id not in answer.body.decode()
    assert len(session.pop("handle")) == 22
    assert session == {
        "id": f"{session_id[:8]}…",
        "generation": "plain",
        "dapp": None,
        "approved": False,
        "push": None,
        "calls_waiting": 0,
        "created_at": NOW,
        "expires_at": "2027-01-16T08:00:00.000Z",
        "dapp_seen_at": NOW,
        "wallet_seen_at": None,
    }


async def test_both_sides_are_seen_and_the_dapp_is_known_by_its_name(observed: Observed) -> None:
    session_id = await observed.bridge.open_session()
    await observed.bridge.update(session_id)
    first = await observed.bridge.request_call(session_id, dapp_name="<script>")
    await observed.bridge.request_call(session_id, dapp_name="Other")
    await observed.bridge.answer(first)
    await observed.admin.get("/admin/sessions")  # what was put off is seen now, as it is soon in any case
    observed.bridge.clock.advance(60)
    await observed.bridge.status(first)

    (session,) = (await observed.admin.get("/admin/sessions")).json["sessions"]

    assert (session["dapp"], session["approved"], session["calls_waiting"]) == ("<script>", True, 1)
    assert (session["dapp_seen_at"], session["wallet_seen_at"]) == (LATER, NOW)


async def test_a_session_of_generation_07_is_known_as_such(observed: Observed) -> None:
    bridge = BridgeClient(observed.admin.server, "/compat/v0.7")
    await bridge.send("POST", "/session/new", {})

    (session,) = (await observed.admin.get("/admin/sessions")).json["sessions"]

    assert session["generation"] == "0.7"


async def test_after_a_restart_nothing_was_seen(tmp_path: Path) -> None:
    async with observing(tmp_path / "data") as observed:
        await observed.bridge.open_session()
    async with observing(tmp_path / "data") as observed:
        (session,) = (await observed.admin.get("/admin/sessions")).json["sessions"]

    assert (session["generation"], session["dapp_seen_at"]) == (None, None)


async def test_pages_have_every_session_once_newest_first(observed: Observed) -> None:
    ids = [await observed.bridge.open_session() for _ in range(5)]
    shown: list[str] = []
    after: str | None = ""
    while after is not None:
        page = (await observed.admin.get(f"/admin/sessions?limit=2&after={after}")).json
        shown += [each["handle"] for each in page["sessions"]]
        after = page["next"]

    assert len(shown) == len(set(shown)) == 5
    await observed.admin.delete(f"/admin/sessions/{shown[0]}")
    assert [(await observed.bridge.session(each)).status for each in ids] == [204] * 4 + [404]


async def test_the_timeline_of_a_session_and_its_requests(observed: Observed) -> None:
    session_id = await observed.bridge.open_session()
    observed.bridge.clock.advance(60)
    call_id = await observed.bridge.request_call(session_id)
    await observed.bridge.answer(call_id)
    (session,) = (await observed.admin.get("/admin/sessions")).json["sessions"]

    answer = await observed.admin.get(f"/admin/sessions/{session['handle']}")

    timeline = [(each["event"], each["at"]) for each in answer.json["timeline"]]
    assert timeline[:3] == [("opened", NOW), ("asked", LATER), ("answered", LATER)]
    assert timeline[3][0] == "expires"
    routes = [each["route"] for each in answer.json["requests"]]
    assert routes == ["answer-call", "request-call", "open-session"]
    assert session_id not in answer.body.decode()
    assert call_id not in answer.body.decode()


async def test_an_ended_session_is_gone_with_its_calls(observed: Observed) -> None:
    session_id = await observed.bridge.open_session()
    call_id = await observed.bridge.request_call(session_id)
    (session,) = (await observed.admin.get("/admin/sessions")).json["sessions"]
    path = f"/admin/sessions/{session['handle']}"

    first, second = await observed.admin.delete(path), await observed.admin.delete(path)

    assert first.json == {"success": True}
    assert second.problem(404)["type"].endswith("session-not-found")
    assert (await observed.bridge.status(call_id)).status == 404
    left = (await observed.admin.get("/admin/sessions")).json
    assert (left["sessions"], left["next"]) == ([], None)
    (await observed.admin.get(path)).problem(404)


async def test_an_expired_session_is_not_listed(observed: Observed) -> None:
    await observed.bridge.open_session()
    observed.bridge.clock.advance(24 * 3600)

    assert (await observed.admin.get("/admin/sessions")).json["sessions"] == []


@each_row("after", ["x", "-1", "%D9%A1", "9" * 19])
async def test_a_page_that_begins_nowhere_is_refused(observed: Observed, after: str) -> None:
    (await observed.admin.get(f"/admin/sessions?after={after}")).problem(400)


async def test_the_id_itself_is_no_handle(observed: Observed) -> None:
    session_id = await observed.bridge.open_session()

    (await observed.admin.get(f"/admin/sessions/{session_id}")).problem(404)
    (await observed.admin.delete(f"/admin/sessions/{session_id}")).problem(404)
    assert (await observed.bridge.session(session_id)).status == 204


async def test_ids_that_nothing_has_are_not_remembered(observed: Observed) -> None:
    for number in range(20):
        await observed.bridge.session(f"nothing-{number}")

    assert (await observed.admin.get("/admin/sessions")).json["sessions"] == []


def test_only_so_many_sessions_are_kept() -> None:
    clock: Clock = ManualClock()
    seen = Activities(clock, most=100)
    for number in range(5_000):
        seen.note_session("", b'{"sessionId": "session-%d"}' % number)
        seen.note_call(f"session-{number}", b'{"dappName": "A"}', b'{"callId": "call-%d"}' % number)

    assert len(seen) <= 200
    assert seen.of("session-4999") is seen.of("call-4999") is not None
    assert seen.of("session-0") is None


async def test_a_page_looks_at_a_slice_of_rows_also_where_all_have_expired(
    observed: Observed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bridge_server.relay.store._LOOKED_AT_ONCE", 4)
    first = await observed.bridge.open_session()
    for _ in range(9):
        await observed.bridge.end(await observed.bridge.open_session())
    observed.bridge.clock.advance(23 * 3600)
    last = await observed.bridge.open_session()
    pages: list[list[str]] = []
    after: str | None = ""
    while after is not None:
        page = (await observed.admin.get(f"/admin/sessions?limit=2&after={after}")).json
        pages.append([each["id"][:8] for each in page["sessions"]])
        after = page["next"]

    assert (pages[0], pages[-1]) == ([last[:8]], [first[:8]])
