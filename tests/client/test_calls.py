"""Calls and their answers: several at once, refused, repeated, unreadable."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bridge_server.kit.client import BadPayloadError, CallFailedError, Cipher, RequestRefusedError, Wallet
from tests.client.pairs import BRISK, echo_one, echoing, next_call, paired
from tests.support.rows import each_row
from tests.support.server import RunningServer, running_server


async def test_several_calls_at_once_each_have_their_own_result(bridge_url: str) -> None:
    async with paired(bridge_url) as (dapp, wallet), echoing(wallet):
        results = await asyncio.gather(*(dapp.call("eth_sign", [number]) for number in range(20)))

    assert results == [["eth_sign", [number]] for number in range(20)]


async def test_calls_may_be_answered_in_another_order(bridge_url: str) -> None:
    async with paired(bridge_url) as (dapp, wallet):
        first, second = await dapp.request("eth_sign", [1]), await dapp.request("eth_sign", [2])
        calls = wallet.calls()
        told = [await anext(calls), await anext(calls)]
        await echo_one(wallet, told[1])

        assert [call.call_id for call in told] == [first, second]
        assert await dapp.result(second) == ["eth_sign", [2]]
        await echo_one(wallet, told[0])
        assert await dapp.result(first) == ["eth_sign", [1]]


@each_row("result", [None, "", 0, False, [], {"nested": [1.5, "ü😀"]}])
async def test_every_json_value_is_a_result(bridge_url: str, result: Any) -> None:
    async with paired(bridge_url) as (dapp, wallet):
        call_id = await dapp.request("eth_call", {"by": "name"})
        call = await next_call(wallet)
        await wallet.answer(call, result)

        assert call.params == {"by": "name"}
        assert await dapp.result(call_id) == result


async def test_a_refusal_has_its_code_and_its_text(bridge_url: str) -> None:
    async with paired(bridge_url) as (dapp, wallet):
        usual, other = await dapp.request("eth_sign", []), await dapp.request("eth_sign", [])
        calls = wallet.calls()
        await wallet.refuse(await anext(calls))
        await wallet.refuse(await anext(calls), 4100, "This account is locked.")

        with pytest.raises(CallFailedError, match="The user rejected the request") as no:
            await dapp.result(usual)
        with pytest.raises(CallFailedError, match="This account is locked") as locked:
            await dapp.result(other)
    assert (no.value.code, locked.value.code) == (4001, 4100)


async def test_wallet_gets_a_call_once_and_again_after_a_restart(bridge_url: str) -> None:
    async with paired(bridge_url) as (dapp, wallet):
        first, second = await dapp.request("eth_sign", [1]), await dapp.request("eth_sign", [2])
        assert (await next_call(wallet)).call_id == first
        assert (await next_call(wallet)).call_id == second
        third = await dapp.request("eth_sign", [3])
        call = await next_call(wallet)
        await wallet.answer(call, "done")

        async with Wallet(wallet.pairing, pace=BRISK) as restarted:
            calls = restarted.calls()
            told = [(await anext(calls)).call_id, (await anext(calls)).call_id]

    assert call.call_id == third
    assert told == [first, second]


async def test_undecryptable_call_is_refused_and_harms_no_other(
    server: RunningServer, bridge_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with paired(bridge_url) as (dapp, wallet):
        cipher, session_id = Cipher(wallet.pairing.key), wallet.pairing.session_id
        sealed = cipher.seal({"id": 1, "jsonrpc": "2.0", "method": "eth_sign", "params": []})
        broken = [
            {**sealed, "hmac": "00" * 32},
            Cipher(bytes(32)).seal("of another key"),
            "no ciphertext",
            cipher.seal({"no": "request"}),
        ]
        ids = [await server.request_call(session_id, payload) for payload in broken]

        async with echoing(wallet):
            assert await dapp.call("eth_sign", []) == ["eth_sign", []]
            for call_id in ids:
                with pytest.raises(CallFailedError, match="cannot read") as failure:
                    await dapp.result(call_id)
                assert failure.value.code == -32_700

    assert [record.message for record in caplog.records if "refused" in record.message] == [
        f"call {call_id} is refused: {reason}"
        for call_id, reason in zip(
            ids,
            [
                "The payload was sealed with another key, or touched on its way.",
                "The payload was sealed with another key, or touched on its way.",
                "The payload is not {data, hmac, iv} in hexadecimal: see its data.",
                "The call is not a JSON-RPC request.",
            ],
            strict=True,
        )
    ]


async def test_a_wallet_with_another_key_fails_the_call_at_once(bridge_url: str) -> None:
    async with paired(bridge_url) as (dapp, wallet):
        stranger = Wallet(replace(wallet.pairing, key=bytes(32)), pace=BRISK)
        async with stranger, echoing(stranger):
            with pytest.raises(BadPayloadError, match="another key"):
                await dapp.call("eth_sign", [])


async def test_a_call_too_many_says_when_there_will_be_room(tmp_path: Path) -> None:
    async with running_server(tmp_path, max_pending_calls=1) as server, paired(server.url) as (dapp, wallet):
        call_id = await dapp.request("eth_sign", [1])

        with pytest.raises(RequestRefusedError, match="Wait for the wallet") as refusal:
            await dapp.call("eth_sign", [2])
        assert (refusal.value.status, refusal.value.retry_after_seconds) == (429, 3_600)

        async with echoing(wallet):
            await dapp.result(call_id)
            assert await dapp.call("eth_sign", [2]) == ["eth_sign", [2]]


@each_row("params", [[object()], [2**64], [{1}]])
async def test_value_without_json_form_is_a_type_error(bridge_url: str, params: Any) -> None:
    async with paired(bridge_url) as (dapp, wallet):
        with pytest.raises(TypeError):
            await dapp.call("eth_sign", params)

        call_id = await dapp.request("eth_sign", [])
        call = await next_call(wallet)
        with pytest.raises(TypeError):
            await wallet.answer(call, params)
        assert call.call_id == call_id


async def test_answered_call_can_still_be_asked_for(bridge_url: str) -> None:
    async with paired(bridge_url) as (dapp, wallet):
        call_id = await dapp.request("eth_sign", ["0xab"])
        await wallet.answer(await wallet.call(call_id), "0xcd")

        assert (await wallet.call(call_id)).params == ["0xab"]
        assert await dapp.result(call_id) == "0xcd"
        assert await dapp.result(call_id) == "0xcd"


async def test_two_loops_share_the_calls(bridge_url: str) -> None:
    told: list[str] = []
    async with paired(bridge_url) as (dapp, wallet):
        loops = [asyncio.create_task(_tell(wallet, told)) for _ in range(2)]
        ids = [await dapp.request("eth_sign", [number]) for number in range(10)]
        await asyncio.gather(*(dapp.result(call_id) for call_id in ids))
        await dapp.end()
        await asyncio.gather(*loops)

    assert sorted(told) == sorted(ids)


async def _tell(wallet: Wallet, told: list[str]) -> None:
    async for call in wallet.calls():
        told.append(call.call_id)
        await echo_one(wallet, call)
