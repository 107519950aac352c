"""The page of the wallet: what waits is explained and decided, accounts are unlocked and locked."""

import asyncio
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.console.test_strangers_texts import HOSTILE, check_only_text
from tests.support.asking import next_event
from tests.support.console_client import ConsoleClient, check_texts, found, words
from tests.support.rows import each_row
from tests.support.rpc_client import DEVELOPMENT_ADDRESS, RpcClient, RpcError
from tests.support.server import running_server
from tests.support.waiting import eventually

PATH = "/console/wallet"
ACCOUNT = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
PASSPHRASE = " a pass<phrase> "
SETTINGS: dict[str, Any] = {
    "console": True, "dev_accounts": True, "dev_account_count": 1, "approve": "queue", "light_kdf": True,
    "node_url": "http://127.0.0.1:1", "chain_id": 1,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Desk:
    """A wallet that asks before it signs, its client, and its operator's browser."""

    console: ConsoleClient
    rpc: RpcClient

    def asks(self, text: str = "hello") -> "asyncio.Task[Any]":
        message = f"0x{text.encode().hex()}"
        return asyncio.create_task(self.rpc.call("personal_sign", message, DEVELOPMENT_ADDRESS))

    async def waiting(self) -> str:
        """The path of the request that waits, once one does."""

        async def waits() -> bool:
            return ">waits<" in await self.console.page(PATH)

        await eventually(waits)
        return found(rf'href="({PATH}/approvals/[^"]+)"', await self.console.page(PATH))


@pytest.fixture(scope="module")
def server_settings() -> dict[str, Any]:
    return {**SETTINGS, "admin_wallet": True}


@pytest.fixture
def desk(console: ConsoleClient) -> Desk:
    return Desk(console, RpcClient(console.server))


@pytest.mark.own_server
async def test_a_request_is_explained_in_words_and_rejected_or_approved_once(desk: Desk) -> None:
    rejected = desk.asks()
    path = await desk.waiting()
    await desk.console.change(path, "reject", "The request is rejected.")
    with pytest.raises(RpcError, match="4001"):
        await rejected
    await desk.console.refused(path, "approve", "it is rejected", code=409)
    await desk.console.page(f"{PATH}/signatures", "Nothing was signed yet: <a")

    approved = desk.asks("hello\n\u202eworld")
    path = await desk.waiting()
    page = await desk.console.page(path)
    decided = await desk.console.change(path, "approve")
    assert (await approved).startswith("0x")
    check_texts(page, "<dt>text</dt>\n  <dd>hello<br>&lt;U+202E&gt;world</dd>", f"<dd>{ACCOUNT}</dd>")
    assert page.count("<dd><time datetime=") == 2  # asked, and until when
    check_texts(decided, "The request is approved", ">approved<", hidden=('value="approve"',))
    signatures = await desk.console.page(f"{PATH}/signatures", f'href="{path}"')
    assert signatures.count("personal_sign") == 1


@each_row(
    ("decision", "outcome"),
    [("approve", "200 .*: approved"), ("reject", "403 .*: The request was rejected.")],
)
async def test_what_waits_is_decided_in_its_row_of_traffic(desk: Desk, decision: str, outcome: str) -> None:
    asks = desk.asks()
    approval_id = (await desk.waiting()).rpartition("/")[2]
    row = found(r"(<tr id=.*?</tr>)", await desk.console.page("/console/traffic?only=waits"))
    assert re.search(r"approval [0-9a-f]{8}….*waits .*personal_sign of 0xf39F…2266: waits", row, re.DOTALL)
    check_texts(row, f'name="approval" value="{approval_id}"')

    page = await desk.console.change("/console/traffic?only=waits", decision, approval=approval_id)

    check_texts(page, f"personal_sign is {'approved' if decision == 'approve' else 'rejected'}")
    row = found(r"(<tr id=.*?</tr>)", page)
    assert re.search(outcome, words(row))
    assert "<form" not in row
    await asyncio.wait([asks])
    assert isinstance(asks.exception(), RpcError) == (decision == "reject")


async def test_without_the_setting_there_are_no_buttons_and_nothing_is_decided(tmp_path: Path) -> None:
    async with running_server(tmp_path / "data", **SETTINGS) as server:
        desk = Desk(await ConsoleClient(server).sign_in(), RpcClient(server))
        asking = desk.asks()
        path = await desk.waiting()
        for page in (await desk.console.page(PATH), await desk.console.page(path)):
            assert not re.search('name="do" value="(approve|reject|unlock|lock)"', page)
            check_texts(page, "admin_wallet")

        for place, do in ((path, "approve"), (path, "reject"), (PATH, "unlock"), (PATH, "lock")):
            await desk.console.refused(place, do, code=405, account=ACCOUNT)
        await desk.console.page(path, ">waits<")
        asking.cancel()


async def test_the_passphrase_of_an_account_is_nowhere(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    address = await desk.rpc.call("personal_newAccount", PASSPHRASE)
    unlocked = await desk.console.change(PATH, "unlock", account=address, passphrase=PASSPHRASE, seconds="60")
    fields = {"account": address, "passphrase": "wrong<1>"}
    wrong = await desk.console.refused(PATH, "unlock", 'value="7"', code=403, seconds="7", **fields)
    bad = await desk.console.refused(PATH, "unlock", seconds="soon", **fields)
    locked = await desk.console.change(PATH, "lock", "is locked.", account=address)
    checksummed = found(r"(0x\w{40}) is unlocked until 20", unlocked)
    check_texts(unlocked, f'aria-label="Lock {checksummed}"')
    for text in (unlocked, wrong, bad, locked, caplog.text):
        check_texts(text, hidden=("wrong", "pass<phrase>", "pass&lt;phrase&gt;"))


async def test_only_accounts_with_key_files_are_unlocked_and_transactions_have_states(desk: Desk) -> None:
    for account, status in (("0x" + "12" * 20, 404), ("0x12", 400), (ACCOUNT, 409), ("", 400)):
        await desk.console.refused(PATH, "unlock", code=status, account=account, passphrase="p", seconds="1")
        await desk.console.refused(PATH, "lock", code=status, account=account)
    sent = {"from": DEVELOPMENT_ADDRESS, "to": "0x" + "12" * 20, "value": hex(15 * 10**17)}
    await desk.rpc.call("eth_sendTransaction", sent)
    queued = await desk.console.page(f"{PATH}/transactions?state=queued")
    check_texts(queued, f"to 0x{'12' * 20}", "1.5 ether", "<option selected>queued</option>")
    await desk.console.page(f"{PATH}/transactions?state=mined", "No transaction is mined.")
    for query in ("state=%3Cb%3E", "after=x"):
        await desk.console.page(f"{PATH}/transactions?{query}", status=400)


async def test_waiting_requests_and_signatures_are_counted_and_announced(desk: Desk) -> None:
    async def announced(since: str) -> str:
        """The number of the first event, which must be one of the wallet."""
        async with desk.console.stream(f"/console/events?on=wallet&since={since}") as content:
            event = await next_event(content)
        assert event["event"] == "changed-wallet"
        return event["id"]

    page = await desk.console.page(PATH)
    asking = desk.asks()
    since = await announced(found(r"&amp;since=(\d+)", page))
    path = await desk.waiting()
    counted = await desk.console.page("/console/settings")
    await desk.console.send(path, "approve")
    await asking
    assert re.search(r'<span>Wallet</span><span class="count">1</span>', counted)
    assert int(await announced(since)) > int(since)


@each_row("text", HOSTILE)
async def test_a_hostile_message_and_origin_are_only_text(desk: Desk, text: str) -> None:
    asking = desk.asks(text)
    path = await desk.waiting()
    for page in (await desk.console.page(path), await desk.console.page(PATH)):
        check_only_text(page)
    fields = {"account": text, "passphrase": text, "seconds": text}
    check_only_text(await desk.console.refused(PATH, "unlock", code=400, **fields))
    asking.cancel()
