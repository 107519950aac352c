"""A write at one process can be read at the other, and wakes the clients that wait there."""

import asyncio
import os
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.cluster.processes import ClusterProcess, Pair
from tests.support.admin_client import ADMIN_TOKEN, AdminClient
from tests.support.asking import Answer, ask, until_waiting
from tests.support.bridge_client import BridgeClient
from tests.support.inbox_client import InboxClient, open_stream, sign_in
from tests.support.needs import PACKAGES, needs_node
from tests.support.postgres import needs_postgres
from tests.support.project import NEWS, a_notification, account

pytestmark = needs_postgres


# What is written at one process is there at the other, and wakes who waits there.

WAIT = {"Prefer": "wait=120"}


@pytest.fixture
def dapp(pair: Pair) -> BridgeClient:
    """A client of the first process."""
    return BridgeClient(pair[0].server)


@pytest.fixture
def wallet(pair: Pair) -> BridgeClient:
    """A client of the second process."""
    return BridgeClient(pair[1].server)


async def woken(pair: Pair, poll: Any, change: Any) -> Answer:
    """The answer of a long poll at the first process that waits when the change begins."""
    polling = asyncio.create_task(poll)
    await until_waiting(pair[0].server, 1)
    assert (await change()).status in (200, 204)
    answer: Answer = await polling
    return answer


async def test_each_write_at_a_process_answers_who_waits_for_it_at_the_other(
    pair: Pair, dapp: BridgeClient, wallet: BridgeClient
) -> None:
    session_id = await dapp.open_session()
    call_id = await dapp.request_call(await dapp.open_session())
    session, calls, status = (
        f"/session/{session_id}",
        f"/session/{session_id}/calls",
        f"/call-status/{call_id}",
    )

    approved = await woken(pair, dapp.get(session, WAIT), lambda: wallet.update(session_id, "approved"))
    called = await woken(pair, dapp.get(calls, WAIT), lambda: wallet.post_call(session_id))
    signed = await woken(pair, dapp.get(status, WAIT), lambda: wallet.answer(call_id, "signed"))
    other = await dapp.open_session()
    ended = await woken(pair, dapp.get(f"/session/{other}", WAIT), lambda: wallet.end(other))

    assert approved.json["encryptionPayload"] == "approved"
    assert len(called.json) == 1
    assert signed.json["encryptionPayload"] == "signed"
    ended.problem(404)


async def test_a_write_that_one_process_has_answered_is_read_at_the_other_right_after(
    dapp: BridgeClient, wallet: BridgeClient
) -> None:
    session_id = await dapp.open_session()
    await wallet.update(session_id)
    for number in range(20):
        call_id = await dapp.request_call(session_id, f"call {number}")
        assert await wallet.pending(session_id) == [call_id]
        assert (await wallet.answer(call_id, f"status {number}")).status == 200
        assert await dapp.pending(session_id) == []
        assert (await dapp.status(call_id)).json["encryptionPayload"] == f"status {number}"


# Operators and subscribers change something at one process, and the other goes by it at once.

PROJECT = "app"


@pytest.fixture(scope="module")
def cluster_settings() -> dict[str, Any]:
    return {
        "admin_token": ADMIN_TOKEN,
        "account_burst": 1_000,
        "max_wait": 120,  # a thousand clients need a while until all of them wait
        "quota_exempt": '["127.0.0.1/32"]',
        "allow_private_webhooks": True,  # a wallet has a push server on this machine
    }


@pytest.fixture(scope="module")
async def secret(pair: Pair) -> str:
    """Of a project that the first process has made."""
    return await AdminClient(pair[0].server).create(PROJECT, NEWS)


async def notify(process: ClusterProcess, secret: str, account: str, **content: str) -> Answer:
    body = {"notification": a_notification(**content), "accounts": [account]}
    headers = {"Authorization": f"Bearer {secret}"}
    return await ask(process.server, "POST", f"/{PROJECT}/notify", orjson.dumps(body), headers)


def beside(process: ClusterProcess, inbox: InboxClient) -> InboxClient:
    """A client of this account's inbox at another process."""
    return InboxClient(process.server, inbox.wallet, inbox.token)


async def test_a_secret_that_is_revoked_at_one_process_is_refused_at_the_other(
    pair: Pair,
) -> None:
    first, second = pair
    admin = AdminClient(first.server)
    old = await admin.create("rotated", NEWS)
    path, headers = "/rotated/subscribers", {"Authorization": f"Bearer {old}"}
    lookup = ("POST", "/v1/rotated/subscribers", orjson.dumps({"accounts": [account(1)]}))
    assert (await ask(second.server, "GET", path, headers=headers)).status == 200
    assert (await ask(second.server, *lookup, headers)).status == 200

    new = (await admin.post("/admin/projects/rotated/secrets")).json
    fresh = {"Authorization": f"Bearer {new['secret']}"}
    assert (await admin.delete(f"/admin/projects/rotated/secrets/{new['number'] - 1}")).status in (200, 204)

    assert (await ask(second.server, *lookup, headers)).status == 401
    assert (await ask(second.server, "GET", path, headers=headers)).status == 401
    assert (await ask(second.server, "GET", path, headers=fresh)).status == 200


async def test_an_account_that_signs_in_at_one_process_reads_its_inbox_at_the_other_and_waits_there(
    pair: Pair, secret: str
) -> None:
    first, second = pair
    inbox = await sign_in(first.server, 1)
    there = beside(second, inbox)
    assert (await inbox.subscribe(PROJECT)).status == 200

    polling = asyncio.create_task(there.page("?wait=20"))
    await until_waiting(second.server, 1)
    assert (await notify(first, secret, inbox.account, title="Across")).status == 200

    assert [each["title"] for each in (await polling)["notifications"]] == ["Across"]


async def test_a_stream_tells_of_what_another_process_sends_and_ends_with_a_sign_out_there(
    pair: Pair, secret: str
) -> None:
    first, second = pair
    inbox = await sign_in(first.server, 2)
    assert (await inbox.subscribe(PROJECT)).status == 200

    async with open_stream(beside(second, inbox)) as stream:
        for number in range(10):
            sender = (first, second)[number % 2]
            assert (await notify(sender, secret, inbox.account, title=f"No. {number}")).status == 200
        assert await stream.titles(10) == [f"No. {number}" for number in range(10)]
        assert (await inbox.ask("POST", "/logout")).status in (200, 204)
        assert await stream.ended()

    assert (await beside(second, inbox).ask("GET", "/notifications")).status == 401


# The published clients of every generation, unmodified: dapps at one process, their wallets at the other.


_PATIENCE_SECONDS = 240


async def played(script: str, dapps_at: str, wallets_at: str, folder: Path) -> Any:
    """The output of the script. It leaves its files in the folder."""
    process = await asyncio.create_subprocess_exec(
        "node", str(PACKAGES / script), dapps_at, cwd=folder, stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "WALLET_URL": wallets_at},
    )  # fmt: skip
    try:
        output, _ = await asyncio.wait_for(process.communicate(), _PATIENCE_SECONDS)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return orjson.loads(output)


@needs_node
async def test_clients_of_generation_0_7(pair: Pair, tmp_path: Path) -> None:
    outcomes = await played("v07_run.js", pair[0].url, pair[1].url, tmp_path)

    assert len(outcomes) > 10
    failed = {name: failure for name, failure in outcomes.items() if failure}
    assert failed.keys() == {"pairing by URI"}, failed  # it wants the wallet to use the URI's own server


@needs_node
async def test_clients_of_generation_1_x(pair: Pair, tmp_path: Path) -> None:
    results = await played("v1_scenes.js", pair[0].url, pair[1].url, tmp_path)

    messages = [f"0x{number}" for number in range(20)]
    assert results["pairing"]["connected"]["chainId"] == 5
    assert sorted(results["pendingCalls"]["asked"]) == sorted(messages)
    assert results["pendingCalls"]["answered"] == messages
    assert results["refusedCall"] == "rejected by the user"
    assert (results["killedByWallet"], results["killedByDapp"]) == ([False, False], [False, False])
    assert results["walletOffline"]["order"] == ["0x01", "0x02", "0x03"]
    assert results["walletOffline"]["answered"] == ["0x01", "0x02", "0x03"]


@needs_node
async def test_clients_of_generation_2_x(pair: Pair, tmp_path: Path) -> None:
    one, two = (process.url.replace("http", "ws") for process in pair)

    session = (await played("v2_pairing.js", one, two, tmp_path))["session"]

    assert (session["peer"], session["signed"]) == ("wallet", "0x68656c6c6f")
    assert (session["event"], session["accounts"]) == ({"name": "chainChanged", "data": 1}, 2)
    assert (session["ended"], session["left"]) == (True, 0)
