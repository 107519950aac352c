"""The wallet of processes that share a database is in one of them; the others forward its calls."""

import asyncio
import os
import re
import signal
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest

from bridge_server.kit.testing.fake_node import FakeNode, open_fake_node
from bridge_server.wallet.transactions.broadcasting import ZERO_HASH
from tests.cluster.processes import (
    END_LISTENERS,
    UNBOUNDED,
    ClusterProcess,
    database_of,
    once,
    processes_over,
    until_found,
)
from tests.support.admin_client import ADMIN_TOKEN, AdminClient
from tests.support.console_client import ConsoleClient
from tests.support.postgres import PostgresServer, needs_postgres
from tests.support.rpc_client import DEVELOPMENT_ADDRESS, RpcClient, RpcError
from tests.support.waiting import eventually

pytestmark = needs_postgres

TOKEN = "a-token-of-the-wallet-for-tests"
AUTHORIZATION = {"Authorization": f"Bearer {TOKEN}"}
BOB = "0x70997970c51812dc3a010c7d01b50e0d17dc79c8"
UNAVAILABLE = -32002
SENDS = 80


@pytest.fixture
async def node() -> AsyncIterator[FakeNode]:
    async with open_fake_node() as node:
        yield node


@pytest.fixture(scope="module")
async def shared_node() -> AsyncIterator[FakeNode]:
    async with open_fake_node() as node:
        yield node


@pytest.fixture(scope="module")
async def pair(
    postgres: PostgresServer, shared_node: FakeNode, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[list[ClusterProcess]]:
    """A process that holds the wallet, and one that never does and has no accounts."""
    url, folder = await postgres.database("shared_wallet"), tmp_path_factory.mktemp("wallet")
    own = [{}, {"holds_wallet": False, "dev_accounts": False}]
    async with processes_over(url, folder, own=own, **settings(shared_node, console=True)) as pair:
        await held_by(pair[0])
        await answered(*pair)
        yield pair


def settings(node: FakeNode, **more: Any) -> dict[str, Any]:
    wallet = {
        "dev_accounts": True,
        "dev_accounts_public": True,
        "rpc_token": TOKEN,
        "node_url": node.url,
        "trusted_proxies": "127.0.0.1/32",
    }
    return {**UNBOUNDED, **wallet, **more}


def client(process: ClusterProcess) -> RpcClient:
    return RpcClient(process.server, AUTHORIZATION)


async def held_by(process: ClusterProcess) -> None:
    """Return once the process has the wallet."""
    async with database_of(process) as wire:
        await until_found(wire, process.url, "SELECT url FROM roles WHERE name = 'wallet'")


async def answered(*processes: ClusterProcess) -> None:
    """Return once the wallet answers at each process."""

    async def answer() -> bool:
        try:
            return all([await client(process).call("eth_accounts") for process in processes])
        except RpcError:
            return False

    await eventually(answer)


async def nonces(process: ClusterProcess) -> list[int]:
    """The nonces of all transactions, once none is queued any more and the node has each."""
    async with database_of(process) as wire:
        owed = "SELECT count(*) FROM wallet_transactions WHERE state IN ('queued', 'signed')"
        await until_found(wire, 0, owed)
        sql = "SELECT nonce FROM wallet_transactions WHERE nonce IS NOT NULL ORDER BY nonce"
        return [row[0] for row in await wire.fetch(sql)]


def real(answers: Sequence[Any]) -> list[str]:
    """The hashes among answers. A send that is queued for a moment, on a busy machine, has the zero hash."""
    return [each for each in answers if isinstance(each, str) and each != ZERO_HASH]


async def sends(processes: Sequence[ClusterProcess], count: int) -> list[Any]:
    """The answers to sends of one account through the processes in turn, all at once."""

    async def send(number: int) -> Any:
        transaction = {"from": DEVELOPMENT_ADDRESS, "to": BOB, "value": hex(number + 1)}
        return await client(processes[number % len(processes)]).call("eth_sendTransaction", transaction)

    return await asyncio.gather(*map(send, range(count)), return_exceptions=True)


async def test_pages_of_one_process_name_it_and_those_of_the_wallet_its_holder(
    pair: list[ClusterProcess],
) -> None:
    pages = [
        await (await ConsoleClient(each.server).sign_in()).page(f"/console{view}")
        for each in pair
        for view in ("/wallet", "/wallet/transactions", "/wallet/signatures", "/settings")
    ]

    assert all(re.search(r"of process \d+ \(this one\)", page) for page in pages)
    assert [f"The wallet is with {pair[0].url}" in page for page in pages] == [False] * 4 + [True] * 3 + [
        False
    ]


async def test_what_an_operator_approves_at_another_process_is_signed(
    url: str, tmp_path: Path, node: FakeNode
) -> None:
    approving = settings(node, approve="queue", admin_token=ADMIN_TOKEN, admin_wallet=True)
    async with processes_over(url, tmp_path, **approving) as (holder, other):
        await held_by(holder)
        await answered(holder, other)
        asking = asyncio.create_task(client(other).call("personal_sign", "0x68656c6c6f", DEVELOPMENT_ADDRESS))
        admin = AdminClient(other.server)

        async def pending() -> list[str]:
            listed = (await admin.get("/admin/approvals")).json["approvals"]
            return [each["id"] for each in listed if each["state"] == "pending"]

        (found,) = await once(bool, pending)
        assert (await admin.post(f"/admin/approvals/{found}/approve")).status == 200

        assert str(await asking).startswith("0x")


@pytest.mark.parametrize("way", [signal.SIGKILL, signal.SIGSTOP])
async def test_another_process_takes_the_wallet_of_a_killed_or_frozen_one_over(
    url: str, tmp_path: Path, node: FakeNode, way: signal.Signals
) -> None:
    async with processes_over(url, tmp_path, **settings(node)) as (first, other):
        await held_by(first)
        await answered(first, other)

        sending = asyncio.create_task(sends([first, other], SENDS))
        await node.asked("eth_sendRawTransaction", SENDS // 5)
        os.kill(first.pid, way)
        try:
            await held_by(other)
            await answered(other)
            hashes = real(await sends([other], SENDS // 4))
        finally:
            if way is signal.SIGSTOP:
                os.kill(first.pid, signal.SIGCONT)
        assert hashes
        hashes += real(await sending)
        if way is signal.SIGSTOP:
            await answered(first)
            hashes += real(await sends([first, other], SENDS // 4))

        assert len(set(hashes)) == len(hashes)
        found = await nonces(other)
        assert found == list(range(len(found)))
        assert len(set(node.sent())) == len(found) >= len(hashes)


async def test_sends_of_one_account_have_one_nonce_each_also_after_the_connection_of_the_wallet_is_cut(
    url: str, wire: Any, tmp_path: Path, node: FakeNode
) -> None:
    async with processes_over(url, tmp_path, **settings(node)) as pair:
        await held_by(pair[0])
        await answered(*pair)
        hashes = await sends(pair, SENDS)

        epoch = await wire.fetchval("SELECT epoch FROM roles WHERE name = 'wallet'")
        assert await wire.fetchval(END_LISTENERS) > 0
        await until_found(wire, True, "SELECT epoch > $1 FROM roles WHERE name = 'wallet'", epoch)
        await answered(*pair)
        hashes += await sends(pair, 10)

        assert [each for each in hashes if not isinstance(each, str)] == []
        known = real(hashes)
        assert len(set(known)) == len(known)
        assert await nonces(pair[0]) == list(range(SENDS + 10))
        assert len(set(node.sent())) == SENDS + 10


async def test_a_forwarded_call_is_answered_as_by_the_holder_and_is_not_forwarded_again(
    pair: list[ClusterProcess],
) -> None:
    holder, other = pair
    log = holder.process.data_dir / "audit.log"
    before = len(log.read_bytes().splitlines())

    async def said(process: ClusterProcess) -> list[Any]:
        """The answers to a batch, without their ids and sentences."""
        calls = [("eth_accounts",), ("personal_sign", "0x6869", DEVELOPMENT_ADDRESS)]
        answers = await client(process).batch([*calls, ("eth_chainId",), ("eth_notify",)])
        return [(each.get("result"), each.get("error", {}).get("code")) for each in answers]

    assert await client(other).call("eth_accounts") == await client(holder).call("eth_accounts")
    assert await said(other) == await said(holder)
    signatures = [orjson.loads(line) for line in log.read_bytes().splitlines()[before:]]
    assert [each["client"] for each in signatures] == ["127.0.0.1"] * 2
    assert (await RpcClient(other.server).post(b"[]")).status == 401
    again = RpcClient(other.server, {**AUTHORIZATION, "Via": "1.1 proxy, 1.1 bridge-server"})
    assert (await again.error("eth_accounts")).code == UNAVAILABLE


async def test_nobody_answers_for_a_wallet_that_no_process_holds(
    url: str, tmp_path: Path, node: FakeNode
) -> None:
    own = [{"holds_wallet": False}]
    async with processes_over(url, tmp_path, 1, own=own, **settings(node)) as (process,):
        rpc = client(process)

        error = await rpc.error("eth_accounts")
        batch = await rpc.batch([("eth_accounts",), ("eth_chainId",)])
        malformed = await rpc.send({"jsonrpc": "2.0", "id": 7})

        assert (error.code, "No process holds the wallet" in str(error)) == (UNAVAILABLE, True)
        assert [each["error"]["code"] for each in batch] == [UNAVAILABLE] * 2
        assert (malformed["id"], malformed["error"]["code"]) == (7, -32600)
        notification = {"jsonrpc": "2.0", "method": "eth_accounts"}
        assert (await rpc.post(orjson.dumps(notification))).status == 204
