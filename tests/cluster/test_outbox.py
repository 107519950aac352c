"""Webhooks of processes that share a database: each destination is one process's at a time."""

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.processes import UNBOUNDED, ClusterProcess, processes_over, until_found
from tests.support.bridge_client import BridgeClient
from tests.support.postgres import needs_postgres
from tests.support.webhook_receiver import WebhookReceiver, hang, status

pytestmark = needs_postgres

# With these a lease is 15 seconds long. A message that is answered later than after 5 comes again.
SETTINGS: dict[str, Any] = {
    **UNBOUNDED,
    "allow_private_webhooks": True,
    "webhook_timeout": 5,
    "push_timeout": 5,
}
TAKEN_OVER_SECONDS = 15 + 6 + 60  # the lease, the next recount, and two busy cores
OWED = "SELECT count(*) FROM outbox"


async def watched_session(process: ClusterProcess, receiver: WebhookReceiver) -> str:
    bridge = BridgeClient(process.server)
    session_id = await bridge.open_session()
    assert (await bridge.subscribe(session_id, receiver.url())).status == 200
    return session_id


async def post_calls(pair: Sequence[ClusterProcess], session_id: str, count: int) -> None:
    async def post(bridge: BridgeClient) -> None:
        """Post a call; again if nothing was stored, because others wrote for too long."""
        while (answer := await bridge.post_call(session_id)).status == 503:
            pass
        assert answer.status == 200, answer

    bridges = [BridgeClient(process.server) for process in pair]
    await asyncio.gather(*(post(bridges[number % len(pair)]) for number in range(count)))


def ids(receiver: WebhookReceiver) -> Counter[str]:
    """How often each message was received."""
    return Counter(request.headers["webhook-id"] for request in receiver.requests)


async def test_messages_that_two_processes_write_are_sent_once(
    url: str, wire: Any, tmp_path: Path, receiver: WebhookReceiver
) -> None:
    # A receiver that answers late would get a message again.
    async with processes_over(url, tmp_path, **{**SETTINGS, "webhook_timeout": 60}) as pair:
        session_id = await watched_session(pair[0], receiver)

        for _ in range(2):
            await post_calls(pair, session_id, 50)
            await until_found(wire, 0, OWED)
            # The process that writes first has the destination the next time.
            await until_found(wire, 0, "SELECT count(*) FROM outbox_lanes")
    assert len(ids(receiver)) == 100
    assert set(ids(receiver).values()) == {1}


async def watched_and_hanging(process: ClusterProcess, receiver: WebhookReceiver) -> str:
    """A session with twenty messages under way to a receiver that hangs: four at once."""
    receiver.otherwise = hang
    session_id = await watched_session(process, receiver)
    await post_calls([process], session_id, 20)
    await receiver.got(4)
    return session_id


@pytest.mark.parametrize("is_killed", [False, True])
async def test_a_process_that_ends_or_is_killed_leaves_its_destinations_to_the_others(
    url: str, wire: Any, tmp_path: Path, receiver: WebhookReceiver, is_killed: bool
) -> None:
    async with processes_over(url, tmp_path, **SETTINGS) as (first, other):
        session_id = await watched_and_hanging(first, receiver)

        if is_killed:
            first.process.kill()
        else:
            assert await asyncio.to_thread(first.process.stop) == 0
            receiver.released.set()
        receiver.otherwise = status(200)

        await post_calls([other], session_id, 5)  # after a kill they wait for the lease as well
        await until_found(wire, 0, OWED, within_seconds=TAKEN_OVER_SECONDS if is_killed else 60)
    assert len(ids(receiver)) == 25


async def test_a_process_that_was_frozen_past_its_lease_sends_nothing_that_another_has_sent(
    url: str, wire: Any, tmp_path: Path, receiver: WebhookReceiver
) -> None:
    async with processes_over(url, tmp_path, **SETTINGS) as (frozen, other):
        session_id = await watched_and_hanging(frozen, receiver)
        os.kill(frozen.pid, signal.SIGSTOP)
        try:
            receiver.otherwise = status(200)
            await until_found(wire, 0, OWED, within_seconds=TAKEN_OVER_SECONDS)
            sent = ids(receiver)
        finally:
            os.kill(frozen.pid, signal.SIGCONT)

        await post_calls([frozen], session_id, 1)  # it is at work again
        await post_calls([other], session_id, 1)
        await until_found(wire, 0, OWED)
    assert len(sent) == 20
    later = ids(receiver) - sent
    assert (len(later), set(later) & set(sent)) == (2, set())
