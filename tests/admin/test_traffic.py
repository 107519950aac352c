"""The record of requests in production: what it shows, how it is followed, and the lifetime of a call.

White-box: no version of aiohttp lacks what the record reads, and no client waits with thousands of polls.
"""

import asyncio
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
import pytest

from bridge_server.admin.traffic_stream import MOST_STREAMS
from bridge_server.web.traffic import MOST_REQUESTS, MOST_WAITING
from tests.admin.conftest import Observed, change_of, observing, stream_of
from tests.support.admin_client import ADMIN_TOKEN, ETHEREUM
from tests.support.asking import ask
from tests.support.rows import each_row
from tests.support.rpc_client import RpcClient
from tests.support.webhook_receiver import open_receiver, status

PAYLOAD = "c0ffee" * 20


async def test_requests_are_listed_without_contents_operators_and_whole_ids(observed: Observed) -> None:
    await observed.admin.get("/admin/projects")
    await observed.admin.get(f"/admin/accounts/{ETHEREUM}/devices")
    page = (await observed.bridge.get("/docs/")).body.decode()
    (stylesheet,) = re.findall(r'href="(/docs/static/docs[^"]*\.css)"', page)
    await observed.bridge.get(stylesheet)
    assert await observed.traffic() == []
    session_id = await observed.bridge.open_session()
    call_id = await observed.bridge.request_call(session_id, PAYLOAD)

    called, opened = await observed.traffic()

    assert (opened["number"], called["number"]) == (1, 2)
    assert (called["who"], called["method"], called["status"]) == ("dapp", "POST", 200)
    assert called["path"] == f"/session/{session_id[:8]}…/call/new"
    assert (called["session"]["id"], called["call"]["id"]) == (f"{session_id[:8]}…", f"{call_id[:8]}…")
    assert called["session"]["handle"] == opened["session"]["handle"]
    text = (await observed.admin.get("/admin/traffic")).body.decode()
    assert not [each for each in (PAYLOAD, session_id, call_id) if each in text]


async def test_polls_without_what_aiohttp_hides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridge_server.web.aiohttp_internals.has_known_requests", lambda: False)
    async with observing(tmp_path / "data") as observed:
        session_id = await observed.bridge.open_session()
        await observed.bridge.session(session_id)
        poll = await observed.waiting_poll(f"/session/{session_id}?wait=20")
        await observed.bridge.update(session_id)
        await poll
        (client,) = (await observed.admin.get("/admin/clients")).json["clients"]
        assert await observed.routes("?filter=method:get") == ["session", "session"]
        assert await observed.routes("?filter=is:waits") == ["session"]
        assert (client["address"], client["requests"], client["waits"]) == ("127.0.0.1", 4, 1)


async def test_pages_go_back_to_the_oldest_and_news_in_order_to_the_newest(observed: Observed) -> None:
    for _ in range(4):
        await observed.bridge.get("/hello")
    await ask(observed.admin.server, "HEAD", "/hello")

    async def pages(query: str, place: str) -> tuple[list[list[int]], list[dict[str, Any]]]:
        """The numbers of three pages, each from the place in the one before, and the answers."""
        answers: list[dict[str, Any]] = []
        for _ in range(3):
            answers.append((await observed.admin.get(f"/admin/traffic?limit=2&{query}")).json)
            query = f"{query.partition('=')[0]}={answers[-1][place]}"
        return [[each["number"] for each in answer["requests"]] for answer in answers], answers

    numbers, (newest, _, oldest) = await pages("after=", "next")
    assert numbers == [[5, 4], [3, 2], [1]]
    assert (oldest["next"], change_of(newest["last"])) == (None, 5)
    assert [each["method"] for each in newest["requests"]] == ["HEAD", "GET"]
    numbers, (*_, last) = await pages("since=0", "last")
    assert (numbers, change_of(last["last"])) == ([[1, 2], [3, 4], [5]], 5)
    assert (await observed.admin.get("/admin/traffic/1")).json["route"] == "hello"
    assert (await observed.admin.get("/admin/traffic/6")).problem(404)["type"].endswith("request-not-kept")


async def test_only_the_last_requests_are_kept_and_the_newest_streamed(observed: Observed) -> None:
    for _ in range(MOST_REQUESTS + 5):
        await observed.bridge.get("/hello")
    (await observed.admin.get("/admin/traffic/5")).problem(404)
    assert (await observed.admin.get("/admin/traffic/6")).json["number"] == 6
    async with stream_of(observed, "?since=0") as stream:
        numbers = [(await stream.next())["number"] for _ in range(100)]
    assert (numbers[0], numbers[-1]) == (MOST_REQUESTS - 94, MOST_REQUESTS + 5)


async def test_a_filter_chooses_and_what_cannot_be_read_is_refused_with_its_fault(observed: Observed) -> None:
    session_id = await observed.bridge.open_session()
    await observed.bridge.session(session_id)
    await observed.bridge.session("none")
    await observed.bridge.update(session_id)
    await observed.bridge.send("POST", f"/session/{session_id}/call/new", {})
    await observed.bridge.get("/nowhere")
    call_id = await observed.bridge.request_call(session_id)
    handle = (await observed.traffic("?filter=route:request-call"))[0]["session"]["handle"]

    for chosen, numbers in (
        ("", [7, 6, 5, 4, 3, 2, 1]), ("route:session", [3, 2]), ("status:404", [6, 3]),
        ("-status:2xx", [6, 5, 3]), ("method:put", [4]), ("is:errors", [6, 5, 3]), ("is:waits", []),
        ("unrouted", [6]), ("route:session -is:errors", [2]), ("not-a-word", []), (f"call:{call_id}", [7]),
        *((f"session:{quote(name)}", [7, 5, 4, 2, 1])
          for name in (handle, session_id, session_id[:8], f"{session_id[:8]}…")),
    ):  # fmt: skip
        assert [each["number"] for each in await observed.traffic(f"?filter={chosen}")] == numbers, chosen
    assert (await observed.traffic("?filter=status:404"))[1]["summary"] == "Session not found"
    for query, word in (
        ("filter=nothing:x", "nothing"), ("filter=status:abc", "status"), ("filter=is:odd", "errors"),
        ("filter=session:", "session:"), ("filter=" + "a" * 401, "400"), ("filter=" + "a+" * 17, "16"),
        ("after=x", "'x'"), ("since=1&wait=x", "wait"), ("wait=5", "since"), ("limit=0", "limit"),
    ):  # fmt: skip
        assert word in (await observed.admin.get(f"/admin/traffic?{query}")).problem(400)["detail"], query


async def test_a_long_poll_is_shown_while_it_waits_and_keeps_its_number(observed: Observed) -> None:
    session_id = await observed.bridge.open_session()
    poll = await observed.waiting_poll(f"/session/{session_id}?wait=20")
    observed.admin.clock.advance(2)

    (waiting,) = await observed.traffic("?filter=is:waits")
    await observed.bridge.update(session_id)
    await poll
    (answered,) = await observed.traffic("?filter=is:waits")

    assert (waiting["number"], waiting["status"], waiting["waits"]) == (2, None, 2.0)
    assert (answered["number"], answered["status"], answered["waits"]) == (2, 200, None)
    assert answered["waited"] > 0
    assert answered["change"] > waiting["change"]
    assert (await observed.admin.get("/admin/traffic/2")).json["status"] == 200
    left = await observed.waiting_poll(f"/session/{session_id}/calls?wait=20")
    left.cancel()
    last = (await observed.admin.get("/admin/traffic")).json["last"]
    await observed.admin.get(f"/admin/traffic?since={last}&wait=20&filter=is:waits")
    assert (await observed.traffic("?filter=is:waits"))[0]["status"] == 499  # its client has left


async def test_a_webhook_is_a_request_of_the_bridge_without_its_secrets(observed: Observed) -> None:
    async with open_receiver() as receiver:
        receiver.script.append(status(503))
        webhook = receiver.url().replace("http://", "http://user:secret@") + "?token=secret"
        session_id = await observed.bridge.open_session()
        push = {"type": "fcm", "token": "device-token", "webhook": webhook}
        await observed.bridge.update(session_id, push=push)
        call_id = await observed.bridge.request_call(session_id)
        query = "?since=0&wait=20&filter=who:bridge"

        (sent,) = (await observed.admin.get(f"/admin/traffic{query}")).json["requests"]
        life = await life_of(observed, call_id)

    notices = [step for step in life["steps"] if step["step"] == "webhook"]
    assert (sent["route"], sent["status"], sent["path"]) == ("webhook", 503, receiver.url())
    assert sent["summary"] == notices[0]["outcome"] == "the receiver answered 503"
    assert sent["session"]["id"] == f"{session_id[:8]}…"
    assert (life["state"], notices[0]["request"]["status"]) == ("waiting", 503)
    assert not [each for each in ("secret", "device-token") if each in f"{sent}{life}"]


async def test_a_request_to_the_node_is_recorded_by_its_methods(tmp_path: Path) -> None:
    async with observing(tmp_path / "data", node_url="http://127.0.0.1:9", dev_accounts=True) as observed:
        await RpcClient(observed.admin.server).error("eth_blockNumber")
        asked = await observed.traffic("?filter=route:node")
        assert {(each["who"], each["status"], each["path"]) for each in asked} == {("bridge", 0, "node_url")}
        summary = "eth_blockNumber · The node cannot be reached"
        assert any(each["summary"].startswith(summary) for each in asked)


async def test_the_stream_completes_what_waited_and_goes_on_after_its_last_event(observed: Observed) -> None:
    session_id = await observed.bridge.open_session()
    async with stream_of(observed, "?filter=-route:update-session") as stream:
        poll = await observed.waiting_poll(f"/session/{session_id}?wait=20")
        waiting = await stream.next()
        await observed.bridge.update(session_id)
        await poll
        answered = await stream.next()
    for path in ("/hello", "/info", "/hello"):
        await observed.bridge.get(path)
    first = (await observed.traffic("?filter=route:hello"))[-1]
    async with stream_of(observed, **{"Last-Event-ID": str(first["change"])}) as stream:
        later = [(await stream.next())["route"] for _ in range(2)]

    assert [(each["number"], each["status"]) for each in (waiting, answered)] == [(2, None), (2, 200)]
    assert later == ["info", "hello"]


async def test_only_so_many_streams_may_be_open_and_they_end_when_the_server_stops(tmp_path: Path) -> None:
    headers = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
    async with aiohttp.ClientSession() as client:
        async with observing(tmp_path / "data") as observed:
            url = f"{observed.admin.server.url}/admin/traffic/stream"
            streams = [await client.get(url, headers=headers) for _ in range(MOST_STREAMS)]
            refused = await ask(observed.admin.server, "GET", "/admin/traffic/stream", headers=headers)
        assert refused.problem(429)["type"].endswith("too-many-streams")
        assert [await stream.text() for stream in streams] == ["retry: 2000\n\n"] * MOST_STREAMS


@each_row("setting", [False, None])
async def test_without_a_record_the_answer_says_how_to_keep_one(tmp_path: Path, setting: bool | None) -> None:
    async with observing(tmp_path / "data", traffic=setting) as observed:
        for path in ("", "/1", "/stream"):
            problem = (await observed.admin.get(f"/admin/traffic{path}")).problem(404)
            assert problem["type"].endswith("traffic-off")
            assert "traffic = on" in problem["detail"]


async def test_only_so_many_waiting_are_shown(observed: Observed, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MOST_WAITING == 2_000
    monkeypatch.setattr("bridge_server.web.traffic.MOST_WAITING", 2)
    session_id = await observed.bridge.open_session()
    polls = [await observed.waiting_poll(f"/session/{session_id}?wait=20") for _ in range(3)]
    shown = [each["number"] for each in await observed.traffic("?filter=is:waits")]
    await observed.bridge.update(session_id)
    await asyncio.gather(*polls)
    assert shown == [4, 3]
    assert len(await observed.traffic("?filter=is:waits -status:204")) == 3


async def life_of(observed: Observed, call_id: str) -> dict[str, Any]:
    (asked,) = await observed.traffic(f"?filter=route:request-call call:{call_id}")
    life: dict[str, Any] = (await observed.admin.get(f"/admin/traffic/calls/{asked['call']['handle']}")).json
    return life


async def test_a_call_is_shown_from_its_request_to_its_end(observed: Observed) -> None:
    session_id = await observed.bridge.open_session()
    await observed.bridge.calls(session_id)
    call_id = await observed.bridge.request_call(session_id, PAYLOAD)
    for step in (
        observed.bridge.calls(session_id),
        observed.bridge.call(session_id, call_id),
        observed.bridge.status(call_id),
        observed.bridge.answer(call_id, PAYLOAD),
        observed.bridge.calls(session_id),
        observed.bridge.status(call_id),
    ):
        observed.bridge.clock.advance(1)
        await step

    life = await life_of(observed, call_id)
    await observed.bridge.end(session_id)
    gone = await life_of(observed, call_id)

    steps = ["asked", "fetched", "fetched", "answered", "status read", "expires"]
    assert ([step["step"] for step in life["steps"]], life["state"]) == (steps, "answered")
    assert life["session"]["id"] == f"{session_id[:8]}…"
    assert life["steps"][0]["request"]["route"] == "request-call"
    assert not [each for each in (PAYLOAD, call_id) if each in str(life)]
    assert (gone["state"], gone["expires_at"]) == ("gone", None)
    named = ["asked", "fetched", "answered", "status read"]  # by the requests that name the call
    assert [step["step"] for step in gone["steps"]] == named


async def test_the_database_knows_what_the_record_does_not(tmp_path: Path) -> None:
    async with observing(tmp_path / "data") as observed:
        session_id = await observed.bridge.open_session()
        call_id = await observed.bridge.request_call(session_id)
        await observed.bridge.answer(call_id)
    async with observing(tmp_path / "data", traffic=False) as observed:
        (session,) = (await observed.admin.get("/admin/sessions")).json["sessions"]
        shown = (await observed.admin.get(f"/admin/sessions/{session['handle']}")).json
        handle = next(each["call"]["handle"] for each in shown["timeline"] if each["event"] == "asked")
        life = (await observed.admin.get(f"/admin/traffic/calls/{handle}")).json
        assert [step["step"] for step in life["steps"]] == ["asked", "answered", "expires"]
        assert {step["request"] for step in life["steps"]} == {None}
