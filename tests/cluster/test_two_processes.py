"""A write at one process can be read at the other, and wakes the clients that wait there."""

import asyncio
from collections.abc import Awaitable, Callable
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
from tests.support.programs import output_of
from tests.support.project import NEWS, a_notification, account

pytestmark = needs_postgres


@pytest.fixture
def dapp(pair: Pair) -> BridgeClient:
    """A client of the first process."""
    return BridgeClient(pair[0].server)


@pytest.fixture
def wallet(pair: Pair) -> BridgeClient:
    """A client of the second process."""
    return BridgeClient(pair[1].server)


async def woken(dapp: BridgeClient, path: str, change: Callable[[], Awaitable[Answer]]) -> Answer:
    """The answer of a long poll that waits when the change begins."""
    polling = asyncio.create_task(dapp.get(path, {"Prefer": "wait=120"}))
    await until_waiting(dapp.server, 1)
    assert (await change()).status in (200, 204)
    return await polling


async def test_each_write_at_a_process_answers_who_waits_for_it_at_the_other(
    dapp: BridgeClient, wallet: BridgeClient
) -> None:
    session_id = await dapp.open_session()
    call_id = await dapp.request_call(await dapp.open_session())
    session = f"/session/{session_id}"

    approved = await woken(dapp, session, lambda: wallet.update(session_id, "approved"))
    called = await woken(dapp, f"{session}/calls", lambda: wallet.post_call(session_id))
    signed = await woken(dapp, f"/call-status/{call_id}", lambda: wallet.answer(call_id, "signed"))
    other = await dapp.open_session()
    ended = await woken(dapp, f"/session/{other}", lambda: wallet.end(other))

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


async def notify(process: ClusterProcess, secret: str, account: str, title: str) -> None:
    body = {"notification": a_notification(title=title), "accounts": [account]}
    headers = {"Authorization": f"Bearer {secret}"}
    answer = await ask(process.server, "POST", f"/{PROJECT}/notify", orjson.dumps(body), headers)
    assert answer.status == 200


async def test_a_secret_that_is_revoked_at_one_process_is_refused_at_the_other(pair: Pair) -> None:
    first, second = pair
    admin = AdminClient(first.server)
    old = await admin.create("rotated", NEWS)

    async def listed_and_looked_up(secret: str) -> list[int]:
        headers, body = {"Authorization": f"Bearer {secret}"}, orjson.dumps({"accounts": [account(1)]})
        answers = [
            await ask(second.server, "GET", "/rotated/subscribers", headers=headers),
            await ask(second.server, "POST", "/v1/rotated/subscribers", body, headers),
        ]
        return [answer.status for answer in answers]

    assert await listed_and_looked_up(old) == [200, 200]

    new = (await admin.post("/admin/projects/rotated/secrets")).json
    assert (await admin.delete(f"/admin/projects/rotated/secrets/{new['number'] - 1}")).status in (200, 204)

    assert await listed_and_looked_up(old) == [401, 401]
    assert await listed_and_looked_up(new["secret"]) == [200, 200]


async def test_an_account_that_signs_in_at_one_process_reads_its_inbox_at_the_other_until_it_signs_out(
    pair: Pair, secret: str
) -> None:
    first, second = pair
    inbox = await sign_in(first.server)
    there = InboxClient(second.server, inbox.wallet, inbox.token)
    assert (await inbox.subscribe(PROJECT)).status == 200

    polling = asyncio.create_task(there.page("?wait=20"))
    await until_waiting(second.server, 1)
    await notify(first, secret, inbox.account, "Across")
    assert [each["title"] for each in (await polling)["notifications"]] == ["Across"]

    async with open_stream(there) as stream:
        for number in range(10):
            await notify(pair[number % 2], secret, inbox.account, f"No. {number}")
        assert await stream.titles(10) == [f"No. {number}" for number in range(10)]
        assert (await inbox.ask("POST", "/logout")).status in (200, 204)
        assert await stream.ended()
    assert (await there.ask("GET", "/notifications")).status == 401


async def played(script: str, dapps_at: str, wallets_at: str, folder: Path) -> Any:
    """The output of the script. It leaves its files in the folder."""
    command = ("node", str(PACKAGES / script), dapps_at)
    return orjson.loads(await output_of(*command, folder=folder, WALLET_URL=wallets_at))


@needs_node
async def test_clients_of_generation_0_7(pair: Pair, tmp_path: Path) -> None:
    outcomes = await played("v07_run.js", pair[0].url, pair[1].url, tmp_path)
    assert len(outcomes) > 10
    failed = {name: failure for name, failure in outcomes.items() if failure}
    # That scene wants the wallet to use the URI's own server.
    assert failed.keys() == {"pairing by URI"}, "\n".join(map(str, failed.items()))


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
