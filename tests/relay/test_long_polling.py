"""Waiting for what is not there yet: `Prefer: wait=N` or `?wait=N` on the three reads that are polled."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from yarl import URL

from bridge_server.web.prefer import preferred_seconds
from tests.relay.polls import POLLS, Poll
from tests.support.asking import METRICS_TOKEN, Answer, ask, figure, until_waiting
from tests.support.bridge_client import BridgeClient
from tests.support.clock import PassTime
from tests.support.loads import ANOTHER, SOMEBODY, client, everything_from, get
from tests.support.needs import SLOW
from tests.support.rows import each_row
from tests.support.server import RunningServer, running_server
from tests.support.waiting import eventually

# Waiting for what is not there yet: `Prefer: wait=N` or `?wait=N` on the three reads that are polled.


async def test_a_poll_without_a_wait_is_answered_at_once(poll: Poll) -> None:
    before = await poll.read()
    body = await poll.happen()
    after = await poll.read()

    assert (before.status, before.body) == poll.empty
    assert (after.status, after.body) == (200, body)
    for answer in (before, after):
        assert answer.headers["Vary"] == "Prefer"
        assert "Preference-Applied" not in answer.headers


@each_row("query", ["?wait=0", ""])
async def test_a_wait_of_nothing_is_no_wait(poll: Poll, query: str) -> None:
    answer = await (poll.read(query) if query else poll.read(Prefer="wait=0"))

    assert (answer.status, answer.body) == poll.empty
    assert answer.headers.get("Preference-Applied") == (None if query else "wait=0")


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


async def test_a_value_that_is_there_already_is_answered_at_once(poll: Poll) -> None:
    body = await poll.happen()

    for _ in range(2):
        answer = await poll.read(Prefer="wait=20")

        assert (answer.status, answer.body) == (200, body)
        assert answer.headers["Preference-Applied"] == "wait=20"


async def test_a_session_that_ends_meanwhile_is_404(poll: Poll) -> None:
    async with poll.waiting(Prefer="wait=20") as waiting:
        await poll.bridge.end(poll.session_id)
        answer = await waiting

    answer.problem(404)


async def test_an_unknown_id_is_not_waited_for(poll: Poll) -> None:
    await poll.bridge.end(poll.session_id)

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


@each_row(("asked", "applied"), [(24, 24), (25, 25), (26, 25), (10**10, 25), (10**30, 25)])
async def test_a_wait_of_any_length_is_capped(
    bridge: BridgeClient, session_id: str, asked: int, applied: int
) -> None:
    await bridge.update(session_id)

    answer = await bridge.get(f"/session/{session_id}", {"Prefer": f"wait={asked}"})

    assert answer.headers["Preference-Applied"] == f"wait={applied}"
    assert (await bridge.get(f"/session/{session_id}?wait={asked}")).status == 200


async def test_the_wait_is_found_in_a_second_header(bridge: BridgeClient, session_id: str) -> None:
    await bridge.update(session_id)
    headers = [("Prefer", "respond-async"), ("Prefer", "wait=7")]

    url = f"{bridge.server.url}/session/{session_id}"
    async with bridge.server.client.get(url, headers=headers) as response:
        assert response.headers["Preference-Applied"] == "wait=7"


async def test_a_malformed_preference_is_ignored(poll: Poll) -> None:
    for prefer in ("wait=-1", 'x="a, wait=20"'):
        answer = await poll.read(Prefer=prefer)

        assert (answer.status, answer.body) == poll.empty
        assert "Preference-Applied" not in answer.headers


@each_row("wait", ["", "-1", "1.5", "1s", "soon", "+1", "%201", "1%20", "%ff", "%D9%A3", "1,2", "%00"])
async def test_a_malformed_query_is_400(bridge: BridgeClient, wait: str) -> None:
    for poll in [await make(bridge) for make in POLLS.values()]:
        answer = await poll.read(f"?wait={wait}")

        answer.problem(400)


async def test_unknown_query_parameters_are_ignored(poll: Poll) -> None:
    answer = await poll.read("?waiting=x&%=&&Wait=y&w\u0061it%00=z")

    assert (answer.status, answer.body) == poll.empty


async def test_a_change_of_another_key_does_not_wake_a_waiter(poll: Poll) -> None:
    bridge = poll.bridge
    async with poll.waiting(Prefer="wait=20") as waiting:
        other = await bridge.open_session()
        await bridge.update(other)
        call_id = await bridge.request_call(other)
        await bridge.answer(call_id)
        await bridge.end(other)
        assert not waiting.done()

        body = await poll.happen()
        answer = await waiting

    assert answer.body == body


async def test_a_status_does_not_end_the_wait_for_calls(bridge: BridgeClient) -> None:
    poll = await POLLS["calls"](bridge)
    session_id = poll.session_id
    call_id = await bridge.request_call(session_id)
    await bridge.answer(call_id)
    async with poll.waiting(Prefer="wait=20") as waiting:
        await bridge.answer(call_id, "again")
        await until_waiting(bridge.server, 1)
        assert not waiting.done()

        body = await poll.happen()
        answer = await waiting

    assert answer.body == body


async def test_every_waiter_of_one_key_is_woken(poll: Poll) -> None:
    waiting = [asyncio.create_task(poll.read(Prefer="wait=20")) for _ in range(50)]
    await until_waiting(poll.bridge.server, 50)

    body = await poll.happen()

    assert {answer.body for answer in await asyncio.gather(*waiting)} == {body}


async def test_a_head_request_is_answered_like_a_get_request_without_a_body(poll: Poll) -> None:
    await poll.happen()
    async with poll.bridge.server.client.head(
        poll.bridge.server.url + poll.path, headers={"Prefer": "wait=5"}
    ) as response:
        body = await response.read()

    assert (response.status, body) == (200, b"")
    assert response.headers["Preference-Applied"] == "wait=5"


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


# Clients that wait: many at once, gone without a word, and there when the server stops.

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
    settings: dict[str, Any] = {"max_pending_calls": _CROWD, "max_wait": 120}  # all must wait at one time
    async with running_server(tmp_path, metrics_token=METRICS_TOKEN, **settings) as server:
        bridge = BridgeClient(server)
        session_id = await bridge.open_session()
        ids = await asyncio.gather(*(bridge.request_call(session_id) for _ in range(_CROWD)))
        async with AsyncExitStack() as stack:
            waiting = []
            for call_id in ids:
                poll = bridge.get(f"/call-status/{call_id}", {"Prefer": "wait=120"})
                waiting.append(asyncio.create_task(poll))
                stack.callback(waiting[-1].cancel)
            await until_waiting(server, _CROWD)

            await asyncio.gather(*(bridge.answer(call_id, f"of {call_id}") for call_id in ids))
            answers = await asyncio.gather(*waiting)

        assert Counter(answer.status for answer in answers) == {200: _CROWD}
        told = [answer.body.decode() for answer in answers]
        assert told == [f'{{"encryptionPayload":"of {call_id}"}}' for call_id in ids]
        await until_waiting(server, 0)


# No wake-up is lost, however a poll and the change that it waits for meet.

_ROUNDS = 300 if SLOW else 60
_AT_ONCE = 10


async def _meet(poll: Poll, head_start: int) -> tuple[Answer, bytes]:
    """Poll and change at the same moment, the one so many turns of the event loop before the other."""

    async def late(turns: int) -> None:
        for _ in range(turns):
            await asyncio.sleep(0)

    async def read() -> Answer:
        await late(-head_start)
        return await poll.read(Prefer="wait=20")

    async def happen() -> bytes:
        await late(head_start)
        return await poll.happen()

    return await asyncio.gather(read(), happen())


@each_row("make", POLLS.values(), ids=POLLS.keys())
async def test_a_change_that_meets_a_poll_is_never_lost(
    bridge: BridgeClient, make: Callable[[BridgeClient], Awaitable[Poll]]
) -> None:
    for first in range(0, _ROUNDS, _AT_ONCE):
        polls = [await make(bridge) for _ in range(_AT_ONCE)]

        meetings = await asyncio.gather(
            *(_meet(poll, (first + number) % 61 - 30) for number, poll in enumerate(polls))
        )

        assert [answer.status for answer, _ in meetings] == [200] * _AT_ONCE
        assert [answer.body for answer, _ in meetings] == [body for _, body in meetings]
    await until_waiting(bridge.server, 0)


# Wallets that ask for their calls and do not read them: what is in memory for them is bounded.


CALLS, CALL_BYTES = 25, 60_000
LIST_BYTES = CALLS * CALL_BYTES
MOST_OF_AN_ADDRESS_BYTES = 3 * LIST_BYTES
WINDOW_BYTES = 70_000


@pytest.fixture
async def bounded_server(tmp_path: Path) -> AsyncIterator[RunningServer]:
    """A server that knows clients on this machine by their addresses, but for 127.0.0.1."""
    async with running_server(
        tmp_path / "data", metrics_token=METRICS_TOKEN, quota_exempt="127.0.0.1/32",
        max_address_unread_bytes=MOST_OF_AN_ADDRESS_BYTES, unread_timeout=60,
    ) as bounded_server:  # fmt: skip
        yield bounded_server


async def session_with_calls(server: RunningServer) -> str:
    session_id = await server.open_session()
    for _ in range(CALLS):
        await server.request_call(session_id, "x" * CALL_BYTES)
    return session_id


async def until(server: RunningServer, name: str, count: float) -> None:
    async def reached() -> bool:
        return await figure(server, name) == count

    await eventually(reached)


@pytest.mark.sqlite("answers are shared by the read cache")
@pytest.mark.parametrize(
    "path", ["/session/{}/calls", "/session/{}/calls?wait=20", "/compat/v0.7/session/{}/calls"]
)
async def test_a_list_that_many_do_not_read_is_in_memory_once(
    bounded_server: RunningServer, path: str, pass_time: PassTime
) -> None:
    asking = get(path.format(await session_with_calls(bounded_server)))
    port = URL(bounded_server.url).port or 0
    with ExitStack() as stack:
        for _ in range(30):
            stack.enter_context(client(port, SOMEBODY, asking))
        await until(bounded_server, "unread_connections", 30)

        assert LIST_BYTES < await figure(bounded_server, "unread_bytes") < LIST_BYTES + 30 * WINDOW_BYTES
        assert await figure(bounded_server, "connections_cut_total") == 0
        while await figure(bounded_server, "connections_cut_total") < 30:  # they take nothing for too long
            await pass_time(5)
        assert await figure(bounded_server, "unread_bytes") == 0


async def test_many_unread_lists_are_bounded_and_another_address_is_served(
    bounded_server: RunningServer,
) -> None:
    port = URL(bounded_server.url).port or 0
    session_ids = [await session_with_calls(bounded_server) for _ in range(6)]
    with ExitStack() as stack:
        for session_id in session_ids:
            stack.enter_context(client(port, SOMEBODY, get(f"/session/{session_id}/calls")))
        await until(bounded_server, "connections_cut_total", 4)

        assert await figure(bounded_server, "unread_bytes") <= MOST_OF_AN_ADDRESS_BYTES
        path = f"/session/{session_ids[0]}/calls"
        with client(port, ANOTHER, get(path, "Connection: close"), small=False) as newcomer:
            assert (await everything_from(newcomer)).endswith((await ask(bounded_server, "GET", path)).body)
