"""Sessions and calls of every generation, Python on both sides: one contract, and what each has alone."""

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest

from bridge_server.kit import client
from bridge_server.kit.client import Cipher, Dapp, Generation, Push, Wallet, parse_pairing
from tests.client import pairs
from tests.client.pairs import ACCOUNT, BRISK, OVER_SOCKETS, dapp_at, echoing, next_call, paired, paired_over
from tests.support.asking import until_waiting
from tests.support.rows import each_row
from tests.support.server import RunningServer, running_server
from tests.support.waiting import eventually
from tests.support.webhook_receiver import hang, open_receiver, status

OTHER = "0x5409ed021d9299bf6814279a6a1411a7e866a631"
Pair = tuple[Dapp, Wallet]


@pytest.fixture
async def pair(relay: RunningServer, generation: Generation) -> AsyncIterator[Pair]:
    """Both sides of a session that is approved."""
    async with paired_over(relay.url, generation) as both:
        yield both


@pytest.fixture
async def asked(relay: RunningServer, generation: Generation) -> AsyncIterator[Pair]:
    """A dapp that waits for its session to be approved, and the wallet."""
    async with dapp_at(relay.url, generation) as dapp, pairs.wallet_for(dapp, relay.url) as wallet:
        yield dapp, wallet


@pytest.fixture(params=pairs.OVER_HTTP)
def bridge_url(relay: RunningServer, request: pytest.FixtureRequest) -> str:
    """The bridge in each of its two dialects."""
    return pairs.bridge_of(relay.url, request.param)


async def test_a_wallet_sees_who_asks_and_the_dapp_the_approval_for_which_calls_wait(asked: Pair) -> None:
    dapp, wallet = asked
    call = asyncio.create_task(dapp.call("eth_accounts", []))
    proposal = await wallet.proposal()
    wrong: list[Any] = [ACCOUNT, [1], [None], [ACCOUNT, 1]]
    for accounts in wrong:
        with pytest.raises(TypeError, match="list of addresses"):
            await wallet.approve(accounts)
    await wallet.approve([ACCOUNT, OTHER], chain_id=5)
    approval = await dapp.approval()

    assert proposal.name == "Example Dapp"
    assert (approval.accounts, approval.chain_id) == ((ACCOUNT, OTHER), 5)
    async with echoing(wallet):
        assert await call == ["eth_accounts", []]


async def test_a_wallet_may_reject_a_session(asked: Pair) -> None:
    dapp, wallet = asked
    await wallet.reject()
    with pytest.raises(client.RejectedError, match=r"ejected|does not approve"):
        await dapp.approval()


async def test_calls_of_pairs_have_their_own_result(relay: RunningServer, generation: Generation) -> None:
    async with AsyncExitStack() as stack:
        three = [await stack.enter_async_context(paired_over(relay.url, generation)) for _ in range(3)]
        await stack.enter_async_context(echoing(*(wallet for _, wallet in three)))
        calls = [three[number % 3][0].call("eth_sign", [number]) for number in range(20)]
        assert await asyncio.gather(*calls) == [["eth_sign", [number]] for number in range(20)]


async def test_calls_may_be_answered_in_another_order_and_asked_for_again(pair: Pair) -> None:
    dapp, wallet = pair
    first, second = await dapp.request("eth_sign", [1]), await dapp.request("eth_sign", [2])
    calls = wallet.calls()
    seen = [await anext(calls), await anext(calls)]
    await pairs.echo_one(wallet, seen[1])

    assert [call.call_id for call in seen] == [first, second]
    assert (await wallet.call(first)).params == [1]
    assert await dapp.result(second) == ["eth_sign", [2]]
    await pairs.echo_one(wallet, seen[0])
    for _ in range(2):
        assert await dapp.result(first) == ["eth_sign", [1]]
    for use in (dapp.result("1"), wallet.call("1")):  # nobody asked that
        with pytest.raises(client.CallExpiredError, match="1"):
            await use


async def test_every_json_value_is_a_result_and_one_without_json_form_a_type_error(pair: Pair) -> None:
    dapp, wallet = pair
    results: list[Any] = [None, "", 0, False, [], {"nested": [1.5, "ü😀"]}]
    for result in results:
        call_id = await dapp.request("eth_accounts", {"by": "name"})
        call = await next_call(wallet)
        await wallet.answer(call, result)
        assert call.params == {"by": "name"}
        assert await dapp.result(call_id) == result
    await dapp.request("eth_sign", [])
    call = await next_call(wallet)
    wrong: list[Any] = [[object()], [2**64], [{1}]]
    for params in wrong:
        with pytest.raises(TypeError):
            await dapp.call("eth_sign", params)
        with pytest.raises(TypeError):
            await wallet.answer(call, params)


async def test_a_refusal_has_its_code_and_its_text(pair: Pair) -> None:
    dapp, wallet = pair
    usual, other = await dapp.request("eth_sign", []), await dapp.request("eth_sign", [])
    calls = wallet.calls()
    await wallet.refuse(await anext(calls))
    await wallet.refuse(await anext(calls), 4100, "This account is locked.")
    with pytest.raises(client.CallFailedError, match="The user rejected the request") as no:
        await dapp.result(usual)
    with pytest.raises(client.CallFailedError, match="This account is locked") as locked:
        await dapp.result(other)
    assert (no.value.code, locked.value.code) == (4001, 4100)


async def test_a_later_approval_replaces_the_earlier(pair: Pair, generation: Generation) -> None:
    dapp, wallet = pair
    await wallet.approve([OTHER], chain_id=100)
    if generation in OVER_SOCKETS:
        updated = await anext(dapp.updates())
        assert (updated.accounts, updated.chain_id) == ((OTHER,), 100)

    async def is_replaced() -> bool:
        return (await dapp.approval()).chain_id == 100

    await eventually(is_replaced)
    assert (await dapp.approval()).accounts == (OTHER,)


@pytest.mark.parametrize("side", ["dapp", "wallet"])
async def test_either_side_ends_the_session_for_both(pair: Pair, generation: Generation, side: str) -> None:
    dapp, wallet = pair
    calls = wallet.calls()
    call_id = await dapp.request("eth_sign", [])
    call = await anext(calls)
    result = asyncio.create_task(dapp.result(call_id))
    rest = asyncio.create_task(anext(calls, None))
    await (dapp.end() if side == "dapp" else wallet.end())

    assert await rest is None
    assert [call async for call in wallet.calls()] == []
    answering, approving = wallet.answer(call, ""), wallet.approve([ACCOUNT])
    for use in (result, answering, approving, dapp.call("eth_sign", []), dapp.approval()):
        with pytest.raises(client.SessionEndedError):
            await use
    if generation in OVER_SOCKETS:
        assert [update async for update in dapp.updates()] == []
    await wallet.end()
    await dapp.end()


async def test_a_late_answer_is_an_answer_timeout(relay: RunningServer, generation: Generation) -> None:
    async with dapp_at(relay.url, generation) as dapp:
        with pytest.raises(client.AnswerTimeoutError, match="did not answer"):
            await dapp.approval(timeout=0.01)
        await dapp.end()
        with pytest.raises(client.SessionEndedError):
            await dapp.approval()
    async with paired_over(relay.url, generation) as (dapp, _):
        call_id = await dapp.request("eth_sign", [])
        with pytest.raises(client.AnswerTimeoutError, match=call_id):
            await dapp.result(call_id, timeout=0.01)
        with pytest.raises(client.AnswerTimeoutError, match="call of eth_sign"):
            await dapp.call("eth_sign", [], timeout=0.1)


@each_row("generation", ["plain", "1.x", "2.x"])
async def test_a_webhook_of_the_topic_is_called(relay: RunningServer, generation: Generation) -> None:
    async with open_receiver() as receiver, paired_over(relay.url, generation) as (dapp, wallet):
        body = {"topic": wallet.topic, "webhook": receiver.url()}
        async with relay.client.post(f"{relay.url}/subscribe", json=body) as response:
            assert response.status == 200
        await dapp.request("personal_sign", [])
        await next_call(wallet)
        await receiver.got(1)
        assert orjson.loads(receiver.requests[0].body) == {"topic": wallet.topic}


@each_row("generation", OVER_SOCKETS)
async def test_over_sockets_pages_are_seen(relay: RunningServer, generation: Generation) -> None:
    async with dapp_at(relay.url, generation) as dapp, pairs.wallet_for(dapp, relay.url) as wallet:
        assert (await wallet.proposal()).url == "https://dapp.example"
        with pytest.raises(client.UnsupportedError, match="POST /subscribe"):
            await wallet.approve([ACCOUNT], push=Push("fcm", "token", "https://push.example"))
        await wallet.reject()
        with pytest.raises(client.RejectedError):
            await dapp.call("eth_accounts", [])
        assert [call async for call in wallet.calls()] == []
    large = "x" * 75 * 1024  # encrypted, 1.x spells a byte with two characters
    async with paired_over(relay.url, generation) as (dapp, wallet), echoing(wallet):
        assert await dapp.call("eth_sign", [large]) == ["eth_sign", [large]]


@each_row("generation", ["plain", "0.7", "1.x"])
async def test_only_2_x_has_pings_events_and_extensions(relay: RunningServer, generation: Generation) -> None:
    async with paired_over(relay.url, generation) as (dapp, wallet):
        for use in (dapp.ping(), wallet.ping(), wallet.emit("e", 1, "eip155:1"), wallet.extend()):
            with pytest.raises(client.UnsupportedError):
                await use
        for each in (dapp.events, *([] if generation == "1.x" else [dapp.updates])):
            with pytest.raises(client.UnsupportedError):
                each()
        with pytest.raises(client.UnsupportedError, match="one chain"):
            await dapp.request("eth_sign", [], chain="eip155:1")


async def test_a_session_of_2_x_has_pings_events_and_what_was_approved(relay: RunningServer) -> None:
    async with dapp_at(relay.url, "2.x") as dapp, pairs.wallet_for(dapp, relay.url) as wallet:
        with pytest.raises(client.SessionEndedError, match="no session yet"):
            assert wallet.topic
        await wallet.approve([ACCOUNT])
        await dapp.approval()
        await dapp.ping()
        await wallet.ping()
        await wallet.emit("chainChanged", "0x64", "eip155:1")
        assert isinstance(await wallet.extend(), int)
        async with aclosing(dapp.events()) as events:
            event = await anext(events)
        assert (event.name, event.data, event.chain) == ("chainChanged", "0x64", "eip155:1")
        async with echoing(wallet):
            for method, chain in (("eth_sendTransaction", "eip155:1"), ("eth_sign", "eip155:5")):
                with pytest.raises(client.CallFailedError, match="Unauthorized method") as refusal:
                    await dapp.call(method, [], chain=chain)
                assert refusal.value.code == 3001
            assert await dapp.call("eth_sign", [], chain="eip155:1") == ["eth_sign", []]


async def test_over_http_waiting_sides_hear_at_once(relay: RunningServer, bridge_url: str) -> None:
    pace = client.Pace(pause_seconds=3_600.0)  # who depends on being asked a second time is never heard
    async with (
        Dapp(bridge_url, name="Example Dapp", pace=pace) as dapp,
        Wallet.from_uri(dapp.uri, pace=pace) as wallet,
        asyncio.TaskGroup() as tasks,
    ):
        approval = tasks.create_task(dapp.approval())
        await until_waiting(relay, 1)
        expires_at_ms = await wallet.approve([ACCOUNT])
        assert (await approval).accounts == (ACCOUNT,)
        assert expires_at_ms == relay.clock.now_ms() + 86_400_000

        call = tasks.create_task(next_call(wallet))
        await until_waiting(relay, 1)
        result = tasks.create_task(dapp.call("eth_accounts", []))
        await call
        await until_waiting(relay, 1)
        await wallet.answer(call.result(), [ACCOUNT])
        assert await result == [ACCOUNT]


async def test_an_expired_call_differs_from_an_ended_session(relay: RunningServer, bridge_url: str) -> None:
    async with paired(bridge_url) as (dapp, wallet):
        call_id = await dapp.request("eth_accounts", [])
        call = await next_call(wallet)
        relay.clock.advance(7_200)
        for attempt in (dapp.result(call_id), wallet.answer(call, []), wallet.call(call_id)):
            with pytest.raises(client.CallExpiredError, match=call_id):
                await attempt
        assert (await dapp.approval()).accounts == (ACCOUNT,)


async def test_both_sides_resume_from_the_uri_in_either_spelling(bridge_url: str) -> None:
    async with paired(bridge_url) as (dapp, wallet):
        uri, later = dapp.uri, dapp.pairing.wc_uri
        first, second = await dapp.request("eth_sign", [1]), await dapp.request("eth_sign", [2])
        assert [(await next_call(wallet)).call_id for _ in range(2)] == [first, second]
        await wallet.answer(await wallet.call(second), "done")
    async with (
        Dapp.resume(uri, pace=BRISK) as dapp,
        Wallet.from_uri(uri, pace=BRISK) as wallet,
        echoing(wallet),
    ):
        assert (await dapp.approval()).accounts == (ACCOUNT,)
        assert await dapp.result(first) == ["eth_sign", [1]]
        assert await dapp.result(second) == "done"
    wallet = Wallet.from_uri(later, generation="plain")
    async with Dapp.resume(later, name="New Name") as dapp, wallet, echoing(wallet):
        assert parse_pairing(dapp.uri).name == "New Name"
        assert await dapp.call("eth_chainId", []) == ["eth_chainId", []]
    with pytest.raises(client.BadPairingError, match="name"):
        Dapp.resume(later)


async def test_a_side_with_another_key_reads_nothing(bridge_url: str) -> None:
    async with paired(bridge_url) as (dapp, _):
        stranger = replace(dapp.pairing, key=bytes(32))
        async with Dapp.resume(stranger, pace=BRISK) as other, Wallet(stranger, pace=BRISK) as wallet:
            with pytest.raises(client.BadPayloadError, match="another key"):
                await other.approval()
            async with echoing(wallet):
                with pytest.raises(client.BadPayloadError, match="another key"):
                    await dapp.call("eth_sign", [])


async def test_an_unreadable_call_is_refused_and_harms_no_other(
    relay: RunningServer, bridge_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with paired(bridge_url) as (dapp, wallet):
        cipher, session_id = Cipher(wallet.pairing.key), wallet.pairing.session_id
        sealed = cipher.seal({"id": 1, "jsonrpc": "2.0", "method": "eth_sign", "params": []})
        broken = {
            await relay.request_call(session_id, payload): reason
            for payload, reason in [
                ({**sealed, "hmac": "00" * 32}, "was sealed with another key, or touched on its way."),
                (Cipher(bytes(32)).seal("other"), "was sealed with another key, or touched on its way."),
                ("no ciphertext", "is not {data, hmac, iv} in hexadecimal: see its data."),
                (cipher.seal({"no": "request"}), "is not a JSON-RPC request."),
            ]
        }
        async with echoing(wallet):
            assert await dapp.call("eth_sign", []) == ["eth_sign", []]
            for call_id in broken:
                with pytest.raises(client.CallFailedError, match="cannot read") as failure:
                    await dapp.result(call_id)
                assert failure.value.code == -32_700

    refusals = [record.message for record in caplog.records if "refused" in record.message]
    for refusal, (call_id, reason) in zip(refusals, broken.items(), strict=True):
        assert refusal.startswith(f"call {call_id} is refused: The ")
        assert refusal.endswith(reason)


async def test_a_refusal_of_the_bridge_is_raised_with_its_reason(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"max_pending_calls": 1, "relay_body_limit": 1_000}
    async with running_server(tmp_path, **settings) as server, paired(server.url) as (dapp, wallet):
        with pytest.raises(client.RequestRefusedError, match="1000 bytes") as too_large:
            await dapp.call("eth_sign", ["0x" + "ab" * 500])
        call_id = await dapp.request("eth_sign", [1])
        with pytest.raises(client.RequestRefusedError, match="Wait for the wallet") as too_many:
            await dapp.call("eth_sign", [2])
        assert too_large.value.status == 413
        assert (too_many.value.status, too_many.value.retry_after_seconds) == (429, 3_600)
        async with echoing(wallet):
            await dapp.result(call_id)
            assert await dapp.call("eth_sign", [2]) == ["eth_sign", [2]]
        with pytest.raises(client.RequestRefusedError, match="404"):
            await Dapp(f"{server.url}/elsewhere", name="Example Dapp").__aenter__()


async def test_the_wallets_webhook_is_called(relay: RunningServer) -> None:
    async with (
        open_receiver() as receiver,
        Dapp(relay.url, name="Example Dapp") as dapp,
        Wallet.from_uri(dapp.uri) as wallet,
    ):
        await wallet.approve([ACCOUNT], push=Push("fcm", "device", receiver.url("/push")))
        call_id = await dapp.request("eth_accounts", [])
        await receiver.got(1)
        assert receiver.requests[0].path == "/push"
        assert (await wallet.call(call_id)).method == "eth_accounts"


async def test_a_client_session_that_is_handed_in_stays_open(bridge_url: str) -> None:
    async with aiohttp.ClientSession(raise_for_status=True) as http:
        async with paired(bridge_url + "/", http=http) as (dapp, _):
            assert parse_pairing(dapp.uri).bridge_url == bridge_url
        assert not http.closed
        assert (await dapp.approval()).accounts == (ACCOUNT,)
    with pytest.raises(RuntimeError, match="async with"):
        _ = Dapp(bridge_url, name="Example Dapp").uri


async def test_leaving_ends_the_waits_of_others(relay: RunningServer) -> None:
    async with paired(relay.url) as (_, wallet):
        waiting = asyncio.create_task(next_call(wallet))
        await until_waiting(relay, 1)
    await until_waiting(relay, 0)
    with pytest.raises(RuntimeError, match="async with"):
        await waiting


@each_row("answer", [hang, status(503)])
async def test_entering_may_be_cancelled(answer: Any) -> None:
    async with open_receiver() as receiver:
        receiver.otherwise = answer
        entering = asyncio.create_task(Dapp(receiver.url(""), name="Example Dapp", pace=BRISK).__aenter__())
        await receiver.got(1)
        entering.cancel()
        with suppress(asyncio.CancelledError):
            await entering
        assert entering.cancelled()
        del entering
        gc.collect()  # a session that was left open would warn, and a warning fails the test


@each_row("side", ["approval", "call", "calls"])
async def test_a_cancelled_wait_ends_and_can_be_repeated(relay: RunningServer, side: str) -> None:
    async with Dapp(relay.url, name="Example Dapp") as dapp, Wallet.from_uri(dapp.uri) as wallet:
        if side != "approval":
            await wallet.approve([])
        for _ in range(2):
            wait: Any = {"approval": dapp.approval, "call": partial(dapp.call, "eth_sign", [1])}.get(side)
            waiting = asyncio.create_task(wait() if wait else next_call(wallet))
            await until_waiting(relay, 1)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            await until_waiting(relay, 0)

        await wallet.approve([])
        assert (await dapp.approval()).accounts == ()
        async with echoing(wallet):
            assert await dapp.call("eth_sign", [2]) == ["eth_sign", [2]]
