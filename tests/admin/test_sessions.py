"""Sessions and topics: listed without their ids, shown with what happened in them, and ended.

White-box: the number of rows that one statement reads has no setting.
"""

import hashlib

import pytest

from bridge_server.admin.sessions import merged_topics
from bridge_server.kernel.clock import Clock
from bridge_server.web.recorder import Activities
from tests.admin.conftest import Observed
from tests.support.bridge_client import BridgeClient
from tests.support.clock import ManualClock
from tests.support.socket_client import Identity, irn_connected

NOW = "2027-01-15T08:00:00.000Z"
LATER = "2027-01-15T08:01:00.000Z"


async def test_a_session_is_listed_without_its_id_shown_and_ended_with_its_calls(observed: Observed) -> None:
    session_id = await observed.bridge.open_session()
    listed = await observed.admin.get("/admin/sessions")
    observed.bridge.clock.advance(60)
    call_id = await observed.bridge.request_call(session_id)
    await observed.bridge.answer(call_id)

    (session,) = listed.json["sessions"]
    assert session_id not in listed.body.decode()
    handle = session.pop("handle")
    assert len(handle) == 22
    assert session == {
        "id": f"{session_id[:8]}…", "generation": "plain", "dapp": None, "approved": False, "push": None,
        "calls_waiting": 0, "created_at": NOW, "expires_at": "2027-01-16T08:00:00.000Z",
        "dapp_seen_at": NOW, "wallet_seen_at": None,
    }  # fmt: skip
    path = f"/admin/sessions/{handle}"
    shown = await observed.admin.get(path)
    timeline = [(each["event"], each["at"]) for each in shown.json["timeline"]]
    assert timeline[:3] == [("opened", NOW), ("asked", LATER), ("answered", LATER)]
    assert timeline[3][0] == "expires"
    routes = [each["route"] for each in shown.json["requests"]]
    assert routes == ["answer-call", "request-call", "open-session"]
    assert not [each for each in (session_id, call_id) if each in shown.body.decode()]

    first, second = await observed.admin.delete(path), await observed.admin.delete(path)
    assert first.json == {"success": True}
    assert second.problem(404)["type"].endswith("session-not-found")
    assert (await observed.bridge.status(call_id)).status == 404
    left = (await observed.admin.get("/admin/sessions")).json
    assert (left["sessions"], left["next"]) == ([], None)
    (await observed.admin.get(path)).problem(404)


async def test_both_sides_are_seen_and_the_dapp_is_known_by_its_name(observed: Observed) -> None:
    session_id = await observed.bridge.open_session()
    await observed.bridge.update(session_id)
    first = await observed.bridge.request_call(session_id, dapp_name="<script>")
    await observed.bridge.request_call(session_id, dapp_name="Other")
    await observed.bridge.answer(first)
    await observed.admin.get("/admin/sessions")  # what was put off is seen now, as it is soon in any case
    observed.bridge.clock.advance(60)
    await observed.bridge.status(first)
    for number in range(20):
        await observed.bridge.session(f"nothing-{number}")  # is not remembered
    await BridgeClient(observed.admin.server, "/compat/v0.7").send("POST", "/session/new", {})

    older, session = (await observed.admin.get("/admin/sessions")).json["sessions"]

    assert (session["dapp"], session["approved"], session["calls_waiting"]) == ("<script>", True, 1)
    assert (session["dapp_seen_at"], session["wallet_seen_at"]) == (LATER, NOW)
    assert (session["generation"], older["generation"]) == ("plain", "0.7")
    observed.bridge.clock.advance(24 * 3600)
    assert (await observed.admin.get("/admin/sessions")).json["sessions"] == []  # they have expired


async def test_pages_have_every_session_once_newest_first(observed: Observed) -> None:
    ids = [await observed.bridge.open_session() for _ in range(5)]
    pages = await observed.admin.pages("/admin/sessions", "sessions", 2)
    shown = [each["handle"] for page in pages for each in page]
    assert len(shown) == len(set(shown)) == 5
    for session_id in ids:  # which is no handle
        (await observed.admin.get(f"/admin/sessions/{session_id}")).problem(404)
        (await observed.admin.delete(f"/admin/sessions/{session_id}")).problem(404)
    await observed.admin.delete(f"/admin/sessions/{shown[0]}")
    assert [(await observed.bridge.session(each)).status for each in ids] == [204] * 4 + [404]
    for query in ("sessions?after=x", "sessions?after=-1", "sessions?after=%D9%A1",
                  f"sessions?after={'9' * 19}", "topics?after=elsewhere"):  # fmt: skip
        (await observed.admin.get(f"/admin/{query}")).problem(400)


def test_only_so_many_sessions_are_kept() -> None:
    clock: Clock = ManualClock()
    seen = Activities(clock, most=100)
    for number in range(5_000):
        seen.note_session("", b'{"sessionId": "session-%d"}' % number)
        seen.note_call(f"session-{number}", b'{"dappName": "A"}', b'{"callId": "call-%d"}' % number)
    assert len(seen) <= 200
    assert seen.of("session-4999") is seen.of("call-4999") is not None
    assert seen.of("session-0") is None


async def test_a_page_looks_at_a_slice_of_rows(observed: Observed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridge_server.relay.store._READ_AT_ONCE", 4)
    first = await observed.bridge.open_session()
    for _ in range(9):
        await observed.bridge.end(await observed.bridge.open_session())
    observed.bridge.clock.advance(23 * 3600)
    last = await observed.bridge.open_session()
    pages = await observed.admin.pages("/admin/sessions", "sessions", 2)
    assert [[each["id"][:8] for each in page] for page in (pages[0], pages[-1])] == [[last[:8]], [first[:8]]]


def _topic(name: str) -> str:
    """Topics that differ in their first characters, as those of clients do."""
    return hashlib.sha256(name.encode()).hexdigest()


async def test_a_topic_is_listed_with_its_sockets_and_waiting_messages(observed: Observed) -> None:
    server, topic = observed.bridge.server, _topic("pairing")
    wallet = Identity()
    async with irn_connected(server.client, server.url, wallet) as away:
        await away.subscribe(topic)
    async with irn_connected(server.client, server.url, Identity()) as dapp:
        await dapp.subscribe(topic)
        await dapp.publish(topic, "a proposal", tag=1100)

        answer = await observed.admin.get("/admin/topics")
        (listed,) = answer.json["topics"]

        assert topic not in answer.body.decode()
        assert listed == {
            "topic": f"{topic[:8]}…", "kind": "pairing", "subscribers": 2, "sockets": 1,
            "messages_waiting": 1, "bytes_waiting": listed["bytes_waiting"],
            "expires_at": listed["expires_at"],
        }  # fmt: skip
        assert listed["bytes_waiting"] > len("a proposal")
    async with irn_connected(server.client, server.url, wallet) as back:
        await back.message()
        await back.settled()
        (listed,) = (await observed.admin.get("/admin/topics")).json["topics"]

    assert (listed["sockets"], listed["messages_waiting"]) == (1, 0)


async def test_pages_have_every_topic_once_also_of_one_moment(observed: Observed) -> None:
    server, topics = observed.bridge.server, [_topic(f"topic {number}") for number in range(5)]
    async with irn_connected(server.client, server.url, Identity()) as client:
        await client.ask("irn_batchSubscribe", {"topics": topics[1:]})
        observed.bridge.clock.advance(1)
        await client.subscribe(topics[0])
        pages = await observed.admin.pages("/admin/topics", "topics", 2)
    shown = [each["topic"] for page in pages for each in page]
    assert [len(page) for page in pages] == [2, 2, 1]
    assert shown[0] == f"{topics[0][:8]}…"
    assert sorted(shown) == sorted(f"{each[:8]}…" for each in topics)


def test_sockets_of_all_processes_are_added() -> None:
    def listed(topic: str, kind: str | None, sockets: int) -> dict[str, object]:
        return {"topic": topic, "kind": kind, "sockets": sockets, "expires_at": LATER}

    own = {"topics": [listed("a", None, 1)], "next": None}
    other = {"topics": [listed("a", "session", 2), listed("b", None, 9)]}
    assert merged_topics({1: own, 2: other})["topics"] == [listed("a", "session", 3)]
