"""The page of the wallet: what waits is explained and decided, accounts are unlocked and locked."""

import asyncio
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.console.test_strangers_texts import HOSTILE, check_only_text
from tests.support.console_client import ConsoleClient
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
        found: list[str] = []

        async def waits() -> bool:
            page = await self.console.page(PATH)
            found[:] = re.findall(rf'href="({PATH}/approvals/[^"]+)"', page) if ">waits<" in page else []
            return bool(found)

        await eventually(waits)
        return found[0]


@pytest.fixture(scope="module")
def server_settings() -> dict[str, Any]:
    return {**SETTINGS, "admin_wallet": True}


@pytest.fixture
def desk(console: ConsoleClient) -> Desk:
    return Desk(console, RpcClient(console.server))


async def test_a_request_is_explained_in_words_and_approved(desk: Desk) -> None:
    asking = desk.asks("hello\n\u202eworld")
    path = await desk.waiting()

    page = await desk.console.page(path)
    decided = await desk.console.change(path, "approve")
    signature = await asking

    assert "<dt>text</dt>\n  <dd>hello<br>&lt;U+202E&gt;world</dd>" in page
    assert f"<dd>{ACCOUNT}</dd>" in page
    assert page.count("<dd><time datetime=") == 2  # asked, and until when
    assert "The request is approved" in decided
    assert ">approved<" in decided
    assert 'value="approve"' not in decided
    assert signature.startswith("0x")
    signatures = await desk.console.page(f"{PATH}/signatures")
    assert signatures.count("personal_sign") == 1
    assert f'href="{path}"' in signatures


@pytest.mark.own_server
async def test_a_rejected_request_is_not_signed_and_cannot_be_decided_again(desk: Desk) -> None:
    asking = desk.asks()
    path = await desk.waiting()

    assert "The request is rejected." in await desk.console.change(path, "reject")

    with pytest.raises(RpcError, match="4001"):
        await asking
    again = await desk.console.send(path, "approve")
    assert again.status == 409
    assert "it is rejected" in again.body.decode()
    assert "Nothing was signed yet: <a" in await desk.console.page(f"{PATH}/signatures")


@each_row(
    ("decision", "outcome"),
    [("approve", "200 .*: approved"), ("reject", "403 .*: The request was rejected.")],
)
async def test_what_waits_is_decided_in_its_row_of_the_traffic(
    desk: Desk, decision: str, outcome: str
) -> None:
    asks = desk.asks()
    approval_id = (await desk.waiting()).rpartition("/")[2]
    page = await desk.console.page("/console/traffic?only=waits")
    row = re.findall(r"<tr id=.*?</tr>", page, re.DOTALL)[0]
    assert re.search(r"approval [0-9a-f]{8}….*waits .*personal_sign of 0xf39F…2266: waits", row, re.DOTALL)
    assert f'name="approval" value="{approval_id}"' in row

    page = await desk.console.change("/console/traffic?only=waits", decision, approval=approval_id)

    assert f"personal_sign is {'approved' if decision == 'approve' else 'rejected'}" in page
    row = re.findall(r"<tr id=.*?</tr>", page, re.DOTALL)[0]
    assert re.search(outcome, " ".join(re.sub("<[^>]*>", " ", row).split()))
    assert "<form" not in row
    await asyncio.wait([asks])
    assert isinstance(asks.exception(), RpcError) == (decision == "reject")


async def test_without_the_setting_there_are_no_buttons_and_nothing_is_decided(tmp_path: Path) -> None:
    async with running_server(tmp_path / "data", **SETTINGS) as server:
        desk = Desk(await ConsoleClient(server).sign_in(), RpcClient(server))
        asking = desk.asks()
        path = await desk.waiting()
        pages = await desk.console.page(PATH), await desk.console.page(path)

        answers = [await desk.console.send(path, each) for each in ("approve", "reject")]
        answers += [await desk.console.send(PATH, each, account=ACCOUNT) for each in ("unlock", "lock")]
        still = await desk.console.page(path)
        asking.cancel()

    assert {answer.status for answer in answers} == {405}
    assert ">waits<" in still
    for page in pages:
        assert not re.search('name="do" value="(approve|reject|unlock|lock)"', page)
        assert "admin_wallet" in page


async def test_an_account_is_unlocked_and_locked_and_its_passphrase_is_nowhere(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    address = await desk.rpc.call("personal_newAccount", PASSPHRASE)

    unlocked = await desk.console.change(PATH, "unlock", account=address, passphrase=PASSPHRASE, seconds="60")
    wrong = await desk.console.send(PATH, "unlock", account=address, passphrase="wrong<1>", seconds="7")
    bad = await desk.console.send(PATH, "unlock", account=address, passphrase="wrong<1>", seconds="soon")
    locked = await desk.console.change(PATH, "lock", account=address)

    [checksummed] = re.findall(r"(0x\w{40}) is unlocked until 20", unlocked)
    assert f'aria-label="Lock {checksummed}"' in unlocked
    assert (wrong.status, bad.status) == (403, 400)
    assert 'value="7"' in wrong.body.decode()
    assert "is locked." in locked
    for text in (unlocked, wrong.body.decode(), bad.body.decode(), locked, caplog.text):
        assert "wrong" not in text
        assert "pass<phrase>" not in text
        assert "pass&lt;phrase&gt;" not in text


async def test_only_accounts_with_key_files_are_unlocked_and_locked_and_transactions_have_states(
    desk: Desk,
) -> None:
    for account, status in (("0x" + "12" * 20, 404), ("0x12", 400), (ACCOUNT, 409), ("", 400)):
        fields = {"account": account, "passphrase": "p", "seconds": "1"}
        assert (await desk.console.send(PATH, "unlock", None, **fields)).status == status
        assert (await desk.console.send(PATH, "lock", None, account=account)).status == status
    sent = {"from": DEVELOPMENT_ADDRESS, "to": "0x" + "12" * 20, "value": hex(15 * 10**17)}
    await desk.rpc.call("eth_sendTransaction", sent)

    queued = await desk.console.page(f"{PATH}/transactions?state=queued")

    assert "to 0x1212121212121212121212121212121212121212" in queued
    assert "1.5 ether" in queued
    assert "<option selected>queued</option>" in queued
    assert "No transaction is mined." in await desk.console.page(f"{PATH}/transactions?state=mined")
    for query in ("state=%3Cb%3E", "after=x"):
        assert (await desk.console.get(f"{PATH}/transactions?{query}")).status == 400


async def test_waiting_requests_and_signatures_are_counted_and_announced(desk: Desk) -> None:
    page = await desk.console.page(PATH)
    since = page.partition("&amp;since=")[2].partition('"')[0]

    async def announced(since: str) -> str:
        async with desk.console.stream(f"/console/events?on=wallet&since={since}") as content:
            number = ""
            async for line in content:
                name, _, value = line.decode().strip().partition(": ")
                number = value if name == "id" else number
                if name == "event":
                    assert value == "changed-wallet"
                    return number
        raise AssertionError("the stream has ended")

    asking = desk.asks()
    since = await announced(since)
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
    refused = await desk.console.send(PATH, "unlock", account=text, passphrase=text, seconds=text)
    check_only_text(refused.body.decode())
    assert refused.status == 400
    asking.cancel()
