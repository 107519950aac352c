"""SIGKILL: what was answered `true` is there after a restart, and is there once."""

import asyncio
import time
from pathlib import Path
from typing import Any

import aiohttp

from tests.support.irn_client import Identity, IrnClient, irn_connected, topic_of
from tests.support.server import server_process

TOPIC = topic_of("topic")
_CALLS = 400


def token(identity: Identity) -> dict[str, str]:
    """What a server whose clock is the machine's accepts."""
    now = int(time.time())
    return {"token": identity.token(iat=now, exp=now + 3600)}


async def test_subscriptions_messages_and_calls_survive(tmp_path: Path) -> None:
    dapp_identity, wallet_identity = Identity(), Identity()
    async with aiohttp.ClientSession() as session:
        with server_process(tmp_path / "data") as server:
            async with (
                irn_connected(session, server.url, dapp_identity, **token(dapp_identity)) as dapp,
                irn_connected(session, server.url, wallet_identity, **token(wallet_identity)) as wallet,
            ):
                await wallet.subscribe(TOPIC)
                for number in range(3):
                    await dapp.publish(TOPIC, str(number), request_id=number)
                sent = [await wallet.request() for _ in range(3)]
                receipt = {"topic": TOPIC, "message_id": sent[1]["id"]}
                await wallet.ask("irn_batchReceive", {"receipts": [receipt]})
                server.kill()
        with server_process(tmp_path / "data") as server:
            async with (
                irn_connected(session, server.url, dapp_identity, **token(dapp_identity)) as dapp,
                irn_connected(session, server.url, wallet_identity, **token(wallet_identity)) as wallet,
            ):
                for number in range(3):
                    await dapp.publish(TOPIC, str(number), request_id=number)
                await wallet.subscribe(TOPIC)

                assert await wallet.messages(2) == ["0", "2"]
                ids = {request["id"] for request in [*sent, *wallet.requests]}
                assert len(ids) == 5


async def test_messages_answered_under_load_are_delivered_once(tmp_path: Path) -> None:
    dapp_identity, wallet_identity = Identity(), Identity()
    received: list[str] = []
    answered: list[int] = []
    async with aiohttp.ClientSession() as session:
        with server_process(tmp_path / "data") as server:
            async with (
                irn_connected(session, server.url, dapp_identity, **token(dapp_identity)) as dapp,
                irn_connected(session, server.url, wallet_identity, **token(wallet_identity)) as wallet,
            ):
                await wallet.subscribe(TOPIC)
                receiving = asyncio.create_task(receive(wallet, received))
                enough = asyncio.Event()
                publishing = asyncio.create_task(publish_all(dapp, answered, enough))
                await enough.wait()
                server.kill()
                await asyncio.gather(receiving, publishing, return_exceptions=True)
        with server_process(tmp_path / "data") as server:
            async with (
                irn_connected(session, server.url, dapp_identity, **token(dapp_identity)) as dapp,
                irn_connected(session, server.url, wallet_identity, **token(wallet_identity)) as wallet,
            ):
                await wallet.subscribe(TOPIC)
                again: list[str] = []
                receiving = asyncio.create_task(receive(wallet, again))
                for number in answered:  # as clients do that heard no answer
                    await publish(dapp, number)
                await dapp.publish(TOPIC, "end")
                await asyncio.wait_for(receiving, 30)

    assert len(answered) >= _CALLS // 4
    assert {str(number) for number in answered} <= {*received, *again}
    assert len(again) == len(set(again))


async def publish(dapp: IrnClient, number: int) -> Any:
    return await dapp.publish(TOPIC, str(number), request_id=number)


async def publish_all(dapp: IrnClient, answered: list[int], enough: asyncio.Event) -> None:
    for number in range(_CALLS):
        await publish(dapp, number)
        answered.append(number)
        if len(answered) == _CALLS // 4:
            enough.set()


async def receive(wallet: IrnClient, received: list[str]) -> None:
    while (message := await wallet.message()) != "end":
        received.append(message)
