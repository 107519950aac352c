"""Requests that meet: each is answered as if they had come one after the other."""

import asyncio
from collections import Counter
from pathlib import Path

import orjson

from tests.support.asking import Answer
from tests.support.bridge_client import BridgeClient
from tests.support.needs import SLOW
from tests.support.server import running_server

_ROUNDS = 200 if SLOW else 50


def _number(answer: Answer) -> int:
    """The number in a payload; -1 when there is none yet."""
    if answer.status == 204:
        return -1
    number: int = orjson.loads(answer.body)["encryptionPayload"]["n"]
    return number


async def test_the_last_of_two_concurrent_updates_is_kept(tmp_path: Path) -> None:
    async with running_server(tmp_path) as server:
        bridge = BridgeClient(server)
        sessions = [await bridge.open_session() for _ in range(20)]
        updates = [bridge.update(session_id, {"n": n}) for session_id in sessions for n in (1, 2)]
        assert {answer.status for answer in await asyncio.gather(*updates)} == {200}

        remembered = [_number(await bridge.session(session_id)) for session_id in sessions]
    async with running_server(tmp_path) as server:
        stored = [_number(await BridgeClient(server).session(session_id)) for session_id in sessions]
    assert set(remembered) <= {1, 2}
    assert remembered == stored


async def test_concurrent_calls_and_subscriptions_are_accepted_exactly_up_to_the_quota(
    tmp_path: Path,
) -> None:
    async with running_server(tmp_path, max_pending_calls=60) as server:
        bridge = BridgeClient(server)
        session_id = await bridge.open_session()
        accepted = [await bridge.request_call(session_id) for _ in range(20)]

        answers = await asyncio.gather(*(bridge.post_call(session_id) for _ in range(50)))

        assert Counter(answer.status for answer in answers) == {200: 40, 429: 10}
        accepted += [answer.json["callId"] for answer in answers if answer.status == 200]
        assert sorted(await bridge.pending(session_id)) == sorted(accepted)
        hooks = [f"https://example.org/{number}" for number in range(30)]
        answers = await asyncio.gather(*(bridge.subscribe("topic", hook) for hook in hooks))
        assert Counter(answer.status for answer in answers) == {200: 16, 409: 14}


async def test_a_call_that_meets_the_end_of_its_session_leaves_nothing(bridge: BridgeClient) -> None:
    for number in range(30):
        session_id = await bridge.open_session()
        moves = [bridge.post_call(session_id) for _ in range(4)]
        moves.insert(number % 5, bridge.end(session_id))

        answers = await asyncio.gather(*moves)

        ended = answers.pop(number % 5)
        assert ended.status == 200
        assert {answer.status for answer in answers} <= {200, 404}
        for call_id in [answer.json["callId"] for answer in answers if answer.status == 200]:
            (await bridge.status(call_id)).problem(404)
            (await bridge.answer(call_id)).problem(404)
        (await bridge.calls(session_id)).problem(404)


async def test_one_of_two_concurrent_ends_succeeds(bridge: BridgeClient, session_id: str) -> None:
    answers = await asyncio.gather(bridge.end(session_id), bridge.end(session_id))
    assert sorted(answer.status for answer in answers) == [200, 404]


async def test_a_read_payload_is_never_older_than_the_last_acknowledged_one(
    bridge: BridgeClient, session_id: str
) -> None:
    answered = -1
    stale = []

    async def read_on() -> None:
        while answered < _ROUNDS - 1:
            at_least = answered
            number = _number(await bridge.session(session_id))
            if number < at_least:
                stale.append((number, at_least))

    readers = [asyncio.create_task(read_on()) for _ in range(8)]
    for n in range(_ROUNDS):
        await bridge.update(session_id, {"n": n})
        answered = n
        assert _number(await bridge.session(session_id)) == n
    await asyncio.gather(*readers)

    assert stale == []


async def test_a_call_with_an_acknowledged_status_is_never_listed(
    bridge: BridgeClient, session_id: str
) -> None:
    answered: set[str] = set()
    stale: list[str] = []
    done = False

    async def read_on() -> None:
        while not done:
            before = frozenset(answered)
            stale.extend(before.intersection(await bridge.pending(session_id)))

    readers = [asyncio.create_task(read_on()) for _ in range(8)]
    for _ in range(_ROUNDS // 4):
        call_id = await bridge.request_call(session_id)
        assert await bridge.pending(session_id) == [call_id]
        await bridge.answer(call_id)
        answered.add(call_id)
        assert await bridge.pending(session_id) == []
        assert (await bridge.status(call_id)).status == 200
    done = True
    await asyncio.gather(*readers)

    assert stale == []
