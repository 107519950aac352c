"""Clients that wait: many at once, gone without a word, and there when the server stops."""

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path

import aiohttp

from tests.relay.polls import POLLS, Poll
from tests.support.asking import ask
from tests.support.bridge_client import BridgeClient
from tests.support.figures import METRICS_TOKEN, until_waiting
from tests.support.server import running_server

_CROWD = 1_000


async def test_a_client_that_disconnects_is_forgotten(poll: Poll) -> None:
    async with poll.waiting(Prefer="wait=20") as waiting:
        waiting.cancel()

        await until_waiting(poll.bridge.server, 0)

    assert (await poll.read()).status == poll.empty[0]


async def test_a_waiting_client_is_served_after_others_have_left(poll: Poll) -> None:
    crowd = [asyncio.create_task(poll.read(Prefer="wait=20")) for _ in range(10)]
    await until_waiting(poll.bridge.server, 10)

    for task in crowd[:5]:
        task.cancel()
    await until_waiting(poll.bridge.server, 5)
    body = await poll.happen()

    assert {answer.body for answer in await asyncio.gather(*crowd[5:])} == {body}
    await asyncio.gather(*crowd, return_exceptions=True)


async def test_a_stopping_server_answers_waiting_polls_as_if_their_time_were_over(tmp_path: Path) -> None:
    async with aiohttp.ClientSession() as client, asyncio.timeout(24):
        async with running_server(tmp_path, metrics_token=METRICS_TOKEN) as server:
            polls = [await make(BridgeClient(server)) for make in POLLS.values()]
            prefer = {"Prefer": "wait=25"}
            waiting = [
                asyncio.create_task(ask(server, "GET", poll.path, headers=prefer, client=client))
                for poll in polls
            ]
            await until_waiting(server, len(polls))

        answers = await asyncio.gather(*waiting)

    assert [(answer.status, answer.body) for answer in answers] == [poll.empty for poll in polls]


async def test_a_thousand_clients_are_each_woken_by_their_own_call(tmp_path: Path) -> None:
    async with running_server(tmp_path, metrics_token=METRICS_TOKEN, max_pending_calls=_CROWD) as server:
        bridge = BridgeClient(server)
        session_id = await bridge.open_session()
        ids = await asyncio.gather(*(bridge.request_call(session_id) for _ in range(_CROWD)))
        async with AsyncExitStack() as stack:
            waiting = []
            for call_id in ids:
                poll = bridge.get(f"/call-status/{call_id}", {"Prefer": "wait=25"})
                waiting.append(asyncio.create_task(poll))
                stack.callback(waiting[-1].cancel)
            await until_waiting(server, _CROWD)

            await asyncio.gather(*(bridge.answer(call_id, f"of {call_id}") for call_id in ids))
            answers = await asyncio.gather(*waiting)

        assert Counter(answer.status for answer in answers) == {200: _CROWD}
        told = [answer.body.decode() for answer in answers]
        assert told == [f'{{"encryptionPayload":"of {call_id}"}}' for call_id in ids]
        await until_waiting(server, 0)
