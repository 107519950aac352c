"""The clock of test mode: what becomes due is done when the answer comes."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

from bridge_server.kernel.clock import MovableClock
from bridge_server.kernel.sweeper import Sweeper
from bridge_server.kit.testing.fake_node import open_fake_node
from tests.support.figures import until_waiting
from tests.support.project import look
from tests.support.rows import each_row
from tests.support.rpc_client import DEVELOPMENT_ADDRESS, RpcClient
from tests.support.webhook_receiver import open_receiver, status
from tests.testmode.conftest import Controlled, controlling, parked, webhook_for

DAY = timedelta(days=1)
PASSPHRASE = "correct horse"


async def test_an_advanced_clock_expires_sessions_and_sweeps_them(controlled: Controlled) -> None:
    session_id = await controlled.server.open_session()
    before = await controlled.control.clock.now()

    moved = await controlled.control.clock.advance(days=1, seconds=1)

    assert (moved.now, moved.swept) == (before.now + DAY + timedelta(seconds=1), 1)
    assert (await controlled.get(f"/session/{session_id}")).status == 404
    assert look(controlled.server, "SELECT COUNT(*) FROM sessions") == [(0,)]


async def test_a_session_that_is_not_due_stays(controlled: Controlled) -> None:
    session_id = await controlled.server.open_session()

    moved = await controlled.control.clock.advance(hours=23)

    assert moved.swept == 0
    assert (await controlled.get(f"/session/{session_id}")).status == 204


async def test_a_parked_poll_learns_that_its_session_has_expired(controlled: Controlled) -> None:
    session_id = await controlled.server.open_session()

    async with parked(controlled, f"/session/{session_id}?wait=20") as poll:
        await controlled.control.clock.advance(days=2)

        assert (await poll).status == 404


async def test_a_parked_poll_goes_on_when_nothing_of_it_has_expired(controlled: Controlled) -> None:
    session_id = await controlled.server.open_session()

    async with parked(controlled, f"/session/{session_id}?wait=20") as poll:
        await controlled.control.clock.advance(hours=1)
        await until_waiting(controlled.server, 1)

        assert not poll.done()


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


async def test_a_clock_that_is_set_and_frozen_stands_still(controlled: Controlled) -> None:
    moment = datetime(2027, 6, 1, 12, tzinfo=UTC)

    moved = await controlled.control.clock.set(moment, frozen=True)
    controlled.server.clock.advance(5)

    assert moved.frozen
    assert (await controlled.control.clock.now()).now == moment


async def test_a_frozen_clock_is_advanced_and_stays_frozen(controlled: Controlled) -> None:
    moment = datetime(2027, 6, 1, 12, tzinfo=UTC)
    await controlled.control.clock.set(moment, frozen=True)

    moved = await controlled.control.clock.advance(hours=1)

    assert (moved.now, moved.frozen) == (moment + timedelta(hours=1), True)


async def test_a_clock_that_is_set_goes_on_from_there(controlled: Controlled) -> None:
    moment = datetime(2029, 6, 1, 12, tzinfo=UTC)
    await controlled.control.clock.set(moment)

    controlled.server.clock.advance(5)

    assert (await controlled.control.clock.now()).now == moment + timedelta(seconds=5)


async def test_rate_limits_recover(tmp_path: Path) -> None:
    settings = {"quota_exempt": "none", "sessions_per_minute": 1, "sessions_burst": 1}
    async with controlling(tmp_path / "data", **settings) as controlled:
        await controlled.server.open_session()
        refused = await controlled.send("POST", "/session/new")

        await controlled.control.clock.advance(minutes=1)

        assert refused.status == 429
        assert (await controlled.send("POST", "/session/new")).status == 200


async def test_an_unlocked_account_locks(tmp_path: Path) -> None:
    async with controlling(tmp_path / "data", light_kdf=True) as controlled:
        rpc = RpcClient(controlled.server)
        account = await rpc.call("personal_newAccount", PASSPHRASE)
        await rpc.call("personal_unlockAccount", account, PASSPHRASE, 60)
        await rpc.call("eth_sign", account, "0x00")

        await controlled.control.clock.advance(seconds=61)

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


@each_row(
    ("body", "pointer"),
    [
        (b"{}", "#"),
        (b'{"advance": 1, "now": "2027-01-15T08:00:00Z"}', "#"),
        (b'{"advance": -1}', "#/advance"),
        (b'{"advance": 1e300}', "#/advance"),
        (b'{"advance": true}', "#/advance"),
        (b'{"advance": "1 day"}', "#/advance"),
        (b'{"advance": 1, "frozen": true}', "#/frozen"),
        (b'{"now": "tomorrow"}', "#/now"),
        (b'{"now": 1800000000}', "#/now"),
        (b'{"now": "1999-12-31T23:59:59Z"}', "#/now"),
        (b'{"now": "2200-01-01T00:00:00Z"}', "#/now"),
        (b'{"now": "2027-01-15T08:00:00Z", "frozen": 1}', "#/frozen"),
    ],
)
async def test_a_malformed_move_changes_nothing(controlled: Controlled, body: bytes, pointer: str) -> None:
    before = await controlled.control.clock.now()

    answer = await controlled.send("PUT", "/_test/clock", body)

    assert [each["pointer"] for each in answer.problem(400)["errors"]] == [pointer]
    assert await controlled.control.clock.now() == before
