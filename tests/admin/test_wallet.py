"""The wallet: accounts, transactions, signatures, and requests that wait for approval."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.support.admin_client import ADMIN_TOKEN, AdminClient
from tests.support.asking import Answer
from tests.support.rpc_client import DEVELOPMENT_ADDRESS, RpcClient, RpcError
from tests.support.server import running_server
from tests.support.waiting import eventually

ACCOUNTS = "/admin/wallet/accounts"
OTHER = "0x" + "12" * 20
MESSAGE = "0x68656c6c6f"
ACCOUNT = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
SETTINGS: dict[str, Any] = {
    "admin_token": ADMIN_TOKEN, "admin_wallet": True, "dev_accounts": True, "dev_account_count": 1,
    "light_kdf": True, "node_url": "http://127.0.0.1:1", "chain_id": 1,
}  # fmt: skip
"""One account for development, key files, and a node that nobody can reach."""


@pytest.fixture
async def admin(tmp_path: Path) -> AsyncIterator[AdminClient]:
    async with running_server(tmp_path / "data", **SETTINGS) as server:
        yield AdminClient(server)


async def test_an_account_is_unlocked_for_a_time_and_a_failure_changes_nothing(admin: AdminClient) -> None:
    rpc = RpcClient(admin.server)

    async def change(account: str, action: str, **fields: Any) -> Answer:
        return await admin.post(f"{ACCOUNTS}/{account}/{action}", {"passphrase": "a passphrase", **fields})

    address = await rpc.call("personal_newAccount", "a passphrase")
    found = (await admin.get(ACCOUNTS)).json["accounts"]
    assert [(each["account"].lower(), each["kind"], each["unlocked"]) for each in found] == [
        (DEVELOPMENT_ADDRESS, "development", True),
        (address, "keystore", False),
    ]
    faults: list[tuple[dict[str, Any], int]] = [
        ({"passphrase": "wrong"}, 403), ({"seconds": -1}, 400), ({"seconds": 10**10}, 400),
        ({"passphrase": None}, 400),
    ]  # fmt: skip
    for fields, status in faults:
        problem = (await change(address, "unlock", **fields)).problem(status)
        assert "a passphrase" not in str(problem)
        assert not (await admin.get(ACCOUNTS)).json["accounts"][1]["unlocked"]
    for account, status in ((OTHER, 404), ("0x12", 400), (DEVELOPMENT_ADDRESS, 409)):
        for action in ("unlock", "lock"):
            (await change(account, action)).problem(status)

    unlocked = (await change(address, "unlock", seconds=60)).json
    assert (unlocked["unlocked"], unlocked["unlocked_until"] is not None) == (True, True)
    assert (await rpc.call("eth_sign", address, "0x00")).startswith("0x")
    locked = (await admin.post(f"{ACCOUNTS}/{address.upper().replace('X', 'x')}/lock")).json
    assert (locked["unlocked"], locked["unlocked_until"]) == (False, None)
    assert (await rpc.error("eth_sign", address, "0x00")).code == 4100


async def test_transactions_are_listed_newest_first_by_state(admin: AdminClient) -> None:
    rpc = RpcClient(admin.server)
    transfer = {"from": DEVELOPMENT_ADDRESS, "to": OTHER, "data": "0x"}
    for value in ("0x1", "0x2"):
        assert set(await rpc.call("eth_sendTransaction", {**transfer, "value": value})) == {"0", "x"}
    await rpc.call("eth_sendTransaction", {"from": DEVELOPMENT_ADDRESS, "data": "0x6001"})
    request = {**transfer, "value": "0x7", "nonce": "0x0", "gas": "0x5208", "gasPrice": "0x1"}
    raw = await rpc.call("eth_signTransaction", request)

    first, second = await admin.pages("/admin/wallet/transactions?state=queued", "transactions", 2)
    await rpc.call("eth_sendRawTransaction", raw)
    [signed, *_] = (await admin.get("/admin/wallet/transactions")).json["transactions"]

    assert [(each["to"], each["value"]) for each in first] == [(None, "0x0"), (OTHER, "0x2")]
    assert [(each["to"], each["value"]) for each in second] == [(OTHER, "0x1")]
    newest = first[0]
    assert (newest["from"].lower(), newest["state"], newest["hash"]) == (DEVELOPMENT_ADDRESS, "queued", None)
    assert newest["next_attempt_at"] is not None
    mined = (await admin.get("/admin/wallet/transactions?state=mined")).json
    assert mined == {"transactions": [], "next": None}
    assert (signed["to"].lower(), signed["value"], signed["nonce"]) == (OTHER, "0x7", 0)
    assert raw not in str(signed)


async def test_signatures_are_listed_newest_first(admin: AdminClient) -> None:
    rpc = RpcClient(admin.server)
    assert (await admin.get("/admin/wallet/signatures")).json == {"signatures": [], "next": None}
    for number in range(5):
        await rpc.call("personal_sign", f"0x{number:02x}", DEVELOPMENT_ADDRESS)
    lines = [orjson.loads(line) for line in rpc.server.settings.audit_file.read_bytes().splitlines()]
    pages = await admin.pages("/admin/wallet/signatures", "signatures", 3)
    assert len(lines) == 5
    assert pages == [lines[:1:-1], lines[1::-1]]
    for query in ("state=broadcast", "state=", "after=x", "after=-1", "limit=0", "limit=1001"):
        (await admin.get(f"/admin/wallet/transactions?{query}")).problem(400)
    for after in ("x", "waiting-", "settled--1", "waiting-1234567890123456789"):
        problem = (await admin.get(f"/admin/approvals?after={after}")).problem(400)
        assert "after" in problem["detail"], after


@dataclass(frozen=True, slots=True)
class Desk:
    """A wallet that asks before it signs, its client, and its operator."""

    admin: AdminClient
    rpc: RpcClient

    def asks(self) -> "asyncio.Task[Any]":
        return asyncio.create_task(self.rpc.call("personal_sign", MESSAGE, DEVELOPMENT_ADDRESS))

    async def listed(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await self.admin.get("/admin/approvals")).json["approvals"]
        return found

    async def waiting(self, count: int = 1) -> list[str]:
        """The ids of those that wait, once they are so many."""
        found: list[str] = []

        async def enough() -> bool:
            found[:] = [each["id"] for each in await self.listed() if each["state"] == "pending"]
            return len(found) == count

        await eventually(enough)
        return found

    async def decide(self, approval: str, decision: str) -> dict[str, Any]:
        answer: dict[str, Any] = (await self.admin.post(f"/admin/approvals/{approval}/{decision}")).json
        return answer


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with running_server(tmp_path / "data", **SETTINGS, approve="queue") as server:
        yield Desk(AdminClient(server), RpcClient(server))


async def test_a_request_is_shown_in_words_signed_once_approved_and_not_decided_again(desk: Desk) -> None:
    asking = desk.asks()
    [approval] = await desk.waiting()
    [listed] = await desk.listed()
    shown = (await desk.admin.get(f"/admin/approvals/{approval}")).json

    decided = await desk.decide(approval, "approve")

    assert listed == {
        "id": approval, "state": "pending", "method": "personal_sign", "account": ACCOUNT,
        "client": "127.0.0.1", "origin": None, "request_id": listed["request_id"],
        "asked_at": listed["asked_at"], "expires_at": listed["expires_at"], "decided_at": None,
    }  # fmt: skip
    text = shown.pop("text")
    assert shown == {**listed, "subject": MESSAGE}
    assert {"label": "account", "text": ACCOUNT} in text
    assert any("hello" in line["text"] for line in text)
    assert (decided["id"], decided["state"]) == (approval, "approved")
    assert decided["decided_at"] is not None
    assert await desk.rpc.call("personal_ecRecover", MESSAGE, await asking) == DEVELOPMENT_ADDRESS
    rejected = desk.asks()
    [other] = await desk.waiting()
    assert (await desk.decide(other[:8], "reject"))["state"] == "rejected"
    with pytest.raises(RpcError, match="4001"):
        await rejected
    assert len((await desk.admin.get("/admin/wallet/signatures")).json["signatures"]) == 1
    for decision in ("approve", "reject"):
        answer = await desk.admin.post(f"/admin/approvals/{approval}/{decision}")
        assert answer.problem(409)["detail"] == "The request is not waiting any more: it is approved."
    for name, status in (("abc", 400), ("none", 404), ("%25%25%25%25", 404)):
        (await desk.admin.get(f"/admin/approvals/{name}")).problem(status)
        (await desk.admin.post(f"/admin/approvals/{name}/approve")).problem(status)


async def test_waiting_requests_come_before_settled_requests_page_by_page(desk: Desk) -> None:
    asking = [desk.asks()]
    [first] = await desk.waiting()
    asking.append(desk.asks())
    [second] = {*await desk.waiting(2)} - {first}
    await desk.decide(first, "reject")
    asking.append(desk.asks())
    [third] = {*await desk.waiting(2)} - {second}
    await desk.decide(third, "reject")
    pages = await desk.admin.pages("/admin/approvals", "approvals", 1)
    await desk.decide(second, "reject")
    await asyncio.gather(*asking, return_exceptions=True)
    assert [[each["id"] for each in page] for page in pages] == [[second], [third], [first]]


async def test_two_operators_at_once_decide_once_and_nobody_when_the_time_is_over(desk: Desk) -> None:
    asking = desk.asks()
    [approval] = await desk.waiting()

    answers = await asyncio.gather(
        *(desk.admin.post(f"/admin/approvals/{approval}/{each}") for each in ("approve", "reject"))
    )

    await asyncio.gather(asking, return_exceptions=True)
    assert sorted(answer.status for answer in answers) == [200, 409]
    asking = desk.asks()
    [approval] = await desk.waiting()
    desk.admin.clock.advance(301)
    (await desk.admin.post(f"/admin/approvals/{approval}/approve")).problem(409)
    assert (await desk.listed())[0]["state"] == "expired"
    asking.cancel()


async def test_without_the_setting_nobody_decides_here(tmp_path: Path) -> None:
    async with running_server(tmp_path / "data", admin_token=ADMIN_TOKEN, dev_accounts=True) as server:
        admin = AdminClient(server)
        paths = [f"/admin/approvals/12345678/{each}" for each in ("approve", "reject")]
        paths += [f"/admin/wallet/accounts/{ACCOUNT}/{each}" for each in ("unlock", "lock")]
        for path in paths:
            assert "no such route" in (await admin.post(path, {"passphrase": "p"})).problem(404)["detail"]
