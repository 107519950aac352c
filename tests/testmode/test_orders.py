"""The orders of a test: moves of the clock, whose due work is done with the answer, and faults."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest

from bridge_server.kernel.clock import MovableClock
from bridge_server.kernel.sweeper import Sweeper
from bridge_server.kit.testing.fake_node import open_fake_node
from tests.support.asking import pointers, until_waiting
from tests.support.project import look
from tests.support.rows import each_row
from tests.support.rpc_client import DEVELOPMENT_ADDRESS, RpcClient
from tests.support.webhook_receiver import open_receiver, status
from tests.testmode.conftest import Controlled, controlling, parked, webhook_for

DAY = timedelta(days=1)


async def test_sessions_and_polls_end_with_an_advanced_clock(controlled: Controlled) -> None:
    session_id = await controlled.server.open_session()
    before = await controlled.control.clock.now()
    async with parked(controlled, f"/session/{session_id}?wait=20") as poll:
        early = await controlled.control.clock.advance(hours=23)
        assert (early.swept, (await controlled.get(f"/session/{session_id}")).status) == (0, 204)
        await until_waiting(controlled.server, 1)
        assert not poll.done()
        moved = await controlled.control.clock.advance(hours=1, seconds=1)
        assert (await poll).status == 404
    assert (moved.now, moved.swept) == (before.now + DAY + timedelta(seconds=1), 1)
    assert (await controlled.get(f"/session/{session_id}")).status == 404
    assert look(controlled.server, "SELECT COUNT(*) FROM sessions") == [(0,)]


async def test_a_retry_that_becomes_due_is_made_before_the_answer(controlled: Controlled) -> None:
    async with open_receiver() as receiver:
        session_id = await webhook_for(controlled, receiver)
        receiver.script.append(status(500))
        await controlled.server.request_call(session_id)
        (failed,) = await controlled.control.sent(channel="webhook", wait=20)
        moved = await controlled.control.clock.advance(minutes=10)
        assert (failed.outcome, moved.delivered) == ("failed", 1)
        assert len(receiver.requests) == 2
        assert [each.outcome for each in await controlled.control.sent()] == ["failed", "delivered"]
        assert look(controlled.server, "SELECT COUNT(*) FROM outbox") == [(0,)]


async def test_a_pause_that_a_service_asked_for_is_over(controlled: Controlled) -> None:
    await controlled.control.faults.set(
        [{"where": "fcm", "answer": "UNAVAILABLE", "retry_after": 3_600, "times": 1}]
    )
    session_id = await controlled.server.open_session()
    assert (await controlled.push.register(type="fcm", topic=session_id)).status == 200
    await controlled.server.request_call(session_id)
    await controlled.control.sent(channel="fcm", wait=20)
    early = await controlled.control.clock.advance(minutes=30)
    late = await controlled.control.clock.advance(hours=1)
    assert (early.delivered, late.delivered) == (0, 1)


async def test_a_clock_stands_still_while_it_is_frozen(controlled: Controlled) -> None:
    moment = datetime(2027, 6, 1, 12, tzinfo=UTC)
    moved = await controlled.control.clock.set(moment, frozen=True)
    controlled.server.clock.advance(5)
    assert moved.frozen
    assert (await controlled.control.clock.now()).now == moment
    advanced = await controlled.control.clock.advance(hours=1)
    assert (advanced.now, advanced.frozen) == (moment + timedelta(hours=1), True)
    await controlled.control.clock.set(moment)
    controlled.server.clock.advance(5)
    assert (await controlled.control.clock.now()).now == moment + timedelta(seconds=5)


async def test_rate_limits_recover_and_an_unlocked_account_locks(tmp_path: Path) -> None:
    settings = {"quota_exempt": "none", "sessions_per_minute": 1, "sessions_burst": 1, "light_kdf": True}
    async with controlling(tmp_path / "data", **settings) as controlled:
        await controlled.server.open_session()
        refused = await controlled.send("POST", "/session/new")
        rpc = RpcClient(controlled.server)
        account = await rpc.call("personal_newAccount", "correct horse")
        await rpc.call("personal_unlockAccount", account, "correct horse", 60)
        await rpc.call("eth_sign", account, "0x00")
        await controlled.control.clock.advance(seconds=61)
        assert (refused.status, (await controlled.send("POST", "/session/new")).status) == (429, 200)
        assert (await rpc.error("eth_sign", account, "0x00")).code == 4100


async def test_a_request_for_approval_expires_for_its_client(tmp_path: Path) -> None:
    async with controlling(tmp_path / "data", dev_accounts=True, approve="queue") as controlled:
        rpc = RpcClient(controlled.server)
        asked = asyncio.create_task(rpc.error("personal_sign", "0x68", DEVELOPMENT_ADDRESS))
        await until_waiting(controlled.server, 1)
        await controlled.control.clock.advance(hours=1)
        assert "Nobody approved the request" in (await asked).message
        assert look(controlled.server, "SELECT state FROM wallet_approvals") == [("expired",)]


async def test_a_transaction_that_waits_for_the_node_is_broadcast_before_the_answer(tmp_path: Path) -> None:
    async with (
        open_fake_node() as node,
        controlling(tmp_path / "data", dev_accounts=True, node_url=node.url) as controlled,
    ):
        away = {"where": "node", "route": "eth_sendRawTransaction", "drop": True}
        await controlled.control.faults.set([away])
        fields = {"from": DEVELOPMENT_ADDRESS, "to": DEVELOPMENT_ADDRESS, "value": "0x1"}
        sent = await RpcClient(controlled.server).call("eth_sendTransaction", fields)
        before = len(node.sent())
        await controlled.control.faults.set([])
        await controlled.control.clock.advance(minutes=2)
        assert (int(sent, 16), before, len(node.sent())) == (0, 0, 1)


async def test_the_sweeper_does_not_mistake_a_moved_clock_for_a_wrong_one() -> None:
    clock = MovableClock()
    swept = asyncio.Event()

    async def sweep(_: int) -> int:
        swept.set()
        return 0

    sweeper = Sweeper([sweep], clock, 0.0, minds_jumps=False)
    clock.set(1_000_000_000_000_000, frozen=False)
    task = asyncio.create_task(sweeper.run_forever())
    async with asyncio.timeout(60):
        await swept.wait()
    task.cancel()


async def test_a_malformed_move_changes_nothing(controlled: Controlled) -> None:
    before = await controlled.control.clock.now()
    for body, pointer in (
        (b"{}", "#"), (b'{"advance": 1, "now": "2027-01-15T08:00:00Z"}', "#"),
        (b'{"advance": -1}', "#/advance"), (b'{"advance": 1e300}', "#/advance"),
        (b'{"advance": true}', "#/advance"), (b'{"advance": "1 day"}', "#/advance"),
        (b'{"advance": 1, "frozen": true}', "#/frozen"),
        (b'{"now": "tomorrow"}', "#/now"), (b'{"now": 1800000000}', "#/now"),
        (b'{"now": "1999-12-31T23:59:59Z"}', "#/now"), (b'{"now": "2200-01-01T00:00:00Z"}', "#/now"),
        (b'{"now": "2027-01-15T08:00:00Z", "frozen": 1}', "#/frozen"),
    ):  # fmt: skip
        assert pointers((await controlled.send("PUT", "/_test/clock", body)).problem(400)) == [pointer], body
        assert await controlled.control.clock.now() == before


async def hits(controlled: Controlled) -> list[int]:
    return [rule["hits"] for rule in await controlled.control.faults.list()]


async def test_requests_of_a_route_fail_after_some_and_so_many_times(controlled: Controlled) -> None:
    rule = {"where": "request", "route": "hello", "status": 503, "retry_after": 7, "after": 1, "times": 2}
    await controlled.control.faults.set([rule])
    answers = [await controlled.get("/hello") for _ in range(4)]
    assert [answer.status for answer in answers] == [200, 503, 503, 200]
    assert answers[1].headers["Retry-After"] == "7"
    assert answers[1].problem(503)["type"] == "urn:bridge-server:problem:ordered-fault"
    assert await controlled.control.faults.list() == [{**rule, "hits": 2}]


async def test_the_routes_of_every_room_can_fail_by_their_names_or_requests(controlled: Controlled) -> None:
    for named, method, path, route in (
        ("readyz", "GET", "/readyz", "readyz"),
        ("metrics", "GET", "/metrics", "metrics"),
        ("rpc", "POST", "/rpc", "rpc"),
        ("open-session", "POST", "/session/new", "open-session"),
        ("POST /session/new", "POST", "/session/new", "open-session"),
        ("GET /session/{id}/calls", "GET", "/session/x/calls", "calls"),
    ):
        await controlled.control.faults.set([{"where": "request", "route": named, "status": 503}])
        assert (await controlled.send(method, path)).status == 503, named
        (rule,) = await controlled.control.faults.list()
        assert rule["route"] == route


async def test_the_first_rule_that_applies_wins_and_control_routes_pass(controlled: Controlled) -> None:
    rules = [{"where": "request", "route": "hello", "status": 429, "times": 1}]
    await controlled.control.faults.set(rules)
    assert (await controlled.get("/info")).status == 200
    refused = await controlled.send("GET", "/hello", Origin="https://dapp.example")
    assert (refused.status, refused.headers["Access-Control-Allow-Origin"]) == (429, "*")
    await controlled.control.faults.set([*rules, {"where": "request", "status": 500}])
    assert [(await controlled.get("/hello")).status for _ in range(2)] == [429, 500]
    assert await hits(controlled) == [1, 1]


async def test_a_request_is_answered_late_or_never(controlled: Controlled) -> None:
    drop = {"where": "request", "route": "open-session", "drop": True, "times": 1}
    late = {"where": "request", "route": "open-session", "delay_ms": 20}
    await controlled.control.faults.set([drop, late])
    with pytest.raises(aiohttp.ClientError):
        await controlled.send("POST", "/session/new")
    assert await controlled.server.open_session()
    assert await hits(controlled) == [1, 1]


@each_row(
    ("rule", "outcome"),
    [({"status": 500}, "failed"), ({"drop": True}, "failed"), ({"status": 410}, "gone"),
     ({"status": 202}, "delivered")],
    empties=True,
)  # fmt: skip
async def test_a_webhook_fails_uncalled(controlled: Controlled, rule: dict[str, Any], outcome: str) -> None:
    async with open_receiver() as receiver:
        await controlled.control.faults.set([{"where": "webhook", **rule}])
        await controlled.server.request_call(await webhook_for(controlled, receiver))
        (sent,) = await controlled.control.sent(channel="webhook", wait=20)
        assert (sent.outcome, receiver.requests) == (outcome, [])


ANSWERS = {
    "fcm": ("UNREGISTERED", "UNAVAILABLE", "INVALID_ARGUMENT", "PERMISSION_DENIED"),
    "apns": ("Unregistered", "TooManyRequests", "PayloadTooLarge", "InvalidProviderToken"),
    "webpush": ("Gone", "Too Many Requests", "Payload Too Large", "invalid JWT"),
}


@each_row("channel", ANSWERS)
async def test_a_push_service_fails_in_its_own_words(controlled: Controlled, channel: str) -> None:
    faults: list[tuple[dict[str, Any], str]] = [({"status": 503}, "failed"), ({"drop": True}, "failed")]
    answers = zip(ANSWERS[channel], ("gone", "failed", "refused", "blocked"), strict=True)
    faults += [({"answer": answer}, outcome) for answer, outcome in answers]  # a blocked channel stays so
    for fault, outcome in faults:
        await controlled.control.faults.set([{"where": channel, **fault, "times": 1}])
        session_id = await controlled.server.open_session()
        assert (await controlled.push.register(type=channel, topic=session_id)).status == 200
        await controlled.server.request_call(session_id)
        (sent,) = await controlled.control.sent(channel=channel, topic=session_id, wait=20)
        assert (sent.outcome, await hits(controlled)) == (outcome, [1]), fault


async def test_a_token_that_is_called_dead_is_unregistered(controlled: Controlled) -> None:
    await controlled.control.faults.set([{"where": "fcm", "answer": "UNREGISTERED"}])
    await controlled.push.register(type="fcm")
    answer = await controlled.push.push()
    assert answer.status == 410
    assert controlled.push.registrations() == []


@pytest.mark.sqlite("faults of the disk are of a file")
@each_row("answer", ["full", "locked"], empties=True)
async def test_a_disk_that_does_not_take_a_write(controlled: Controlled, answer: str) -> None:
    await controlled.control.faults.set([{"where": "disk", "answer": answer}])
    refused = await controlled.send("POST", "/session/new")
    await controlled.control.faults.set([])
    assert refused.problem(503)
    assert refused.headers["Retry-After"]
    assert look(controlled.server, "SELECT COUNT(*) FROM sessions") == [(0,)]
    assert await controlled.server.open_session()


async def test_a_node_that_is_away_and_a_node_that_refuses(tmp_path: Path) -> None:
    async with (
        open_fake_node() as node,
        controlling(tmp_path / "data", dev_accounts=True, node_url=node.url) as controlled,
    ):
        rpc = RpcClient(controlled.server)
        await controlled.control.faults.set([{"where": "node", "drop": True}])
        away = await rpc.error("eth_gasPrice")
        price = {"where": "node", "route": "eth_gasPrice"}
        await controlled.control.faults.set([{**price, "answer": "header not found"}])
        refused = await rpc.error("eth_gasPrice")
        await controlled.control.faults.set([{**price, "status": 502}])
        broken = await rpc.error("eth_gasPrice")
        await controlled.control.faults.set([])

        assert (away.code, refused.message, broken.code) == (4900, "header not found", 4900)
        assert await rpc.call("eth_gasPrice") == "0x3b9aca00"


async def test_malformed_rules_change_nothing_and_are_told_the_right_names(controlled: Controlled) -> None:
    (before,) = await controlled.control.faults.set([{"where": "request", "route": "info", "status": 500}])
    request, dropped = {"where": "request", "status": 503}, {"where": "fcm", "drop": True}
    faults: list[tuple[Any, list[str], str]] = [
        ({"where": "request"}, ["#"], ""),
        ([{"where": "requests", "status": 500}], ["#/0/where"], ""),
        ([{"where": "request"}], ["#/0"], ""),
        ([{**request, "status": 200}], ["#/0"], ""),
        ([{**request, "status": 600}], ["#/0/status"], ""),
        ([{**request, "answer": "full"}], ["#/0/answer"], ""),
        ([{**dropped, "route": "hello"}], ["#/0"], ""),
        ([{"where": "fcm", "answer": "Unregistered"}], ["#/0/answer"], ""),
        ([{"where": "disk", "drop": True}], ["#/0"], ""),
        ([{"where": "disk", "answer": "broken"}], ["#/0/answer"], ""),
        ([{**dropped, "times": 0, "after": -1}], ["#/0/after", "#/0/times"], ""),
        ([dropped, {"where": "fcm", "answer": "X"}], ["#/1/answer"], ""),
        ([dropped] * 101, ["#"], ""),
        ([{**request, "route": "open-sesion"}], ["#/0/route"],
         "is not known. Did you mean open-session (POST /session/new)"),
        ([{**request, "route": "?"}], ["#/0/route"], "hello (GET /hello), "),
        ([{**request, "statsu": 503}], ["#/0/statsu"], "is no member of a rule. Did you mean status?"),
        ([{**request, "xyzzy": 503}], ["#/0/xyzzy"], "is no member of a rule. Known: after, answer, "),
    ]  # fmt: skip
    for rules, where, detail in faults:
        problem = (await controlled.send("PUT", "/_test/faults", orjson.dumps(rules))).problem(400)
        assert pointers(problem) == where, rules
        assert detail in problem["errors"][0]["detail"]
        assert await controlled.control.faults.list() == [before]
