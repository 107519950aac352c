"""Requests for approval over the admin API: listed, explained, decided at once."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.admin_client import ADMIN_TOKEN, AdminClient
from tests.support.clock import ManualClock
from tests.support.eventually import eventually
from tests.support.rows import each_row
from tests.support.rpc_client import DEVELOPMENT_ADDRESS, RpcClient, RpcError
from tests.support.server import running_server

MESSAGE = "0x68656c6c6f"
ACCOUNT = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"


@dataclass(frozen=True, slots=True)
class Desk:
    """A wallet that asks before it signs, its client, and its operator."""

    admin: AdminClient
    rpc: RpcClient

    @property
    def clock(self) -> ManualClock:
        return self.admin.clock

    def asks(self, message: str = MESSAGE) -> "asyncio.Task[Any]":
        return asyncio.create_task(self.rpc.call("personal_sign", message, DEVELOPMENT_ADDRESS))

    async def listed(self, query: str = "") -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await self.admin.get(f"/admin/approvals{query}")).json["approvals"]
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
    settings: dict[str, Any] = {"dev_accounts": True, "approve": "queue", "admin_wallet": True}
    async with running_server(tmp_path / "data", admin_token=ADMIN_TOKEN, **settings) as server:
        yield Desk(AdminClient(server), RpcClient(server))


async def test_an_approved_request_is_signed(desk: Desk) -> None:
    asking = desk.asks()
    [approval] = await desk.waiting()

    decided = await desk.decide(approval, "approve")

    assert (decided["id"], decided["state"]) == (approval, "approved")
    assert decided["decided_at"] is not None
    assert await desk.rpc.call("personal_ecRecover", MESSAGE, await asking) == DEVELOPMENT_ADDRESS


async def test_a_rejected_request_is_not_signed(desk: Desk) -> None:
    asking = desk.asks()
    [approval] = await desk.waiting()

    assert (await desk.decide(approval[:4], "reject"))["state"] == "rejected"

    with pytest.raises(RpcError, match="4001"):
        await asking
    assert (await desk.admin.get("/admin/wallet/signatures")).json["signatures"] == []


async def test_a_request_is_shown_with_its_data_and_their_description_in_words(desk: Desk) -> None:
    asking = desk.asks()
    [approval] = await desk.waiting()

    [listed] = await desk.listed()
    shown = (await desk.admin.get(f"/admin/approvals/{approval}")).json
    await desk.decide(approval, "reject")
    await asyncio.gather(asking, return_exceptions=True)

    assert listed == {
        "id": approval, "state": "pending", "method": "personal_sign", "account": ACCOUNT,
        "client": "127.0.0.1", "origin": None, "request_id": listed["request_id"],
        "asked_at": listed["asked_at"], "expires_at": listed["expires_at"], "decided_at": None,
    }  # fmt: skip
    text = shown.pop("text")
    assert shown == {**listed, "subject": MESSAGE}
    assert {"label": "account", "text": ACCOUNT} in text
    assert any("hello" in line["text"] for line in text)


async def test_waiting_requests_come_before_settled_requests_page_by_page(desk: Desk) -> None:
    asking = [desk.asks()]
    [first] = await desk.waiting()
    asking.append(desk.asks())
    second = next(each for each in await desk.waiting(2) if each != first)
    await desk.decide(first, "reject")
    asking.append(desk.asks())
    third = next(each for each in await desk.waiting(2) if each != second)
    await desk.decide(third, "reject")

    pages: list[Any] = []
    after: str | None = ""
    while after is not None:
        page = (await desk.admin.get(f"/admin/approvals?limit=1&after={after}")).json
        pages.append([each["id"] for each in page["approvals"]])
        after = page["next"]

    await desk.decide(second, "reject")
    await asyncio.gather(*asking, return_exceptions=True)
    assert pages == [[second], [third], [first]]


async def test_a_settled_request_cannot_be_decided_again(desk: Desk) -> None:
    asking = desk.asks()
    [approval] = await desk.waiting()
    await desk.decide(approval, "approve")
    await asking

    for decision in ("approve", "reject"):
        answer = await desk.admin.post(f"/admin/approvals/{approval}/{decision}")
        assert answer.problem(409)["detail"] == "The request is not waiting any more: it is approved."


async def test_two_operators_at_once_decide_once(desk: Desk) -> None:
    asking = desk.asks()
    [approval] = await desk.waiting()

    answers = await asyncio.gather(
        *(desk.admin.post(f"/admin/approvals/{approval}/{each}") for each in ("approve", "reject"))
    )

    await asyncio.gather(asking, return_exceptions=True)
    assert sorted(answer.status for answer in answers) == [200, 409]


async def test_a_request_whose_time_is_over_is_expired(desk: Desk) -> None:
    asking = desk.asks()
    [approval] = await desk.waiting()

    desk.clock.advance(301)

    (await desk.admin.post(f"/admin/approvals/{approval}/approve")).problem(409)
    assert (await desk.listed())[0]["state"] == "expired"
    asking.cancel()


@each_row(("name", "status"), [("abc", 400), ("none", 404), ("%25%25%25%25", 404)])
async def test_an_id_that_nothing_has_decides_nothing(desk: Desk, name: str, status: int) -> None:
    (await desk.admin.get(f"/admin/approvals/{name}")).problem(status)
    (await desk.admin.post(f"/admin/approvals/{name}/approve")).problem(status)


@each_row("after", ["x", "waiting-", "settled--1", "waiting-1234567890123456789"])
async def test_a_place_that_no_page_has_named_is_refused(desk: Desk, after: str) -> None:
    assert "after" in (await desk.admin.get(f"/admin/approvals?after={after}")).problem(400)["detail"]


async def test_without_the_setting_nobody_decides_here(tmp_path: Path) -> None:
    async with running_server(tmp_path / "data", admin_token=ADMIN_TOKEN, dev_accounts=True) as server:
        admin = AdminClient(server)
        paths = [f"/admin/approvals/12345678/{each}" for each in ("approve", "reject")]
        paths += [f"/admin/wallet/accounts/{ACCOUNT}/{each}" for each in ("unlock", "lock")]

        for path in paths:
            assert "no such route" in (await admin.post(path, {"passphrase": "p"})).problem(404)["detail"]
