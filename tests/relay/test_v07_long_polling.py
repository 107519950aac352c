"""Waiting works under `/compat/v0.7` as it does on the plain paths, with the answers in their envelope."""

import asyncio
from dataclasses import replace

import pytest

from tests.relay.polls import POLLS, Poll
from tests.relay.v07 import V07_PATH
from tests.support.bridge_client import BridgeClient
from tests.support.figures import until_waiting

_LIVES_MS = {"session": 86_400_000, "status": 3_600_000}
_EMPTY = {"session": (204, b""), "calls": (200, b'{"data":{}}'), "status": (204, b"")}

every_poll = pytest.mark.parametrize("kind", list(POLLS))


async def poll_of(bridge: BridgeClient, kind: str) -> Poll:
    """One of the three reads by a client of generation 0.7; what it waits for is done by a plain one."""
    plain = await POLLS[kind](bridge)
    return replace(plain, path=V07_PATH + plain.path)


def enveloped(bridge: BridgeClient, kind: str, body: bytes) -> bytes:
    if kind == "calls":
        return b'{"data":%b}' % body
    return b'{"data":%b,"expires":%d}}' % (body[:-1], bridge.clock.now_ms() + _LIVES_MS[kind])


@every_poll
async def test_a_wait_wakes_with_the_envelope(bridge: BridgeClient, kind: str) -> None:
    poll = await poll_of(bridge, kind)

    async with poll.waiting(Prefer="wait=20") as waiting:
        body = await poll.happen()
        answer = await waiting

    assert (answer.status, answer.body) == (200, enveloped(bridge, kind, body))
    assert answer.headers["Preference-Applied"] == "wait=20"


@every_poll
async def test_a_poll_without_a_wait_is_answered_at_once(bridge: BridgeClient, kind: str) -> None:
    poll = await poll_of(bridge, kind)

    before = await poll.read()
    body = await poll.happen()
    after = await poll.read()

    assert (before.status, before.body) == _EMPTY[kind]
    assert (after.status, after.body) == (200, enveloped(bridge, kind, body))
    assert before.headers["Vary"] == after.headers["Vary"] == "Prefer"


@every_poll
async def test_a_waiting_poll_is_answered_when_the_session_ends(bridge: BridgeClient, kind: str) -> None:
    poll = await poll_of(bridge, kind)

    async with poll.waiting("?wait=20") as waiting:
        await bridge.end(poll.session_id)
        answer = await waiting

    answer.problem(404)


@every_poll
async def test_clients_of_both_generations_are_woken_by_one_change(bridge: BridgeClient, kind: str) -> None:
    v07 = await poll_of(bridge, kind)
    plain = replace(v07, path=v07.path.removeprefix(V07_PATH))
    waiting = [asyncio.create_task(poll.read("?wait=20")) for poll in (plain, v07)]
    await until_waiting(bridge.server, 2)

    body = await v07.happen()

    assert [(await answer).body for answer in waiting] == [body, enveloped(bridge, kind, body)]


@every_poll
async def test_a_value_cached_for_one_generation_is_never_stale_for_the_other(
    bridge: BridgeClient, kind: str
) -> None:
    v07 = await poll_of(bridge, kind)
    plain = replace(v07, path=v07.path.removeprefix(V07_PATH))
    for first in (plain, v07):
        await first.read()  # what it finds is remembered

    body = await v07.happen()

    for _ in range(2):
        assert (await plain.read()).body == body
        assert (await v07.read()).body == enveloped(bridge, kind, body)
