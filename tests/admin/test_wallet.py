"""The wallet over the admin API: accounts, transactions, signatures."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.support.admin_client import ADMIN_TOKEN, AdminClient
from tests.support.rows import each_row
from tests.support.rpc_client import DEVELOPMENT_ADDRESS, RpcClient
from tests.support.server import RunningServer, running_server

ACCOUNTS = "/admin/wallet/accounts"
OTHER = "0x" + "12" * 20
MESSAGES = [f"0x{number:02x}" for number in range(5)]


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RunningServer]:
    """A wallet with one account for development, key files, and a node that nobody can reach."""
    settings: dict[str, Any] = {"dev_accounts": True, "dev_account_count": 1, "light_kdf": True}
    settings |= {"admin_wallet": True, "node_url": "http://127.0.0.1:1", "chain_id": 1}
    async with running_server(tmp_path / "data", admin_token=ADMIN_TOKEN, **settings) as running:
        yield running


@pytest.fixture
def admin(server: RunningServer) -> AdminClient:
    return AdminClient(server)


@pytest.fixture
def rpc(server: RunningServer) -> RpcClient:
    return RpcClient(server)


async def test_accounts_have_their_kind_and_lock_state(admin: AdminClient, rpc: RpcClient) -> None:
    locked = await rpc.call("personal_newAccount", "a passphrase")

    found = (await admin.get(ACCOUNTS)).json["accounts"]

    assert [(each["account"].lower(), each["kind"], each["unlocked"]) for each in found] == [
        (DEVELOPMENT_ADDRESS, "development", True),
        (locked, "keystore", False),
    ]


async def test_an_account_is_unlocked_for_a_time_and_locked(admin: AdminClient, rpc: RpcClient) -> None:
    address = await rpc.call("personal_newAccount", "a passphrase")

    unlocked = (
        await admin.post(f"{ACCOUNTS}/{address}/unlock", {"passphrase": "a passphrase", "seconds": 60})
    ).json
    signed = await rpc.call("eth_sign", address, "0x00")
    locked = (await admin.post(f"{ACCOUNTS}/{address.upper().replace('X', 'x')}/lock")).json

    assert unlocked["unlocked"]
    assert unlocked["unlocked_until"] is not None
    assert signed.startswith("0x")
    assert (locked["unlocked"], locked["unlocked_until"]) == (False, None)
    assert (await rpc.error("eth_sign", address, "0x00")).code == 4100


@each_row(
    ("fields", "status"),
    [
        ({"passphrase": "wrong"}, 403),
        ({"passphrase": "a passphrase", "seconds": -1}, 400),
        ({"passphrase": "a passphrase", "seconds": 10**10}, 400),
        ({"passphrase": None}, 400),
        ({}, 400),
    ],
)
async def test_an_unlock_that_fails_changes_nothing(
    admin: AdminClient, rpc: RpcClient, fields: dict[str, Any], status: int
) -> None:
    address = await rpc.call("personal_newAccount", "a passphrase")

    problem = (await admin.post(f"{ACCOUNTS}/{address}/unlock", fields)).problem(status)

    assert "a passphrase" not in str(problem)
    assert not (await admin.get(ACCOUNTS)).json["accounts"][1]["unlocked"]


@each_row(("account", "status"), [(OTHER, 404), ("0x12", 400), (DEVELOPMENT_ADDRESS, 409)])
async def test_only_accounts_with_key_files_are_unlocked_and_locked(
    admin: AdminClient, account: str, status: int
) -> None:
    (await admin.post(f"{ACCOUNTS}/{account}/unlock", {"passphrase": "p"})).problem(status)
    (await admin.post(f"{ACCOUNTS}/{account}/lock")).problem(status)


async def test_transactions_are_listed_newest_first_by_state(admin: AdminClient, rpc: RpcClient) -> None:
    for value in ("0x1", "0x2"):
        sent = {"from": DEVELOPMENT_ADDRESS, "to": OTHER, "data": "0x", "value": value}
        assert set(await rpc.call("eth_sendTransaction", sent)) == {"0", "x"}
    await rpc.call("eth_sendTransaction", {"from": DEVELOPMENT_ADDRESS, "data": "0x6001"})

    first = (await admin.get("/admin/wallet/transactions?state=queued&limit=2")).json
    second = (await admin.get(f"/admin/wallet/transactions?state=queued&limit=2&after={first['next']}")).json

    assert [(each["to"], each["value"]) for each in first["transactions"]] == [(None, "0x0"), (OTHER, "0x2")]
    assert [(each["to"], each["value"]) for each in second["transactions"]] == [(OTHER, "0x1")]
    assert second["next"] is None
    newest = first["transactions"][0]
    assert (newest["from"].lower(), newest["state"], newest["hash"]) == (DEVELOPMENT_ADDRESS, "queued", None)
    assert newest["next_attempt_at"] is not None
    assert (await admin.get("/admin/wallet/transactions?state=mined")).json == {
        "transactions": [],
        "next": None,
    }


async def test_a_transaction_that_came_signed_shows_to_whom_and_how_much(
    admin: AdminClient, rpc: RpcClient
) -> None:
    request = {"from": DEVELOPMENT_ADDRESS, "to": OTHER, "data": "0x", "value": "0x7", "nonce": "0x0"}
    raw = await rpc.call("eth_signTransaction", {**request, "gas": "0x5208", "gasPrice": "0x1"})
    await rpc.call("eth_sendRawTransaction", raw)

    [found] = (await admin.get("/admin/wallet/transactions")).json["transactions"]

    assert (found["to"].lower(), found["value"], found["nonce"]) == (OTHER, "0x7", 0)
    assert raw not in str(found)


@each_row("query", ["state=broadcast", "state=", "after=x", "after=-1", "limit=0", "limit=1001"])
async def test_a_query_that_means_nothing_is_refused(admin: AdminClient, query: str) -> None:
    (await admin.get(f"/admin/wallet/transactions?{query}")).problem(400)


async def test_signatures_are_listed_newest_first(admin: AdminClient, rpc: RpcClient) -> None:
    signed = [await rpc.call("personal_sign", message, DEVELOPMENT_ADDRESS) for message in MESSAGES]
    lines = [orjson.loads(line) for line in rpc.server.settings.audit_file.read_bytes().splitlines()]

    first = (await admin.get("/admin/wallet/signatures?limit=3")).json
    second = (await admin.get(f"/admin/wallet/signatures?limit=3&after={first['next']}")).json

    assert len(signed) == len(lines)
    assert first["signatures"] + second["signatures"] == lines[::-1]
    assert second["next"] is None


async def test_nothing_signed_is_an_empty_list(admin: AdminClient) -> None:
    assert (await admin.get("/admin/wallet/signatures")).json == {"signatures": [], "next": None}
