"""Opening, approving, rejecting, ending and resuming sessions, in both dialects and between them."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from bridge_server.kit.client import (
    AnswerTimeoutError,
    BadPairingError,
    BadPayloadError,
    CallExpiredError,
    CallFailedError,
    Dapp,
    Pairing,
    Push,
    RejectedError,
    RequestRefusedError,
    SessionEndedError,
    Wallet,
    parse_pairing,
)
from tests.client.pairs import ACCOUNT, BRISK, BY_LONG_POLLS_ONLY, echoing, next_call, paired
from tests.support.figures import METRICS_TOKEN, until_waiting
from tests.support.rows import each_row
from tests.support.server import RunningServer, running_server
from tests.support.webhook_receiver import open_receiver

HOUR_SECONDS = 3_600


@pytest.mark.own_server
async def test_a_dapp_hears_of_the_accounts_and_the_chain(bridge_url: str) -> None:
    async with Dapp(bridge_url, name="Example Dapp") as dapp, Wallet.from_uri(dapp.uri) as wallet:
        expires_at_ms = await wallet.approve([ACCOUNT, "0xab"], chain_id=5)
        approval = await dapp.approval()

    assert (approval.accounts, approval.chain_id) == ((ACCOUNT, "0xab"), 5)
    assert expires_at_ms == 1_800_000_000_000 + 24 * HOUR_SECONDS * 1_000
    assert wallet.pairing == dapp.pairing
    assert wallet.pairing.name == "Example Dapp"


@each_row("path", ["", "/compat/v0.7"])
async def test_a_waiting_dapp_and_a_waiting_wallet_hear_at_once(tmp_path: Path, path: str) -> None:
    async with (
        running_server(tmp_path, metrics_token=METRICS_TOKEN) as server,
        Dapp(server.url + path, name="Example Dapp", pace=BY_LONG_POLLS_ONLY) as dapp,
        Wallet.from_uri(dapp.uri, pace=BY_LONG_POLLS_ONLY) as wallet,
        asyncio.TaskGroup() as tasks,
    ):
        approval = tasks.create_task(dapp.approval())
        await until_waiting(server, 1)
        await wallet.approve([ACCOUNT])
        assert (await approval).accounts == (ACCOUNT,)

        asked = tasks.create_task(next_call(wallet))
        await until_waiting(server, 1)
        result = tasks.create_task(dapp.call("eth_accounts", []))
        call = await asked
        await until_waiting(server, 1)
        await wallet.answer(call, [ACCOUNT])
        assert await result == [ACCOUNT]


async def test_a_dapp_hears_of_a_rejection(bridge_url: str) -> None:
    async with Dapp(bridge_url, name="Example Dapp") as dapp, Wallet.from_uri(dapp.uri) as wallet:
        await wallet.reject()

        with pytest.raises(RejectedError):
            await dapp.approval()


async def test_a_later_approval_replaces_the_earlier(bridge_url: str) -> None:
    async with paired(bridge_url) as (dapp, wallet):
        await wallet.reject()
        await wallet.approve(["0xcd"], chain_id=137)

        assert (await dapp.approval()).accounts == ("0xcd",)


@each_row("accounts", [ACCOUNT, [1], [None]])
async def test_malformed_accounts_are_not_sent(bridge_url: str, accounts: Any) -> None:
    async with Dapp(bridge_url, name="Example Dapp") as dapp, Wallet.from_uri(dapp.uri) as wallet:
        with pytest.raises(TypeError, match="list of addresses"):
            await wallet.approve(accounts)

        with pytest.raises(AnswerTimeoutError):
            await dapp.approval(timeout=0.05)


async def test_where_there_is_no_bridge_is_said(server: RunningServer) -> None:
    with pytest.raises(RequestRefusedError, match="404"):
        async with Dapp(f"{server.url}/elsewhere", name="Example Dapp"):
            pass


async def test_dapp_without_an_answer_raises(bridge_url: str) -> None:
    async with Dapp(bridge_url, name="Example Dapp") as dapp:
        with pytest.raises(AnswerTimeoutError, match=r"within 0\.05 s"):
            await dapp.approval(timeout=0.05)


@each_row("side", ["dapp", "wallet"])
async def test_either_side_ends_the_session_for_both(bridge_url: str, side: str) -> None:
    async with paired(bridge_url) as (dapp, wallet):
        call_id = await dapp.request("eth_accounts", [])
        call = await next_call(wallet)

        await (dapp.end() if side == "dapp" else wallet.end())

        assert [call async for call in wallet.calls()] == []
        for attempt in (
            dapp.approval(),
            dapp.call("eth_accounts", []),
            dapp.result(call_id),
            wallet.approve([ACCOUNT]),
            wallet.answer(call, []),
            wallet.call(call_id),
        ):
            with pytest.raises(SessionEndedError, match="Open another"):
                await attempt
        await dapp.end()
        await wallet.end()


async def test_an_end_reaches_waiting_callers(bridge_url: str) -> None:
    async with paired(bridge_url) as (dapp, wallet), asyncio.TaskGroup() as tasks:
        calls = wallet.calls()
        result = asyncio.create_task(dapp.call("eth_accounts", []))
        await anext(calls)
        rest = tasks.create_task(anext(calls, None))

        await wallet.end()

        assert await rest is None
        with pytest.raises(SessionEndedError):
            await result


async def test_expired_call_differs_from_expired_session(server: RunningServer, bridge_url: str) -> None:
    async with paired(bridge_url) as (dapp, wallet):
        call_id = await dapp.request("eth_accounts", [])
        call = await next_call(wallet)
        server.clock.advance(2 * HOUR_SECONDS)

        for attempt in (dapp.result(call_id), wallet.answer(call, []), wallet.call(call_id)):
            with pytest.raises(CallExpiredError, match=call_id):
                await attempt
        assert (await dapp.approval()).accounts == (ACCOUNT,)


async def test_both_sides_resume_from_what_the_uri_says(bridge_url: str) -> None:
    async with paired(bridge_url) as (dapp, wallet):
        uri = dapp.uri
        call_id = await dapp.request("eth_accounts", [])

    async with (
        Dapp.resume(uri, pace=BRISK) as dapp,
        Wallet.from_uri(uri, pace=BRISK) as wallet,
        echoing(wallet),
    ):
        assert (await dapp.approval()).accounts == (ACCOUNT,)
        assert await dapp.result(call_id) == ["eth_accounts", []]
        assert await dapp.call("eth_chainId", []) == ["eth_chainId", []]


async def test_the_later_spelling_pairs_as_well(bridge_url: str) -> None:
    async with paired(bridge_url) as (dapp, _):
        uri = dapp.pairing.wc_uri

    wallet = Wallet.from_uri(uri, generation="plain")
    async with Dapp.resume(uri, name="New Name") as dapp, wallet, echoing(wallet):
        assert parse_pairing(dapp.uri).name == "New Name"
        assert await dapp.call("eth_chainId", []) == ["eth_chainId", []]
    with pytest.raises(BadPairingError, match="name"):
        Dapp.resume(uri)


@each_row(("dapp_path", "wallet_path"), [("", "/compat/v0.7"), ("/compat/v0.7", "")])
async def test_the_dialects_meet_in_one_session(
    server: RunningServer, dapp_path: str, wallet_path: str
) -> None:
    async with (
        paired(server.url + dapp_path, server.url + wallet_path) as (dapp, wallet),
        echoing(wallet),
    ):
        assert (await dapp.approval()).accounts == (ACCOUNT,)
        assert await dapp.call("eth_chainId", []) == ["eth_chainId", []]
        with pytest.raises(CallFailedError):
            await dapp.call("no", [])


async def test_two_dapps_and_two_wallets_keep_to_themselves(bridge_url: str) -> None:
    async with (
        paired(bridge_url) as (one, its_wallet),
        paired(bridge_url) as (other, others_wallet),
        echoing(its_wallet, others_wallet),
    ):
        ones = asyncio.gather(*(one.call("eth_sign", ["one", number]) for number in range(10)))
        others = asyncio.gather(*(other.call("eth_sign", ["other", number]) for number in range(10)))

        assert await ones == [["eth_sign", ["one", number]] for number in range(10)]
        assert await others == [["eth_sign", ["other", number]] for number in range(10)]


async def test_client_with_another_key_cannot_decrypt(bridge_url: str) -> None:
    async with paired(bridge_url) as (dapp, _):
        stranger = replace(dapp.pairing, key=bytes(32))
        async with Dapp.resume(stranger, pace=BRISK) as dapp, Wallet(stranger, pace=BRISK) as wallet:
            with pytest.raises(BadPayloadError, match="another key"):
                await dapp.approval()

            await wallet.approve([ACCOUNT])
        with pytest.raises(RuntimeError):
            await dapp.approval()


async def test_the_wallets_webhook_is_called(tmp_path: Path) -> None:
    async with (
        running_server(tmp_path, allow_private_webhooks=True) as server,
        open_receiver() as receiver,
        Dapp(server.url, name="Example Dapp") as dapp,
        Wallet.from_uri(dapp.uri) as wallet,
    ):
        await wallet.approve([ACCOUNT], push=Push("fcm", "device", receiver.url("/push")))
        call_id = await dapp.request("eth_accounts", [])
        await receiver.got(1)

        call = await wallet.call(call_id)

    assert receiver.requests[0].path == "/push"
    assert call.method == "eth_accounts"


async def test_a_client_session_that_is_handed_in_stays_open(bridge_url: str) -> None:
    async with aiohttp.ClientSession(raise_for_status=True) as http:
        async with paired(bridge_url, http=http) as (dapp, _):
            pass
        assert not http.closed
        assert (await dapp.approval()).accounts == (ACCOUNT,)


async def test_outside_its_block_a_dapp_says_how_it_is_used(bridge_url: str) -> None:
    dapp = Dapp(bridge_url, name="Example Dapp")

    with pytest.raises(RuntimeError, match="async with"):
        _ = dapp.uri


async def test_a_refusal_tells_what_the_bridge_said(tmp_path: Path) -> None:
    async with running_server(tmp_path, relay_body_limit=1_000) as server, paired(server.url) as (dapp, _):
        with pytest.raises(RequestRefusedError, match="413") as refusal:
            await dapp.call("eth_sign", ["0x" + "ab" * 500])

    assert refusal.value.status == 413
    assert "1000 bytes" in refusal.value.detail


@each_row("url", ["bridge.example", "ftp://bridge.example", "http://bridge.example/?a=1"])
def test_url_that_cannot_be_a_bridges_is_refused(url: str) -> None:
    with pytest.raises(BadPairingError, match="URL"):
        Dapp(url, name="Example Dapp")


async def test_a_slash_at_the_end_of_the_url_does_no_harm(bridge_url: str) -> None:
    async with Dapp(bridge_url + "/", name="Example Dapp") as dapp:
        assert parse_pairing(dapp.uri).bridge_url == bridge_url
        assert isinstance(dapp.pairing, Pairing)
