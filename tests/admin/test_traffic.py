"""The record of requests in production: what it shows, what it leaves out, and how it is followed."""

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote

import aiohttp
import pytest

from bridge_server.admin.traffic_stream import MOST_STREAMS
from bridge_server.web.traffic import MOST_REQUESTS, MOST_WAITING
from tests.admin.observed import Observed, change_of, observing, stream_of
from tests.support.admin_client import ADMIN_TOKEN, ETHEREUM
from tests.support.asking import ask
from tests.support.rows import each_row
from tests.support.rpc_client import RpcClient
from tests.support.webhook_receiver import open_receiver, status

BEARER = f"Bearer {ADMIN_TOKEN}"
PAYLOAD = "c0ffee" * 20


@pytest.fixture
async def observed(tmp_path: Path) -> AsyncIterator[Observed]:
    async with observing(tmp_path / "data") as running:
        yield running


async def test_requests_are_listed_newest_first_without_contents_and_with_short_ids(
    observed: Observed,
) -> None:
    session_id = await observed.bridge.open_session()
    call_id = await observed.bridge.request_call(session_id, PAYLOAD)

    called, opened = await observed.traffic()

    assert (opened["number"], called["number"]) == (1, 2)
    assert (called["who"], called["method"], called["status"]) == ("dapp", "POST", 200)
    assert called["path"] == f"/session/{session_id[:8]}…/call/new"
    assert called["session"]["id"] == f"{session_id[:8]}…"
    assert called["call"]["id"] == f"{call_id[:8]}…"
    assert called["session"]["handle"] == opened["session"]["handle"]
    text = (await observed.admin.get("/admin/traffic")).body.decode()
    assert PAYLOAD not in text
    assert session_id not in text
    assert call_id not in text


async def test_a_request_for_the_head_alone_is_shown_as_such(observed: Observed) -> None:
    await observed.bridge.get("/hello")
    await ask(observed.admin.server, "HEAD", "/hello")

    shown = [(each["method"], each["route"], each["status"]) for each in await observed.traffic()]

    assert shown == [("HEAD", "hello", 200), ("GET", "hello", 200)]


async def test_polls_are_shown_without_what_aiohttp_has_in_private(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


async def test_pages_go_back_to_the_oldest(observed: Observed) -> None:
    for _ in range(5):
        await observed.bridge.get("/hello")

    first = (await observed.admin.get("/admin/traffic?limit=2")).json
    second = (await observed.admin.get(f"/admin/traffic?limit=2&after={first['next']}")).json
    third = (await observed.admin.get(f"/admin/traffic?limit=2&after={second['next']}")).json

    pages = [[each["number"] for each in page["requests"]] for page in (first, second, third)]
    assert pages == [[5, 4], [3, 2], [1]]
    assert third["next"] is None
    assert change_of(first["last"]) == 5


async def test_one_request_is_shown_by_its_number(observed: Observed) -> None:
    await observed.bridge.get("/hello")

    assert (await observed.admin.get("/admin/traffic/1")).json["route"] == "hello"
    assert (await observed.admin.get("/admin/traffic/2")).problem(404)["type"].endswith("request-not-kept")


async def test_only_the_last_requests_are_kept(observed: Observed) -> None:
    for _ in range(MOST_REQUESTS + 5):
        await observed.bridge.get("/hello")

    newest = (await observed.admin.get("/admin/traffic?limit=1000")).json
    kept = (await observed.admin.get(f"/admin/traffic?limit=1000&after={newest['next']}")).json["requests"]

    assert (kept[0]["number"], kept[-1]["number"]) == (MOST_REQUESTS + 5 - 1000, 6)


@pytest.mark.parametrize(
    ("chosen", "numbers"),
    [
        ("", [6, 5, 4, 3, 2, 1]),
        ("route:session", [3, 2]),
        ("-route:session", [6, 5, 4, 1]),
        ("status:404", [6, 3]),
        ("status:4xx", [6, 5, 3]),
        ("-status:2xx", [6, 5, 3]),
        ("who:wallet", [4]),
        ("method:put", [4]),
        ("is:errors", [6, 5, 3]),
        ("is:rpc", []),
        ("is:waits", []),
        ("hello", []),
        ("unrouted", [6]),
        ("route:session -is:errors", [2]),
        ("not-a-word", []),
    ],
)
async def test_a_filter_chooses(observed: Observed, chosen: str, numbers: list[int]) -> None:
    session_id = await observed.bridge.open_session()
    await observed.bridge.session(session_id)
    await observed.bridge.session("none")
    await observed.bridge.update(session_id)
    await observed.bridge.send("POST", f"/session/{session_id}/call/new", {})
    await observed.bridge.get("/nowhere")

    assert [each["number"] for each in await observed.traffic(f"?filter={chosen}")] == numbers


async def test_a_filter_finds_a_session_by_handle_by_id_and_by_its_beginning(observed: Observed) -> None:
    session_id = await observed.bridge.open_session()
    await observed.bridge.get("/hello")
    call_id = await observed.bridge.request_call(session_id)
    await observed.bridge.status(call_id)
    handle = (await observed.traffic("?filter=route:request-call"))[0]["session"]["handle"]

    for name in (handle, session_id, session_id[:8], f"{session_id[:8]}…"):
        assert await observed.routes(f"?filter=session:{quote(name)}") == ["request-call", "open-session"]
    assert await observed.routes(f"?filter=call:{call_id}") == ["call-status", "request-call"]


@each_row(
    ("query", "word"),
    [
        ("filter=nothing:x", "nothing"),
        ("filter=status:abc", "status"),
        ("filter=is:odd", "errors"),
        ("filter=session:", "session:"),
        ("filter=" + "a" * 401, "400"),
        ("filter=" + "a+" * 17, "16"),
        ("after=x", "'x'"),
        ("since=x", "'x'"),
        ("since=1&wait=x", "wait"),
        ("wait=5", "since"),
        ("limit=0", "limit"),
    ],
)
async def test_a_query_that_cannot_be_read_is_refused_with_its_fault(
    observed: Observed, query: str, word: str
) -> None:
    assert word in (await observed.admin.get(f"/admin/traffic?{query}")).problem(400)["detail"]


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


async def test_a_poll_whose_client_leaves_is_shown_so(observed: Observed) -> None:
    session_id = await observed.bridge.open_session()
    poll = await observed.waiting_poll(f"/session/{session_id}?wait=20")
    poll.cancel()
    last = (await observed.admin.get("/admin/traffic")).json["last"]

    changed = (await observed.admin.get(f"/admin/traffic?since={last}&wait=20&filter=is:waits")).json

    assert [(each["number"], each["status"]) for each in changed["requests"]] in ([(2, 499)], [])
    assert (await observed.traffic("?filter=is:waits"))[0]["status"] == 499


async def test_a_client_that_waits_for_news_gets_the_next_request(observed: Observed) -> None:
    await observed.bridge.get("/hello")
    waiting = asyncio.create_task(observed.admin.get("/admin/traffic?since=1&wait=20&filter=route:info"))
    await asyncio.sleep(0)
    await observed.bridge.get("/hello")
    await observed.bridge.get("/info")

    answer = (await waiting).json

    assert [each["route"] for each in answer["requests"]] == ["info"]
    assert change_of(answer["last"]) == 3


async def test_news_come_in_order_and_go_on_where_they_were_cut(observed: Observed) -> None:
    for _ in range(3):
        await observed.bridge.get("/hello")

    first = (await observed.admin.get("/admin/traffic?since=0&limit=2")).json
    second = (await observed.admin.get(f"/admin/traffic?since={first['last']}&limit=2")).json

    assert [each["number"] for each in first["requests"]] == [1, 2]
    assert [each["number"] for each in second["requests"]] == [3]
    assert change_of(second["last"]) == 3


async def test_requests_of_the_operator_and_of_readers_are_left_out(observed: Observed) -> None:
    await observed.admin.get("/admin/projects")
    await observed.admin.get(f"/admin/accounts/{ETHEREUM}/devices")
    page = (await observed.bridge.get("/docs/")).body.decode()
    (stylesheet,) = re.findall(r'href="(/docs/static/docs[^"]*\.css)"', page)
    await observed.bridge.get(stylesheet)

    assert await observed.traffic() == []


async def test_a_refusal_is_recorded_with_its_title(observed: Observed) -> None:
    await observed.bridge.session("none")

    (refused,) = await observed.traffic()

    assert (refused["status"], refused["summary"]) == (404, "Session not found")


async def test_a_webhook_is_a_request_of_the_bridge_without_its_secrets(observed: Observed) -> None:
    async with open_receiver() as receiver:
        receiver.script.append(status(503))
        webhook = receiver.url().replace("http://", "http://user:secret@") + "?token=secret"
        session_id = await observed.bridge.open_session()
        push = {"type": "fcm", "token": "device-token", "webhook": webhook}
        await observed.bridge.update(session_id, push=push)
        await observed.bridge.request_call(session_id)
        query = "?since=0&wait=20&filter=who:bridge"

        (sent,) = (await observed.admin.get(f"/admin/traffic{query}")).json["requests"]

        assert (sent["route"], sent["status"], sent["summary"]) == (
            "webhook",
            503,
            "the receiver answered 503",
        )
        assert sent["path"] == receiver.url()
        assert sent["session"]["id"] == f"{session_id[:8]}…"
        assert "secret" not in str(sent)
        assert "device-token" not in str(sent)


async def test_a_request_to_the_node_is_recorded_by_its_methods(tmp_path: Path) -> None:
    async with observing(tmp_path / "data", node_url="http://127.0.0.1:9", dev_accounts=True) as observed:
        await RpcClient(observed.admin.server).error("eth_blockNumber")

        asked = await observed.traffic("?filter=route:node")

        assert asked
        assert {(each["who"], each["status"], each["path"]) for each in asked} == {("bridge", 0, "node_url")}
        assert any(
            each["summary"].startswith("eth_blockNumber · The node cannot be reached") for each in asked
        )


async def test_the_stream_has_what_comes_and_completes_what_waited(observed: Observed) -> None:
    session_id = await observed.bridge.open_session()
    async with stream_of(observed, "?filter=-route:update-session") as stream:
        poll = await observed.waiting_poll(f"/session/{session_id}?wait=20")
        waiting = await stream.next()
        await observed.bridge.update(session_id)
        await poll
        answered = await stream.next()

    assert (waiting["number"], waiting["status"]) == (2, None)
    assert (answered["number"], answered["status"]) == (2, 200)


async def test_a_stream_goes_on_after_the_last_event(observed: Observed) -> None:
    for path in ("/hello", "/info", "/hello"):
        await observed.bridge.get(path)

    async with stream_of(observed, **{"Last-Event-ID": "1"}) as stream:
        assert [(await stream.next())["route"] for _ in range(2)] == ["info", "hello"]


async def test_of_many_requests_at_once_the_newest_are_streamed(observed: Observed) -> None:
    for _ in range(150):
        await observed.bridge.get("/hello")

    async with stream_of(observed, "?since=0") as stream:
        first = await stream.next()
        for _ in range(99):
            last = await stream.next()

    assert (first["number"], last["number"]) == (51, 150)


async def test_only_so_many_streams_may_be_open(observed: Observed) -> None:
    server = observed.admin.server
    headers = {"Authorization": BEARER}
    url = f"{server.url}/admin/traffic/stream"
    streams = [await server.client.get(url, headers=headers) for _ in range(MOST_STREAMS)]

    refused = await ask(server, "GET", "/admin/traffic/stream", headers=headers)

    assert refused.problem(429)["type"].endswith("too-many-streams")
    for stream in streams:
        stream.close()


async def test_streams_end_when_the_server_stops(tmp_path: Path) -> None:
    async with aiohttp.ClientSession() as client:
        async with observing(tmp_path / "data") as observed:
            url, headers = f"{observed.admin.server.url}/admin/traffic/stream", {"Authorization": BEARER}
            stream = await client.get(url, headers=headers)

        assert await stream.text() == "retry: 2000\n\n"


@each_row("setting", [False, None])
async def test_without_a_record_the_answer_says_how_to_keep_one(tmp_path: Path, setting: bool | None) -> None:
    async with observing(tmp_path / "data", traffic=setting) as observed:
        for path in ("", "/1", "/stream"):
            problem = (await observed.admin.get(f"/admin/traffic{path}")).problem(404)

            assert problem["type"].endswith("traffic-off")
            assert "traffic = on" in problem["detail"]


async def test_in_test_mode_the_contents_are_shown(tmp_path: Path) -> None:
    async with observing(tmp_path / "data", traffic=False, test=True) as observed:
        session_id = await observed.bridge.open_session()
        await observed.bridge.request_call(session_id, "payload")

        called, _ = sorted(await observed.traffic(), key=lambda each: -each["number"])

        assert called["path"] == f"/session/{session_id}/call/new"
        assert '"payload"' in called["request"]["body"]
        assert called["call"]["handle"]


async def test_only_so_many_waiting_polls_are_shown(
    observed: Observed, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert MOST_WAITING == 2_000
    monkeypatch.setattr("bridge_server.web.traffic.MOST_WAITING", 2)
    session_id = await observed.bridge.open_session()
    polls = [await observed.waiting_poll(f"/session/{session_id}?wait=20") for _ in range(3)]

    shown = [each["number"] for each in await observed.traffic("?filter=is:waits")]
    await observed.bridge.update(session_id)
    await asyncio.gather(*polls)

    assert shown == [4, 3]
    assert len(await observed.traffic("?filter=is:waits -status:204")) == 3
