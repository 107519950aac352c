"""Approvals: what is asked, decisions, timeouts, clients that leave, servers that stop."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest

from bridge_server.assembly.command_line import operations
from bridge_server.kit.testing.fake_node import FakeNode
from bridge_server.wallet.models import Address, ApprovalId, ApprovalRequest, ApprovalState, Caller
from tests.ethereum.typed_data_examples import mail, one_value
from tests.support.asking import ask
from tests.support.clock import PassTime
from tests.support.engines import settings_over
from tests.support.rpc_client import result_of
from tests.wallet.rig import ALICE, BOB, Desk, open_desk, open_rig, transaction

KEY = "0x4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318"
LOCKABLE = "0x2c7536e3605d9c16a7a3d7b1898e529396a65c23"
PASSPHRASE = "correct horse battery staple"
MESSAGE = "0x68656c6c6f"
TRANSACTION = {"from": ALICE, "to": BOB, "gas": "0x5208", "gasPrice": "0x1", "nonce": "0x0"}
LARGE = one_value("uint256", 2**256 - 1)
APPROVED, REJECTED, EXPIRED = ApprovalState.APPROVED, ApprovalState.REJECTED, ApprovalState.EXPIRED
A_DAY = 86_400


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with open_desk(tmp_path / "data") as desk:
        yield desk


@pytest.mark.parametrize(("method", "params", "subject"), [
    ("personal_sign", (MESSAGE, ALICE), MESSAGE), ("eth_sign", (ALICE, MESSAGE), MESSAGE),
    ("eth_signTypedData", (ALICE, mail()), {**mail(), "walletChainId": "0x7a69"}),
    (
        "eth_signTypedData_v4", (ALICE, json.dumps({**LARGE, "walletChainId": "0x1", "more": 1})),
        {**LARGE, "walletChainId": "0x7a69"},
    ),
])  # fmt: skip
async def test_a_signature_is_made_when_it_is_approved_and_not_before(
    desk: Desk, method: str, params: tuple[Any, ...], subject: Any
) -> None:
    asking = desk.asks(method, *params)
    [approval] = await desk.pending()
    assert desk.audit_log == b""
    assert (approval.method, approval.address) == (method, ALICE)
    assert json.loads(approval.subject) == subject
    assert await desk.decide(approval, APPROVED)
    assert len(await asking) == 132
    assert orjson.loads(desk.audit_log)["approval"] == approval.approval_id


async def test_typed_data_is_shown_without_the_wallets_chain_when_it_is_unknown(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"dev_accounts": True, "node_url": "http://127.0.0.1:1"}
    async with open_desk(tmp_path / "data", **settings) as desk:
        asking = desk.asks("eth_signTypedData", ALICE, mail())
        approval = await desk.decide_next(APPROVED)
        await asking
    assert orjson.loads(approval.subject) == mail()


async def test_a_request_not_approved_in_time_is_never_signed(tmp_path: Path, pass_time: PassTime) -> None:
    async with open_desk(tmp_path / "data", approval_timeout=30) as desk:
        asking = asyncio.create_task(desk.rpc.error("personal_sign", MESSAGE, ALICE))
        [approval] = await desk.pending()
        await pass_time(30)
        error = await asking
        assert (error.code, error.message) == (4001, "Nobody approved the request within 30 s.")
        assert not await desk.decide(approval, APPROVED)
        assert await desk.state(approval) is EXPIRED
        assert desk.audit_log == b""


async def test_requests_expire_when_their_client_leaves(desk: Desk) -> None:
    leaving = asyncio.create_task(desk.rpc.batch([("eth_sign", ALICE, MESSAGE)] * 3))
    left = await desk.pending(3)
    staying = desk.asks("eth_sign", ALICE, MESSAGE)
    await desk.pending(4)

    leaving.cancel()

    for each in left:
        await desk.until(each, EXPIRED)
        assert not await desk.decide(each, APPROVED)
    await desk.decide_next(APPROVED)
    assert len(await staying) == 132


async def test_no_request_stays_pending_whenever_its_client_leaves(tmp_path: Path) -> None:
    async with open_rig(tmp_path, None, approve="queue", broadcasts=False) as rig:
        for steps in range(20):
            asking = asyncio.create_task(
                rig.wallet.approvals.approved("eth_sign", Address(ALICE), b'"0x"', Caller("127.0.0.1"))
            )
            for _ in range(steps):
                await asyncio.sleep(0)
            asking.cancel()
            await asyncio.wait([asking])

            await rig.wallet.approvals.withdrawn()
            assert await rig.approval_store.pending(rig.clock.now_ms()) == []
            assert rig.wallet.approvals.waiting == 0


async def test_a_stopping_server_answers_pending_requests_at_once(tmp_path: Path) -> None:
    async with aiohttp.ClientSession() as outliving:
        async with open_desk(tmp_path / "data") as desk:
            body = orjson.dumps(desk.rpc.request("personal_sign", MESSAGE, ALICE))
            asking = asyncio.create_task(ask(desk.server, "POST", "/rpc", body, client=outliving))
            [approval] = await desk.pending()
        error = (await asking).json["error"]

    async with operations(desk.server.settings) as opened:
        found = await opened.approvals.get(approval.approval_id)

    assert error["code"] == -32002
    assert error["message"].startswith("Nothing was signed: the server stops")
    assert found is not None
    assert found.state is EXPIRED


async def test_pending_requests_expire_when_the_server_starts_after_a_kill(tmp_path: Path) -> None:
    settings = settings_over(tmp_path / "data")
    (tmp_path / "data").mkdir()
    async with operations(settings) as opened:
        number, now_ms = ApprovalId("0b7e3c1a-5f0e-4d57-8f7b-2f3f0f3c9f11"), opened.clock.now_ms()
        caller, until_ms = Caller("127.0.0.1"), now_ms + 60_000
        left_behind = ApprovalRequest(
            number, "personal_sign", Address(ALICE), orjson.dumps(MESSAGE), caller, now_ms, until_ms
        )
        await opened.approvals.add(left_behind)

    async with open_desk(settings.data_dir) as desk:
        assert await desk.state(left_behind) is EXPIRED


async def test_decisions_in_any_order_are_answered_in_the_order_of_the_batch(desk: Desk) -> None:
    calls = [("personal_sign", message, ALICE) for message in ("0x01", "0x02", "0x03")]
    asking = asyncio.create_task(desk.rpc.batch([*calls, ("eth_accounts",)]))
    waiting = {orjson.loads(approval.subject): approval for approval in await desk.pending(3)}
    for message, state in [("0x03", APPROVED), ("0x02", REJECTED), ("0x01", APPROVED)]:
        assert await desk.decide(waiting[message], state)
    first, second, third, accounts = await asking
    for message, signed in (("0x01", first), ("0x03", third)):
        assert await desk.rpc.call("personal_ecRecover", message, result_of(signed)) == ALICE
    assert (second["error"]["code"], len(result_of(accounts))) == (4001, 10)


async def test_the_number_of_pending_requests_is_limited(desk: Desk) -> None:
    asking = asyncio.create_task(desk.rpc.batch([("eth_sign", ALICE, MESSAGE)] * 64))
    waiting = await desk.pending(64)

    error = await desk.rpc.error("eth_sign", ALICE, MESSAGE)
    for approval in waiting:
        assert await desk.decide(approval, REJECTED)
    await asking
    later = desk.asks("eth_sign", ALICE, MESSAGE)
    await desk.decide_next(APPROVED)

    assert (error.code, error.message[:33]) == (-32005, "64 requests wait to be approved: ")
    assert len(await later) == 132


async def test_a_request_that_would_fail_anyway_needs_no_approval(desk: Desk) -> None:
    unknown = "0x00000000000000000000000000000000000000aa"
    for method, params, code in [
        ("personal_sign", (MESSAGE, unknown), 4100),
        ("personal_sign", ("hello", ALICE), -32602),
        ("eth_signTransaction", ({**TRANSACTION, "chainId": "0x1"},), -32602),
    ]:
        assert (await desk.rpc.error(method, *params)).code == code, params
    assert await desk.pending(0) == []


async def test_a_lock_counts_at_the_decision_and_a_passphrase_is_good_until_then(desk: Desk) -> None:
    await desk.rpc.call("personal_importRawKey", KEY, PASSPHRASE)
    await desk.rpc.call("personal_unlockAccount", LOCKABLE, PASSPHRASE)
    asking = [
        asyncio.create_task(desk.rpc.error("eth_sign", LOCKABLE, MESSAGE)),
        asyncio.create_task(desk.rpc.error("eth_signTransaction", {**TRANSACTION, "from": LOCKABLE})),
    ]
    approvals = await desk.pending(2)

    await desk.rpc.call("personal_lockAccount", LOCKABLE)
    for approval in approvals:
        await desk.decide(approval, APPROVED)

    assert [(await each).code for each in asking] == [4100, 4100]
    assert desk.audit_log == b""
    signing = desk.asks("personal_sign", MESSAGE, LOCKABLE, PASSPHRASE)
    await desk.decide_next(APPROVED)
    assert await desk.rpc.call("personal_ecRecover", MESSAGE, await signing) == LOCKABLE


async def test_a_transaction_is_shown_as_it_would_be_signed(tmp_path: Path, fake: FakeNode) -> None:
    async with open_desk(tmp_path / "data", node_url=fake.url) as desk:
        signing = desk.asks("eth_signTransaction", transaction())
        shown = orjson.loads((await desk.decide_next(APPROVED)).subject)
        filled = {"chainId": "0x7a69", "gasPrice": "0x3b9aca00", "gas": "0x15f90"}
        assert {name: shown[name] for name in filled} == filled
        assert (await signing).startswith("0xf8")

        rejected = asyncio.create_task(desk.rpc.error("eth_sendTransaction", transaction()))
        await desk.decide_next(REJECTED)
        assert (await rejected).code == 4001
        assert await desk.rpc.call("wallet_getQueuedTransaction") is None
        assert fake.sent() == []


async def test_a_pending_transaction_delays_no_other(tmp_path: Path, fake: FakeNode) -> None:
    async with open_desk(tmp_path / "data", node_url=fake.url) as desk:
        waiting = desk.asks("eth_sendTransaction", transaction())
        [first] = await desk.pending()
        passing = desk.asks("eth_sendTransaction", transaction(value="0x2"))
        _, second = await desk.pending(2)

        await desk.decide(second, APPROVED)
        sent = await passing
        assert not waiting.done()
        await desk.decide(first, APPROVED)

        queued = [await desk.rpc.call("wallet_getQueuedTransaction", each) for each in (sent, await waiting)]
        assert [each["nonce"] for each in queued] == ["0x0", "0x1"]


async def test_decided_requests_are_forgotten_after_a_while_and_waiting_ones_are_not(tmp_path: Path) -> None:
    keeping = {"settled_request_ttl": A_DAY, "approval_timeout": 10 * A_DAY, "sweep_interval": 0.01}
    async with open_desk(tmp_path / "data", **keeping) as desk:
        asking = desk.asks("personal_sign", MESSAGE, ALICE)
        [approval] = await desk.pending()
        desk.server.clock.advance(9 * A_DAY)
        assert await desk.decide(approval, APPROVED)
        assert len(await asking) == 132
        desk.server.clock.advance(2 * A_DAY)
        await desk.until(approval, None)
