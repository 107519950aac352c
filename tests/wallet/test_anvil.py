"""The wallet and a real node, anvil, in a process of its own, which tests start, kill and set back."""

import asyncio
import subprocess
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import structlog

from tests.support.needs import PACKAGES, needs_anvil
from tests.support.programs import free_ports
from tests.support.rows import each_row
from tests.support.rpc_client import RpcClient
from tests.support.server import running_server
from tests.support.waiting import eventually
from tests.wallet.rig import ALICE, BOB, ZERO_HASH, Rig, open_rig, signed_elsewhere, transaction

# The program itself: killing the script that npm puts before it would leave it running.
_PROGRAMS = sorted(PACKAGES.glob("node_modules/@foundry-rs/anvil-*/bin/anvil*"))
_STOP_SECONDS = 60.0


pytestmark = needs_anvil


@dataclass(slots=True)
class Anvil:
    """A node that mines a block for each transaction, on one port all its lives."""

    state_file: Path
    port: int = field(default_factory=lambda: free_ports(1)[0])
    _process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self, *, keeps_state: bool = True) -> None:
        """Start it, with the state that the last life left unless it forgets, and wait until it answers."""
        if not _PROGRAMS:
            pytest.skip("there is no anvil for this machine")
        state = ["--state", str(self.state_file)] if keeps_state else []
        command = [str(_PROGRAMS[0]), "--port", str(self.port), "--silent", *state]
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL)  # noqa: ASYNC220 - it starts at once
        await eventually(self._answers, within_seconds=60)

    def kill(self) -> None:
        """End it with SIGKILL: unwritten state is lost."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(_STOP_SECONDS)
            self._process = None

    async def call(self, method: str, *params: Any) -> Any:
        """The result of a call, without the wallet."""
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        async with aiohttp.ClientSession() as client, client.post(self.url, json=request) as response:
            answer = await response.json()
            assert "error" not in answer, answer
            return answer["result"]

    async def mined(self, transaction_hash: str) -> None:
        """Return once the transaction is in a block."""

        async def is_mined() -> bool:
            return await self.call("eth_getTransactionReceipt", transaction_hash) is not None

        await eventually(is_mined)

    async def count(self, address: str, count: int) -> None:
        """Return once so many transactions of the account are mined."""

        async def are_mined() -> bool:
            return bool(await self.call("eth_getTransactionCount", address, "latest") == hex(count))

        await eventually(are_mined)

    async def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, "anvil has ended"
        try:
            return bool(await self.call("eth_chainId"))
        except aiohttp.ClientError:
            return False


@pytest.fixture
async def anvil(tmp_path: Path) -> AsyncIterator[Anvil]:
    anvil = Anvil(tmp_path / "anvil.json")
    try:
        await anvil.start()
        yield anvil
    finally:
        anvil.kill()


@pytest.fixture
def node_url(anvil: Anvil) -> str:
    return anvil.url


@each_row(("fields", "kind"), [
    ({"gasPrice": "0xb2d05e00"}, "0x0"),
    ({"accessList": [{"address": BOB, "storageKeys": ["0x" + "01" * 32]}]}, "0x1"),
    ({"type": "0x2"}, "0x2"),
])  # fmt: skip
async def test_every_type_is_sent(rig: Rig, anvil: Anvil, fields: dict[str, object], kind: str) -> None:
    sent = await rig.send(**fields)
    assert (await anvil.call("eth_getTransactionByHash", sent))["type"] == kind


async def test_each_send_around_the_death_of_the_node_arrives_once(anvil: Anvil, tmp_path: Path) -> None:
    async with open_rig(tmp_path, anvil.url) as rig:
        await anvil.call("evm_setAutomine", False)
        sends = [asyncio.create_task(rig.send(value=hex(number))) for number in range(100)]
        await asyncio.wait(sends[:30])
        anvil.kill()
        answers = await asyncio.gather(*sends)
        assert ZERO_HASH in answers
        await anvil.start(keeps_state=False)

        rig.clock.advance(61)
        await anvil.count(ALICE, 100)

        found = [await rig.queued(transaction(value=hex(number))) for number in range(100)]
        assert {int(each["nonce"], 16) for each in found} == set(range(100))
        for each, answer in zip(found, answers, strict=True):
            assert answer in (ZERO_HASH, each["hash"])
            assert await anvil.call("eth_getTransactionReceipt", each["hash"]) is not None


async def states(rig: Rig, *transactions: str) -> list[tuple[str, str]]:
    found = [await rig.queued(each) for each in transactions]
    return [(each["nonce"], each["state"]) for each in found]


async def mined(rig: Rig, anvil: Anvil, value: str) -> str:
    """Send, and have the wallet check until it has seen the block.

    The node answers a send before it mines, and has the receipt before the block counts; on a clock that
    stands still the wallet would check once.
    """
    sent = await rig.send(value=value)

    async def is_mined() -> bool:
        rig.clock.advance(61)
        return bool((await rig.queued(sent))["state"] == "mined")

    await anvil.mined(sent)
    await eventually(is_mined)
    return sent


async def test_transactions_that_the_node_has_lost_go_before_new_ones(idle_rig: Rig, anvil: Anvil) -> None:
    rig = idle_rig
    snapshot = await anvil.call("evm_snapshot")
    lost = [await rig.send(value="0x1"), await rig.send(value="0x2")]
    await anvil.mined(lost[1])  # a transaction that waits for its block outlives the revert
    await anvil.call("evm_revert", snapshot)
    sent = await rig.send(value="0x3")
    assert await states(rig, *lost, sent) == [("0x0", "sent"), ("0x1", "sent"), ("0x2", "sent")]
    await anvil.count(ALICE, 3)


async def test_a_chain_set_back_through_the_wallet_gets_no_transaction_again(rig: Rig, anvil: Anvil) -> None:
    kept = await rig.send(value="0x1")
    await anvil.mined(kept)
    snapshot = await anvil.call("evm_snapshot")
    undone = [await mined(rig, anvil, "0x2"), await rig.send(value="0x3")]
    await anvil.mined(undone[1])  # a transaction that waits for its block outlives the revert

    await rig.pass_on("evm_revert", snapshot)

    assert await states(rig, kept, *undone) == [("0x0", "mined"), ("0x1", "forgotten"), ("0x2", "forgotten")]
    sent = await mined(rig, anvil, "0x4")
    assert (await rig.queued(sent))["nonce"] == "0x1"
    await anvil.count(ALICE, 2)
    assert (await rig.queued(undone[0]))["error"] == "The node's chain was set back."


async def test_an_account_whose_count_is_set_goes_on_from_there(rig: Rig, anvil: Anvil) -> None:
    first = await mined(rig, anvil, "0x1")
    await rig.pass_on("anvil_setNonce", ALICE, "0x9")
    second = await rig.send(value="0x2")
    assert (await rig.queued(second))["nonce"] == "0x9"
    await anvil.mined(second)
    await rig.pass_on("anvil_setNonce", ALICE, "0x4")
    assert (await rig.queued(await rig.send(value="0x3")))["nonce"] == "0x4"
    assert (await rig.queued(first))["state"] == "mined"


async def test_a_chain_that_was_set_back_is_found_out_by_a_send(rig: Rig, anvil: Anvil) -> None:
    snapshot = await anvil.call("evm_snapshot")
    undone = [await mined(rig, anvil, "0x1"), await mined(rig, anvil, "0x2"), await rig.send(value="0x3")]
    await anvil.mined(undone[2])
    await anvil.call("evm_revert", snapshot)

    with structlog.testing.capture_logs() as logs:
        sent = await rig.send(value="0x4")

    assert (await rig.until("arrived", sent))["nonce"] == "0x0"
    assert await states(rig, *undone) == [("0x0", "forgotten"), ("0x1", "forgotten"), ("0x2", "forgotten")]
    warnings = [each for each in logs if each["event"] == "transactions_lost"]
    assert [(each["account"], each["count"]) for each in warnings] == [(ALICE, 3)]
    await anvil.count(ALICE, 1)


async def test_a_node_started_anew_gets_no_transaction_of_its_former_chain(rig: Rig, anvil: Anvil) -> None:
    first = await mined(rig, anvil, "0x1")
    await anvil.call("evm_setAutomine", False)
    second = await rig.send(value="0x2")
    anvil.kill()
    await anvil.start(keeps_state=False)
    rig.clock.advance(61)
    await rig.until("forgotten", first)
    assert await states(rig, second) == [("0x1", "forgotten")]
    assert (await rig.queued(await rig.send(value="0x3")))["nonce"] == "0x0"


async def test_a_nonce_used_outside_the_wallet_replaces_the_transaction(idle_rig: Rig, anvil: Anvil) -> None:
    await anvil.call("evm_setAutomine", False)
    sent = await idle_rig.send()
    await anvil.call("anvil_dropTransaction", sent)
    await anvil.call("eth_sendRawTransaction", signed_elsewhere())
    await anvil.call("evm_mine")
    await idle_rig.wallet.worker.work()
    replaced = await idle_rig.queued(sent)
    assert replaced["state"] == "replaced"
    assert replaced["error"] == "Its nonce is used on the chain, and the node does not know it."


async def test_a_chain_set_back_for_one_account_is_set_back_for_all(rig: Rig, anvil: Anvil) -> None:
    snapshot = await anvil.call("evm_snapshot")
    await mined(rig, anvil, "0x1")
    others = await rig.send(from_=BOB, to=ALICE)
    await anvil.mined(others)
    await anvil.call("evm_revert", snapshot)
    await rig.send(value="0x2")
    rig.clock.advance(1)
    await rig.until("forgotten", others)
    await anvil.count(BOB, 0)


async def test_two_hundred_requests_at_once_have_consecutive_nonces(anvil: Anvil, tmp_path: Path) -> None:
    batch = [("eth_sendTransaction", transaction(value=hex(number))) for number in range(200)]
    async with running_server(tmp_path / "data", dev_accounts=True, node_url=anvil.url) as server:
        dapp = RpcClient(server)
        sends = (dapp.call(*each) for each in batch[100:])

        sent, answers = await asyncio.gather(asyncio.gather(*sends), dapp.batch(batch[:100]))

        in_batch = [answer["result"] for answer in answers]
        assert len({*sent, *in_batch}) == 200
        await anvil.count(ALICE, 200)
        found = await dapp.batch([("wallet_getQueuedTransaction", each) for each in in_batch])
    nonces = [int(answer["result"]["nonce"], 16) for answer in found]
    assert nonces == sorted(nonces)


async def test_a_known_nonce_replaces_for_a_higher_price(idle_rig: Rig, anvil: Anvil) -> None:
    await anvil.call("evm_setAutomine", False)
    replaced = await idle_rig.send(gasPrice=hex(10**10))
    sent = await idle_rig.send(gasPrice=hex(2 * 10**10), nonce="0x0")
    await anvil.call("evm_mine")
    await anvil.mined(sent)
    assert await anvil.call("eth_getTransactionReceipt", replaced) is None
    found = await idle_rig.queued(replaced)
    assert (found["state"], found["error"]) == ("replaced", f"Transaction {sent} has its nonce.")
