"""`bridge-server approvals`: what waits is listed, shown in words and decided, once."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import orjson
import pytest
import structlog

from bridge_server.assembly.command_line import operations
from bridge_server.kernel.clock import SystemClock
from bridge_server.storage.data_directory import held
from bridge_server.storage.migrate import migrate, packaged_migrations
from bridge_server.wallet.models import Address, ApprovalId, ApprovalRequest, ApprovalState, Caller
from tests.cli.conftest import Invoke, Operating
from tests.support.engines import settings_over
from tests.support.rpc_client import DEVELOPMENT_ADDRESS
from tests.wallet.rig import open_desk

ACCOUNT = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
OTHER = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
FIRST = "0b7e3c1a-5f0e-4d57-8f7b-2f3f0f3c9f11"
NEAR = "0b7e3c1a-5f0e-4d57-8f7b-2f3f0f3c9f12"
SECOND = "9d2c3c1a-5f0e-4d57-8f7b-2f3f0f3c9f13"
MESSAGE = f"0x{b'hello'.hex()}"
TRANSACTION = {
    "from": DEVELOPMENT_ADDRESS, "to": OTHER.lower(), "gas": "0x5208", "gasPrice": "0x3b9aca00",
    "value": "0xde0b6b3a7640000", "chainId": "0x7a69", "data": "0x",
}  # fmt: skip
Ask = Callable[..., None]


@pytest.fixture
def approvals(invoke: Invoke, tmp_path: Path) -> Operating:
    return Operating(invoke, tmp_path / "data", "approvals")


@pytest.fixture
def server(approvals: Operating) -> Iterator[ExitStack]:
    """A server as far as these commands see it: it holds the directory, until it is closed."""
    with ExitStack() as stack:
        stack.enter_context(held(approvals.data_dir))
        settings = settings_over(approvals.data_dir)
        if settings.database is None:
            migrate(settings.database_file, packaged_migrations())
        yield stack


@pytest.fixture
def asked(server: ExitStack, approvals: Operating) -> Ask:
    """Has a web page's request wait, as the server would."""

    async def store(request: ApprovalRequest) -> None:
        async with operations(settings_over(approvals.data_dir)) as opened:
            await opened.approvals.add(request)

    def ask(
        approval_id: str,
        method: str = "personal_sign",
        subject: Any = MESSAGE,
        *,
        expires_in_ms: int = 60_000,
        state: ApprovalState = ApprovalState.PENDING,
    ) -> None:
        now_ms, caller = SystemClock().now_ms(), Caller("192.0.2.1", "https://app.example.org", "request-1")
        asyncio.run(store(ApprovalRequest(
            ApprovalId(approval_id), method, Address(DEVELOPMENT_ADDRESS), orjson.dumps(subject), caller,
            now_ms, now_ms + expires_in_ms, state,
        )))  # fmt: skip

    return ask


def test_pending_approvals_are_listed_oldest_first(approvals: Operating, asked: Ask) -> None:
    asked(NEAR, expires_in_ms=-1)
    asked("8d2c3c1a-5f0e-4d57-8f7b-2f3f0f3c9f14", state=ApprovalState.REJECTED)
    assert approvals.text("list") == "no request is waiting for approval\n"
    assert approvals.json("list") == {"approvals": []}
    asked(SECOND, "eth_sendTransaction", TRANSACTION)
    asked(FIRST)
    header, *rows = [line.split() for line in approvals.text("list").splitlines()]

    assert header == ["approval", "method", "account", "client", "until"]
    assert [row[:4] for row in rows] == [
        [SECOND[:8], "eth_sendTransaction", ACCOUNT, "https://app.example.org"],
        [FIRST[:8], "personal_sign", ACCOUNT, "https://app.example.org"],
    ]
    listed = approvals.json("list")["approvals"]
    assert [each["id"] for each in listed] == [SECOND, FIRST]
    assert listed[0]["subject"] == TRANSACTION


def test_an_approval_is_shown_whole_and_in_words(approvals: Operating, asked: Ask) -> None:
    asked(FIRST, "eth_sendTransaction", TRANSACTION)
    shown = approvals.text("show", FIRST)
    assert "in all    at most 1.000021 ether" in shown
    lines = dict(line.split(maxsplit=1) for line in shown.splitlines()[:9])
    assert (lines["approval"], lines["state"], lines["client"]) == (FIRST, "pending", "192.0.2.1")
    assert (lines["page"], lines["request"]) == ("https://app.example.org", "request-1")
    assert approvals.json("show", FIRST) | {"asked_at": "", "expires_at": ""} == {
        "id": FIRST, "state": "pending", "method": "eth_sendTransaction", "account": ACCOUNT,
        "client": "192.0.2.1", "origin": "https://app.example.org", "request_id": "request-1",
        "asked_at": "", "expires_at": "", "subject": TRANSACTION,
    }  # fmt: skip


def test_a_decision_counts_once_and_needs_a_name_of_one_request(approvals: Operating, asked: Ask) -> None:
    for approval_id in (FIRST, NEAR, SECOND):
        asked(approval_id)
    unknown = "`bridge-server approvals list` prints the pending ones"
    for name, reason in (
        (FIRST[:8], f"several approvals begin with {FIRST[:8]}: write more of the id"),
        ("0b7", "write at least 4 characters of the approval's id"),
        ("ffff", f"there is no approval ffff: {unknown}"),
        ("%b7e", f"there is no approval %b7e: {unknown}"),
    ):
        assert approvals.refusal("approve", name) == reason
    assert len(approvals.json("list")["approvals"]) == 3

    decided = approvals.json("reject", NEAR)
    assert (decided["id"], decided["state"]) == (NEAR, "rejected")
    assert approvals.text("approve", SECOND[:4].upper()) == f"approved: personal_sign with {ACCOUNT}\n"
    assert approvals.refusal("reject", SECOND) == f"{SECOND} is not waiting any more: it is approved"
    assert approvals.json("show", SECOND)["state"] == "approved"


@pytest.mark.sqlite("whether a server runs is seen by its data directory")
def test_nothing_waits_where_the_server_was_killed(
    approvals: Operating, server: ExitStack, asked: Ask, invoke: Invoke, tmp_path: Path
) -> None:
    asked(FIRST)
    server.close()
    assert approvals.refusal("approve", FIRST) == f"{FIRST} is not waiting any more: it is expired"
    assert approvals.text("list") == "no request is waiting for approval\n"
    nowhere = Operating(invoke, tmp_path / "none").refusal("approvals", "list")
    assert "name the server's data directory" in nowhere


async def test_a_server_signs_what_the_commands_approve(approvals: Operating) -> None:
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())  # a command's output is its own
    async with open_desk(approvals.data_dir) as desk:
        asking = desk.asks("personal_sign", MESSAGE, DEVELOPMENT_ADDRESS)
        await desk.pending()
        [waits] = (await asyncio.to_thread(approvals.json, "list"))["approvals"]
        await asyncio.to_thread(approvals.text, "approve", waits["id"][:8])
        assert await desk.rpc.call("personal_ecRecover", MESSAGE, await asking) == DEVELOPMENT_ADDRESS
