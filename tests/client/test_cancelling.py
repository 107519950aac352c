"""Whatever is cancelled leaves nothing behind."""

import asyncio
import gc
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from bridge_server.kit.client import Dapp, Wallet
from tests.client.pairs import BRISK, echo_one, next_call, paired
from tests.support.figures import METRICS_TOKEN, until_waiting
from tests.support.rows import each_row
from tests.support.server import running_server
from tests.support.webhook_receiver import hang, open_receiver, status

Wait = Callable[[Dapp, Wallet], Coroutine[Any, Any, Any]]


async def _result(dapp: Dapp, _: Wallet) -> Any:
    return await dapp.call("eth_accounts", [])


async def _calls(_: Dapp, wallet: Wallet) -> Any:
    return await next_call(wallet)


@each_row("wait", [_result, _calls])
async def test_cancelled_wait_can_be_repeated(tmp_path: Path, wait: Wait) -> None:
    async with (
        running_server(tmp_path, metrics_token=METRICS_TOKEN) as server,
        paired(server.url) as (dapp, wallet),
    ):
        for _ in range(3):
            waiting = asyncio.create_task(wait(dapp, wallet))
            await until_waiting(server, 1)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            await until_waiting(server, 0)

        call_id = await dapp.request("eth_accounts", ["the last"])
        async for call in wallet.calls():
            await echo_one(wallet, call)
            if call.call_id == call_id:
                break
        assert await dapp.result(call_id) == ["eth_accounts", ["the last"]]


async def test_wait_for_an_approval_can_be_cancelled(tmp_path: Path) -> None:
    async with (
        running_server(tmp_path, metrics_token=METRICS_TOKEN) as server,
        Dapp(server.url, name="Example Dapp") as dapp,
    ):
        waiting = asyncio.create_task(dapp.approval())
        await until_waiting(server, 1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await until_waiting(server, 0)

        async with Wallet.from_uri(dapp.uri) as wallet:
            await wallet.approve([])
        assert (await dapp.approval()).accounts == ()


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


async def test_leaving_while_others_wait_ends_their_wait(tmp_path: Path) -> None:
    async with running_server(tmp_path, metrics_token=METRICS_TOKEN) as server:
        async with paired(server.url) as (_, wallet):
            waiting = asyncio.create_task(next_call(wallet))
            await until_waiting(server, 1)
        await until_waiting(server, 0)

        with pytest.raises(RuntimeError, match="async with"):
            await waiting
