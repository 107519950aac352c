"""Nothing that was asked for is lost: nodes that are down, killed, forgetful; servers that end in between.

White-box: failures of the database are patched in: no client can order them at this moment.
"""

import asyncio
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import aiohttp
import orjson
import pytest

from bridge_server.kernel.background import running
from bridge_server.kernel.errors import UnavailableError
from bridge_server.kit.testing.fake_node import Answer, FakeNode, RpcFailure, body, hang, open_fake_node, says
from bridge_server.kit.testing.server import ServerProcess
from bridge_server.wallet.models import ApprovalRequest, ApprovalState, TransactionRefusedError
from bridge_server.wallet.transactions.store import TransactionStore
from tests.support.clock import ManualClock, PassTime
from tests.support.programs import free_ports
from tests.support.rows import each_row
from tests.support.rpc_client import RpcClient
from tests.support.server import running_server, server_process
from tests.support.waiting import eventually
from tests.wallet.rig import ZERO_HASH, Rig, open_rig, signed_elsewhere, transaction


@pytest.fixture
def absent() -> FakeNode:
    """A node that is away: nothing listens on its port."""
    return FakeNode(free_ports(1)[0])


async def test_a_mined_transaction_is_settled_and_swept(rig: Rig, fake: FakeNode) -> None:
    sent = await rig.send()
    fake.results["eth_getTransactionCount"] = "0x1"
    fake.results["eth_getTransactionByHash"] = {"hash": sent, "blockNumber": "0x1"}
    rig.clock.advance(61)
    await rig.until("mined", sent)
    assert await rig.sweep() == 0
    rig.clock.advance(rig.settings.settled_request_ttl + 1)
    assert await rig.sweep() == 1
    assert await rig.queued(sent) is None


async def test_the_answer_is_the_hash_once_the_node_has_the_transaction(rig: Rig, fake: FakeNode) -> None:
    fake.at("eth_sendRawTransaction", hang)
    sending = asyncio.create_task(rig.send())
    await fake.asked("eth_sendRawTransaction")
    signed = await rig.queued()
    assert signed["state"] == "signed"
    assert not sending.done()
    fake.at("eth_sendRawTransaction", says(-32000, "already known"))
    fake.released.set()
    assert await sending in (signed["hash"], ZERO_HASH)


@each_row("message", [
    *("already known", "known transaction: 5ab1", "transaction already imported", "AlreadyKnown"),
    *("Known transaction", "Transaction with the same hash was already imported."),
    *("ALREADY_EXISTS: already known", "existing tx with same hash", "nonce too low"),
])  # fmt: skip
async def test_a_transaction_the_node_refuses_and_has_is_sent(rig: Rig, fake: FakeNode, message: str) -> None:
    fake.results["eth_sendRawTransaction"] = RpcFailure(-32000, message)
    fake.results["eth_getTransactionByHash"] = {"hash": "0x1", "blockNumber": None}
    sent = await rig.send()
    assert (await rig.queued(sent))["state"] == "sent"


@each_row(("code", "message"), [
    (-32000, "nonce too low: next nonce 5, tx nonce 0"), (-32000, "replacement transaction underpriced"),
    (-32003, "Insufficient funds for gas * price + value"),
    (-32010, "FeeTooLow"),
    (-32005, "Transaction gas limit exceeds block gas limit"),
    (-32603, "Nonce too low. Expected nonce to be 5 but got 4."),
    (-32602, "invalid argument 0: rlp"),
    (-32601, "the method eth_sendRawTransaction does not exist"),
    (3, "execution reverted"), (-32000, "unknown transaction type"),
])  # fmt: skip
async def test_a_refusal_frees_the_nonce(rig: Rig, fake: FakeNode, code: int, message: str) -> None:
    fake.at("eth_sendRawTransaction", says(code, message, {"reason": "x"}))
    with pytest.raises(TransactionRefusedError) as refused:
        await rig.send()
    stored = await rig.queued()
    assert refused.value.detail == stored["error"] == message
    sent = await rig.queued(await rig.send())
    assert (sent["state"], sent["nonce"]) == ("sent", stored["nonce"])


@each_row("answer", [
    says(-32603, "Internal error"), says(-32005, "daily request count exceeded, request rate limited"),
    says(-32000, "txpool is full"), body("busy", 503), body("<html>"),
], ids=range(5))  # fmt: skip
async def test_stored_bytes_are_sent_after_a_failure(idle_rig: Rig, fake: FakeNode, answer: Answer) -> None:
    rig, before = idle_rig, len(set(fake.sent()))
    fake.at("eth_sendRawTransaction", answer)

    assert await rig.send() == ZERO_HASH
    signed = await rig.queued()
    assert (signed["state"], signed["attempts"]) == ("signed", 1)
    assert signed["error"]

    async with running(rig.wallet.worker.run_forever()):
        rig.clock.advance(61)
        sent = await rig.until("arrived", signed["id"])
    assert (sent["hash"], sent["error"]) == (signed["hash"], None)
    assert len(set(fake.sent())) == before + 1


async def test_a_node_that_does_not_say_what_it_has_is_asked_again(rig: Rig, fake: FakeNode) -> None:
    fake.at("eth_sendRawTransaction", says(-32000, "nonce too low"))
    fake.at("eth_getTransactionByHash", says(-32603, "busy"))
    assert await rig.send() == ZERO_HASH
    rig.clock.advance(61)
    await rig.until("arrived")


async def test_attempts_come_at_growing_distances(idle_rig: Rig, fake: FakeNode) -> None:
    rig = idle_rig
    fake.results["eth_sendRawTransaction"] = RpcFailure(-32603, "no")
    await rig.send()
    async with running(rig.wallet.worker.run_forever()):
        # The connection that was just opened is a reason to try again at once.
        for attempts, seconds in enumerate([2, 4, 8, 16, 32, 60, 60], 2):
            stored = await rig.until_attempt(attempts)
            assert stored.next_attempt_at_ms == rig.clock.now_ms() + seconds * 1_000
            rig.clock.advance(seconds)


async def test_a_queued_transaction_that_a_node_refuses_is_refused(absent: FakeNode, tmp_path: Path) -> None:
    async with open_rig(tmp_path, absent.url) as rig:
        assert await rig.send() == ZERO_HASH
        assert await rig.send(chainId="0x1", value="0x2") == ZERO_HASH
        async with open_fake_node(absent.port) as fake:
            fake.results["eth_sendRawTransaction"] = RpcFailure(-32000, "insufficient funds")
            rig.clock.advance(61)
            assert (await rig.until("refused", transaction()))["error"] == "insufficient funds"
            other = await rig.until("refused", transaction(chainId="0x1", value="0x2"))
            assert "the wallet is on chain 0x7a69" in other["error"]


async def test_queued_transactions_wait_until_accounts_are_unlocked(absent: FakeNode, tmp_path: Path) -> None:
    async with open_rig(tmp_path, absent.url, light_kdf=True) as rig:
        address = await rig.wallet.accounts.create("secret")
        await rig.wallet.accounts.unlock(address, "secret", 0)
        await rig.send(from_=address)
        rig.wallet.accounts.lock(address)

        async with open_fake_node(absent.port):
            rig.clock.advance(61)
            await rig.until_error("is locked", address)
            await rig.wallet.accounts.unlock(address, "secret", 0)
            await rig.until("arrived", address)


async def test_sends_behind_a_dead_node_fail_together(fake: FakeNode, tmp_path: Path) -> None:
    async with open_rig(tmp_path, fake.url, chain_id=31_337, node_timeout=5) as rig:
        fake.at("eth_chainId", *[hang] * 50)
        sent = await asyncio.gather(*(rig.send(gasPrice="0x1", value=hex(each)) for each in range(50)))
        assert sent == [ZERO_HASH] * 50
        assert fake.methods == ["eth_chainId"]


async def test_transactions_behind_one_that_the_node_does_not_answer_fail_with_it(
    absent: FakeNode, tmp_path: Path
) -> None:
    async with open_rig(tmp_path, absent.url, chain_id=31_337, broadcasts=False, node_timeout=5) as rig:
        for number in range(4):
            await rig.send(gasPrice="0x1", value=hex(number))
        async with open_fake_node(absent.port) as node:
            node.at("eth_sendRawTransaction", *[hang] * 20)
            assert await rig.send(gasPrice="0x1", value="0x100") == ZERO_HASH
            assert node.methods.count("eth_sendRawTransaction") == 1


async def test_a_request_for_one_chain_does_not_go_to_another(fake: FakeNode, tmp_path: Path) -> None:
    clock = ManualClock()
    async with open_rig(tmp_path, fake.url, clock, broadcasts=False) as rig:
        await rig.wallet.node.chain_id()
        fake.results["eth_sendRawTransaction"] = RpcFailure(-32603, "later")
        await rig.send()
        await rig.send(value="0x2")
        assert [each["state"] for each in await rig.waiting()] == ["signed", "queued"]

    async with open_fake_node() as other:
        other.results["eth_chainId"] = "0x1"
        async with open_rig(tmp_path, other.url, clock, approve="queue") as rig:
            clock.advance(61)

            async def are_held_up() -> bool:
                errors = [each["error"] for each in await rig.waiting()]
                return errors == ["It is for chain 31337, and the wallet is on chain 1."] * 2

            await eventually(are_held_up)
            assert not await rig.approval_store.pending(clock.now_ms())
            assert other.sent() == []


async def test_a_transaction_outlives_its_client(rig: Rig, fake: FakeNode) -> None:
    fake.at("eth_sendRawTransaction", hang)
    sending = asyncio.create_task(rig.send())
    await fake.asked("eth_sendRawTransaction")
    sending.cancel()
    await asyncio.wait([sending])
    kept = await rig.queued()
    rig.clock.advance(2)
    assert (await rig.until("arrived"))["hash"] == kept["hash"]
    assert len(set(fake.sent())) == 1


async def test_when_the_server_stops_no_send_waits_for_the_node(fake: FakeNode, tmp_path: Path) -> None:
    async with open_rig(tmp_path, fake.url, broadcasts=False) as rig:
        fake.at("eth_gasPrice", *[hang] * 20)
        sending = [asyncio.create_task(rig.send(value=hex(each))) for each in range(20)]
        await fake.asked("eth_gasPrice")
        asked = len(fake.requests)
        rig.stopping.close()
        assert await asyncio.gather(*sending) == [ZERO_HASH] * 20
        assert await rig.send(value="0x100") == ZERO_HASH
        assert (len(fake.requests), len(await rig.waiting())) == (asked, 21)


async def test_transactions_wait_until_the_node_is_back(absent: FakeNode, tmp_path: Path) -> None:
    async with open_rig(tmp_path, absent.url) as rig:
        assert await rig.send() == ZERO_HASH
        queued = await rig.queued(transaction())
        assert (queued["state"], queued["hash"], queued["nonce"]) == ("queued", None, None)
        assert await rig.waiting() == [queued]
        rig.clock.advance(40)  # several attempts: the next is far away
        await rig.wallet.worker.catch_up()  # what still fails then is no longer under way
        assert (await rig.queued())["attempts"]

        async with open_fake_node(absent.port):
            await rig.wallet.node.chain_id()
            await rig.until("arrived", queued["id"])
            assert await rig.waiting() == []


async def test_a_node_that_is_back_while_its_absence_is_stored_is_not_missed(
    absent: FakeNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    postpone, is_storing, is_back = TransactionStore.postpone, asyncio.Event(), asyncio.Event()

    async def postpone_late(*arguments: Any, **options: Any) -> None:
        is_storing.set()
        await is_back.wait()
        await postpone(*arguments, **options)

    async with open_rig(tmp_path, absent.url) as rig:
        assert await rig.send() == ZERO_HASH
        monkeypatch.setattr(TransactionStore, "postpone", postpone_late)
        rig.clock.advance(40)
        await is_storing.wait()

        async with open_fake_node(absent.port):
            await rig.wallet.node.chain_id()
            is_back.set()
            await rig.until("arrived")


@pytest.mark.parametrize("settling", ["accept", "refuse", "postpone"])
async def test_the_nodes_answer_reaches_the_client_though_it_cannot_be_stored(
    rig: Rig, fake: FakeNode, monkeypatch: pytest.MonkeyPatch, settling: str
) -> None:
    if settling != "accept":
        code = -32000 if settling == "refuse" else -32603
        fake.at("eth_sendRawTransaction", says(code, "sorry"))

    with monkeypatch.context() as patch:
        fail = AsyncMock(side_effect=UnavailableError("the disk is full"))
        patch.setattr(TransactionStore, settling, fail)
        if settling == "refuse":
            with pytest.raises(TransactionRefusedError):
                await rig.send()
        else:
            assert (await rig.send() == ZERO_HASH) == (settling == "postpone")

    rig.clock.advance(61)
    await rig.until("arrived")
    assert len(set(fake.sent())) == 1


async def test_a_transaction_signed_elsewhere_waits_for_the_node(absent: FakeNode, tmp_path: Path) -> None:
    async with open_rig(tmp_path, absent.url) as rig:
        raw, raw_for_chain_1 = signed_elsewhere(), signed_elsewhere(chain_id=1)
        for each in (raw, raw_for_chain_1):
            assert await rig.send_raw(each) == ZERO_HASH
        assert (await rig.queued(raw))["state"] == "signed"

        async with open_fake_node(absent.port) as fake:
            rig.clock.advance(61)
            await rig.until("arrived", raw)
            await rig.until_error("is for chain 1,", raw_for_chain_1)
            assert fake.sent() == [raw]


@pytest.mark.parametrize("error", [UnavailableError("the disk is full"), RuntimeError("a defect")])
async def test_the_worker_outlives_every_failure(
    idle_rig: Rig, fake: FakeNode, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    rig = idle_rig
    fake.at("eth_sendRawTransaction", says(-32603, "later"))
    await rig.send()
    fail = AsyncMock(side_effect=error)

    with monkeypatch.context() as patch:
        patch.setattr(TransactionStore, "senders_with_due", fail)
        working = asyncio.create_task(rig.wallet.worker.run_forever())
        await eventually(lambda: fail.await_count > 1)

    rig.clock.advance(61)
    await rig.until("arrived")
    working.cancel()
    await asyncio.wait([working])


@pytest.mark.parametrize(("method", "answer"), [
    *(("eth_getTransactionCount", answer) for answer in (RpcFailure(-32000, "no"), "many", "0x" + "f" * 16)),
    ("eth_getTransactionByHash", RpcFailure(-32000, "not indexed")),
])  # fmt: skip
async def test_a_node_that_does_not_count_or_know_hashes_leaves_everything_as_it_is(
    rig: Rig, fake: FakeNode, method: str, answer: object
) -> None:
    sent = await rig.send()
    fake.results |= {"eth_getTransactionCount": "0x1", method: answer}
    asked = fake.methods.count(method)
    for times in (1, 2):
        rig.clock.advance(61)
        await fake.asked(method, asked + times)
    assert (await rig.queued(sent))["state"] == "sent"


async def pending(rig: Rig, count: int) -> list[ApprovalRequest]:
    """The requests that wait to be approved, once they are so many."""
    found: list[ApprovalRequest] = []

    async def so_many_wait() -> bool:
        found[:] = await rig.approval_store.pending(rig.clock.now_ms())
        return len(found) == count

    await eventually(so_many_wait)
    return found


async def decide(rig: Rig, approval: ApprovalRequest, state: ApprovalState) -> None:
    await rig.approval_store.decide(approval.approval_id, state, rig.clock.now_ms())


async def approve(rig: Rig) -> None:
    """Approve the only pending request."""
    (approval,) = await pending(rig, 1)
    await decide(rig, approval, ApprovalState.APPROVED)


async def test_queued_transactions_are_filled_in_and_decided(absent: FakeNode, tmp_path: Path) -> None:
    async with open_rig(tmp_path, absent.url, approve="queue") as rig:
        for value in ("0x1", "0x2"):
            assert await rig.send(value=value) == ZERO_HASH

        async with open_fake_node(absent.port) as fake:
            rig.clock.advance(61)
            for approval in await pending(rig, 2):
                assert b'"gasPrice":"0x3b9aca00"' in approval.subject
                is_first = b'"value":"0x1"' in approval.subject
                await decide(rig, approval, ApprovalState.APPROVED if is_first else ApprovalState.REJECTED)

            await rig.until("arrived", transaction(value="0x1"))
            refused = await rig.until("refused", transaction(value="0x2"))
            assert refused["error"] == "The request was rejected."
            assert len(fake.sent()) == 1
            assert rig.audited()[0]["approval"]


async def test_an_approval_is_asked_for_again_after_the_node_was_away(fake: FakeNode, tmp_path: Path) -> None:
    async with open_rig(tmp_path, fake.url, broadcasts=False, approve="queue") as rig:
        fake.script.append(body("away", 503))
        await rig.send()
        await rig.wallet.worker.work()
        await pending(rig, 1)
        assert (await rig.queued())["error"] == "It waits to be approved."
        fake.at("eth_getTransactionCount", body("away", 503))
        await approve(rig)
        await rig.until_attempt(1)

        async def asked_again() -> bool:
            rig.clock.advance(61)  # the first request may end just after its attempt is stored
            await rig.wallet.worker.work()
            return bool(rig.wallet.approvals.waiting)

        await eventually(asked_again)
        await approve(rig)

        await rig.until("arrived")


async def test_queued_transactions_leave_places_to_clients(absent: FakeNode, tmp_path: Path) -> None:
    async with open_rig(tmp_path, absent.url, approve="queue") as rig:
        for number in range(40):
            await rig.send(value=hex(number))

        async with open_fake_node(absent.port):
            rig.clock.advance(61)
            asked = await pending(rig, 32)
            client = asyncio.create_task(rig.send(value="0x100"))
            [of_client] = set(await pending(rig, 33)) - set(asked)
            await decide(rig, of_client, ApprovalState.APPROVED)
            assert await client != ZERO_HASH

            await decide(rig, asked[0], ApprovalState.REJECTED)
            assert asked[0] not in await pending(rig, 32)


async def test_an_approval_that_nobody_decided_is_asked_for_again(
    absent: FakeNode, tmp_path: Path, pass_time: PassTime
) -> None:
    clock = ManualClock()
    asking: dict[str, Any] = {"approve": "queue", "approval_timeout": 30}
    async with open_rig(tmp_path, absent.url, clock, **asking) as rig:
        await rig.send()
        async with open_fake_node(absent.port):
            clock.advance(61)
            await pending(rig, 1)
            rig.stopping.close()

    async with open_fake_node(absent.port), open_rig(tmp_path, absent.url, clock, **asking) as rig:
        await rig.wallet.approvals.forget_waiting()
        clock.advance(61)
        await pending(rig, 1)
        await pass_time(30)
        await pending(rig, 0)
        assert (await rig.queued())["state"] == "queued"

        clock.advance(61)
        await approve(rig)
        await rig.until("arrived")


async def test_a_node_on_another_chain_is_a_chain_disconnected_error(fake: FakeNode, tmp_path: Path) -> None:
    async with running_server(tmp_path / "data", dev_accounts=True, node_url=fake.url, chain_id=1) as server:
        dapp = RpcClient(server)
        raw = await dapp.call("eth_signTransaction", transaction(gas="0x5208", gasPrice="0x1", nonce="0x0"))
        for method, params in (
            ("eth_sendTransaction", transaction()),
            ("eth_sendTransaction", transaction(gasPrice="0x1", nonce="0x0")),
            ("eth_sendRawTransaction", raw),
            ("eth_signTransaction", transaction()),
            ("eth_gasPrice", None),
        ):
            assert (await dapp.error(method, *([params] if params else []))).code == 4901, method
        answers = await dapp.batch([("eth_accounts",), ("eth_blockNumber",)])
        assert (answers[0].keys() >= {"result"}, answers[1]["error"]["code"]) == (True, 4901)
        assert await dapp.call("wallet_getQueuedTransactions") == []

    assert set(fake.methods) == {"eth_chainId"}


async def result_of_call(server: ServerProcess, method: str, *params: Any) -> Any:
    request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    async with aiohttp.ClientSession() as client, client.post(f"{server.url}/rpc", json=request) as response:
        return orjson.loads(await response.read())["result"]


async def test_a_kill_in_mid_broadcast_loses_no_transaction(fake: FakeNode, tmp_path: Path) -> None:
    arguments = ("--dev-accounts", "--node-url", fake.url)
    fake.at("eth_sendRawTransaction", hang)
    with server_process(tmp_path / "data", *arguments) as server:
        sending = asyncio.create_task(result_of_call(server, "eth_sendTransaction", transaction()))
        await fake.asked("eth_sendRawTransaction")
        server.kill()
        with pytest.raises(aiohttp.ClientError):
            await sending

    with server_process(tmp_path / "data", *arguments) as server:

        async def has_arrived() -> bool:
            return bool((await result_of_call(server, "wallet_getQueuedTransaction"))["state"] == "sent")

        await eventually(has_arrived)

    assert (len(fake.sent()), len(set(fake.sent()))) == (2, 1)
    (line,) = (tmp_path / "data" / "audit.log").read_bytes().splitlines()
    assert orjson.loads(line)["method"] == "eth_sendTransaction"
