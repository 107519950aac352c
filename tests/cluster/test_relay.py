"""What is written at one process is there at the other, and wakes who waits there."""

import asyncio
from typing import Any

import pytest

from tests.cluster.processes import ClusterProcess
from tests.support.asking import Answer
from tests.support.bridge_client import BridgeClient
from tests.support.figures import until_waiting
from tests.support.postgres import needs_postgres

pytestmark = needs_postgres

WAIT = {"Prefer": "wait=25"}
WAITERS = 1_000


@pytest.fixture
def dapp(pair: tuple[ClusterProcess, ClusterProcess]) -> BridgeClient:
    """A client of the first process."""
    return BridgeClient(pair[0].server)


@pytest.fixture
def wallet(pair: tuple[ClusterProcess, ClusterProcess]) -> BridgeClient:
    """A client of the second process."""
    return BridgeClient(pair[1].server)


async def woken(pair: tuple[ClusterProcess, ClusterProcess], poll: Any, change: Any) -> Answer:
    """The answer of a long poll at the first process that waits when the change begins."""
    polling = asyncio.create_task(poll)
    await until_waiting(pair[0].server, 1)
    assert (await change()).status == 200
    answer: Answer = await polling
    return answer


async def test_a_session_that_a_wallet_updates_at_another_process_answers_the_dapp_that_waits(
    pair: tuple[ClusterProcess, ClusterProcess], dapp: BridgeClient, wallet: BridgeClient
) -> None:
    session_id = await dapp.open_session()

    answer = await woken(
        pair, dapp.get(f"/session/{session_id}", WAIT), lambda: wallet.update(session_id, "approved")
    )

    assert answer.json["encryptionPayload"] == "approved"


async def test_a_call_at_another_process_answers_the_wallet_that_waits_for_calls(
    pair: tuple[ClusterProcess, ClusterProcess], dapp: BridgeClient, wallet: BridgeClient
) -> None:
    session_id = await wallet.open_session()
    await wallet.update(session_id)

    answer = await woken(
        pair, dapp.get(f"/session/{session_id}/calls", WAIT), lambda: wallet.post_call(session_id)
    )

    assert len(answer.json) == 1


async def test_a_status_at_another_process_answers_the_dapp_that_waits(
    pair: tuple[ClusterProcess, ClusterProcess], dapp: BridgeClient, wallet: BridgeClient
) -> None:
    session_id = await dapp.open_session()
    await wallet.update(session_id)
    call_id = await dapp.request_call(session_id)

    answer = await woken(
        pair, dapp.get(f"/call-status/{call_id}", WAIT), lambda: wallet.answer(call_id, "signed")
    )

    assert answer.json["encryptionPayload"] == "signed"


async def test_a_session_that_is_deleted_at_another_process_ends_the_wait(
    pair: tuple[ClusterProcess, ClusterProcess], dapp: BridgeClient, wallet: BridgeClient
) -> None:
    session_id = await dapp.open_session()

    polling = asyncio.create_task(dapp.get(f"/session/{session_id}", WAIT))
    await until_waiting(pair[0].server, 1)
    await wallet.end(session_id)

    (await polling).problem(404)


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


async def test_a_burst_of_answers_at_one_process_wakes_everybody_who_waits_at_the_other(
    pair: tuple[ClusterProcess, ClusterProcess], dapp: BridgeClient, wallet: BridgeClient
) -> None:
    lines = asyncio.Semaphore(64)

    async def answered(session_id: str) -> None:
        async with lines:
            assert (await wallet.update(session_id, f"for {session_id}")).status == 200

    async def opened() -> str:
        async with lines:
            return await dapp.open_session()

    sessions = await asyncio.gather(*(opened() for _ in range(WAITERS)))
    polls = [asyncio.create_task(dapp.get(f"/session/{session_id}", WAIT)) for session_id in sessions]
    await until_waiting(pair[0].server, WAITERS)
    await asyncio.gather(*map(answered, sessions))
    answers = await asyncio.gather(*polls)

    found = [answer.json["encryptionPayload"] for answer in answers]
    assert found == [f"for {session_id}" for session_id in sessions]
