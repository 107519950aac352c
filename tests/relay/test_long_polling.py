"""Waiting for what is not there yet: `Prefer: wait=N` or `?wait=N` on the three reads that are polled."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from yarl import URL

from bridge_server.web.prefer import preferred_seconds
from tests.relay.polls import POLLS, Poll
from tests.support.asking import METRICS_TOKEN, Answer, figure, until_waiting
from tests.support.bridge_client import BridgeClient
from tests.support.clock import PassTime
from tests.support.loads import SOMEBODY, client, get
from tests.support.needs import SLOW
from tests.support.rows import each_row
from tests.support.server import running_server
from tests.support.waiting import eventually, turns


async def test_a_poll_without_a_wait_or_with_a_value_is_answered_at_once(poll: Poll) -> None:
    async def check(expected: tuple[int, bytes], query: str = "", **headers: str) -> None:
        answer = await poll.read(query, **headers)
        assert (answer.status, answer.body) == expected
        assert answer.headers.get("Preference-Applied") == headers.get("Prefer")
        assert answer.headers["Vary"] == "Prefer"

    await check(poll.empty)
    await check(poll.empty, "?wait=0")
    await check(poll.empty, Prefer="wait=0")
    happened = (200, await poll.happen())
    await check(happened)
    for _ in range(2):
        await check(happened, Prefer="wait=20")


@each_row(("query", "headers"), [("", {"Prefer": "wait=20"}), ("?wait=20", {})], empties=True)
async def test_a_wait_wakes_with_what_happened(
    bridge: BridgeClient, query: str, headers: dict[str, str]
) -> None:
    for make in POLLS.values():
        poll = await make(bridge)
        async with poll.waiting(query, **headers) as waiting:
            body = await poll.happen()
            answer = await waiting

        assert (answer.status, answer.body) == (200, body)
        assert answer.headers["Content-Type"] == "application/json"
        assert answer.headers.get("Preference-Applied") == headers.get("Prefer")
        assert answer.headers["Vary"] == "Prefer"
        await until_waiting(bridge.server, 0)


async def test_a_session_that_ends_meanwhile_is_404_and_is_not_waited_for(poll: Poll) -> None:
    async with poll.waiting(Prefer="wait=20") as waiting:
        await poll.bridge.end(poll.session_id)
        (await waiting).problem(404)
    (await poll.read(Prefer="wait=20")).problem(404)
    (await poll.read("?wait=20")).problem(404)


async def test_a_wait_ends_as_a_poll_without_one_would_and_never_later_than_allowed(tmp_path: Path) -> None:
    async with running_server(tmp_path, max_wait=1) as server:
        polls = [await make(BridgeClient(server)) for make in POLLS.values()]
        preferring = [poll.read(Prefer="wait=999999999") for poll in polls]
        asking = [poll.read("?wait=999999999") for poll in polls]
        answers = await asyncio.gather(*preferring, *asking)

        assert [(answer.status, answer.body) for answer in answers] == [poll.empty for poll in polls] * 2
        assert {answer.headers["Vary"] for answer in answers} == {"Prefer"}
        applied = [answer.headers.get("Preference-Applied") for answer in answers]
        assert applied == ["wait=1"] * 3 + [None] * 3


async def test_a_wait_of_any_length_is_capped(bridge: BridgeClient, session_id: str) -> None:
    await bridge.update(session_id)
    applied = {}
    for asked in (24, 25, 26, 10**10, 10**30):
        answer = await bridge.get(f"/session/{session_id}", {"Prefer": f"wait={asked}"})
        applied[asked] = answer.headers["Preference-Applied"]
        assert (await bridge.get(f"/session/{session_id}?wait={asked}")).status == 200

    assert applied == {24: "wait=24", **dict.fromkeys((25, 26, 10**10, 10**30), "wait=25")}


async def test_a_malformed_query_is_400(poll: Poll) -> None:
    for wait in ("", "-1", "1.5", "1s", "soon", "+1", "%201", "1%20", "%ff", "%D9%A3", "1,2", "%00"):
        (await poll.read(f"?wait={wait}")).problem(400)


async def test_a_change_of_another_key_does_not_wake_a_waiter(poll: Poll) -> None:
    bridge = poll.bridge
    async with poll.waiting(Prefer="wait=20") as waiting:
        other = await bridge.open_session()
        await bridge.update(other)
        await bridge.answer(await bridge.request_call(other))
        await bridge.end(other)
        assert not waiting.done()
        body = await poll.happen()

        assert (await waiting).body == body


async def test_every_waiter_of_one_key_is_woken(poll: Poll) -> None:
    waiting = [asyncio.create_task(poll.read(Prefer="wait=20")) for _ in range(50)]
    await until_waiting(poll.bridge.server, 50)
    body = await poll.happen()

    assert {answer.body for answer in await asyncio.gather(*waiting)} == {body}


@each_row(
    ("preferences", "seconds"),
    [
        *((each, 7) for each in ("wait=7", "Wait=7", "WAIT = 7", 'wait="7"', "wait=007", "wait=7, wait=9")),
        *((each, 7) for each in ("respond-async, wait=7", "respond-async; wait=7", 'x="a", wait=7')),
        ("respond-async,wait=7 , handling=lenient", 7),
        ('return=minimal; x="y", wait=7; hurry', 7),
        ('x="a, wait=2", wait=7', 7),
        (r'x="a\", wait=2", wait=7', 7),
        *((each, None) for each in ('x="a, wait=2"', 'x="a; wait=2"', 'x="a, wait=2', "await=2", 'wait="7')),
        *((each, None) for each in ("", "wait", "wait=", "wait=-1", "wait=1.5", "wait=1s", "wait=soon")),
        *((each, None) for each in ("wait=0x10", "wait=1 0", "xwait=7", "wait-7", "respond-async", "wait=٣")),
    ],
)
def test_a_preference_is_what_stands_between_commas(preferences: str, seconds: int | None) -> None:
    assert preferred_seconds(preferences) == seconds


async def test_fields_that_are_too_long_to_be_preferences_are_ignored(poll: Poll) -> None:
    for preferences in ("wait=20, x=" + "a" * 1_024, 'x="' + '\\"' * 4_000 + "\\"):
        assert (await poll.read(Prefer=preferences)).status == poll.empty[0]


async def test_a_client_that_disconnects_is_forgotten(poll: Poll) -> None:
    async with poll.waiting(Prefer="wait=20") as waiting:
        waiting.cancel()
        await until_waiting(poll.bridge.server, 0)

    assert (await poll.read()).status == poll.empty[0]


async def test_a_stopping_server_answers_waiting_polls_as_if_their_time_were_over(tmp_path: Path) -> None:
    async with aiohttp.ClientSession() as client:
        async with running_server(tmp_path, metrics_token=METRICS_TOKEN, max_wait=300) as server:
            polls = [await make(BridgeClient(server)) for make in POLLS.values()]
            beside = replace(server, client=client)  # which outlives the server
            waiting = [
                asyncio.create_task(BridgeClient(beside).get(poll.path, {"Prefer": "wait=300"}))
                for poll in polls
            ]
            await until_waiting(server, len(polls))

        answers = await asyncio.gather(*waiting)

    assert [(answer.status, answer.body) for answer in answers] == [poll.empty for poll in polls]


_ROUNDS = 300 if SLOW else 60


@each_row("make", POLLS.values(), ids=POLLS.keys())
async def test_a_change_that_meets_a_poll_is_never_lost(
    bridge: BridgeClient, make: Callable[[BridgeClient], Awaitable[Poll]]
) -> None:
    async def meet(poll: Poll, head_start: int) -> None:
        """Poll and change, the one so many turns of the event loop before the other."""

        async def read() -> Answer:
            await turns(-head_start)
            return await poll.read(Prefer="wait=20")

        async def happen() -> bytes:
            await turns(head_start)
            return await poll.happen()

        answer, body = await asyncio.gather(read(), happen())
        assert (answer.status, answer.body) == (200, body)

    for first in range(0, _ROUNDS, 10):
        polls = [await make(bridge) for _ in range(10)]
        await asyncio.gather(*(meet(poll, (first + number) % 61 - 30) for number, poll in enumerate(polls)))
    await until_waiting(bridge.server, 0)


@pytest.mark.sqlite("answers are shared by the read cache")
@pytest.mark.parametrize(
    "path", ["/session/{}/calls", "/session/{}/calls?wait=20", "/compat/v0.7/session/{}/calls"]
)
async def test_a_list_that_many_do_not_read_is_in_memory_once(
    tmp_path: Path, path: str, pass_time: PassTime
) -> None:
    list_bytes, window_bytes = 25 * 60_000, 70_000
    settings: dict[str, Any] = {
        "max_address_unread_bytes": 3 * list_bytes, "unread_timeout": 60,
        "metrics_token": METRICS_TOKEN, "quota_exempt": "127.0.0.1/32",
    }  # fmt: skip
    async with running_server(tmp_path / "data", **settings) as server:
        session_id = await server.open_session()
        for _ in range(25):
            await server.request_call(session_id, "x" * 60_000)

        async def all_wait() -> bool:
            return await figure(server, "unread_connections") == 30

        with ExitStack() as stack:
            for _ in range(30):
                port = URL(server.url).port or 0
                stack.enter_context(client(port, SOMEBODY, get(path.format(session_id))))
            await eventually(all_wait)

            assert list_bytes < await figure(server, "unread_bytes") < list_bytes + 30 * window_bytes
            assert await figure(server, "connections_cut_total") == 0
            while await figure(server, "connections_cut_total") < 30:  # they take nothing for too long
                await pass_time(5)
            assert await figure(server, "unread_bytes") == 0
