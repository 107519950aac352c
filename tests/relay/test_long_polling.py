"""Waiting for what is not there yet: `Prefer: wait=N` or `?wait=N` on the three reads that are polled."""

import asyncio
from pathlib import Path

from bridge_server.web.prefer import preferred_seconds
from tests.relay.polls import POLLS, Poll
from tests.support.bridge_client import BridgeClient
from tests.support.figures import until_waiting
from tests.support.rows import each_row
from tests.support.server import running_server


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


async def test_a_preference_wakes_with_what_happened(poll: Poll) -> None:
    async with poll.waiting(Prefer="wait=20") as waiting:
        body = await poll.happen()
        answer = await waiting

    assert (answer.status, answer.body) == (200, body)
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.headers["Preference-Applied"] == "wait=20"
    assert answer.headers["Vary"] == "Prefer"
    await until_waiting(poll.bridge.server, 0)


async def test_a_query_wakes_with_what_happened(poll: Poll) -> None:
    async with poll.waiting("?wait=20") as waiting:
        body = await poll.happen()
        answer = await waiting

    assert (answer.status, answer.body) == (200, body)
    assert answer.headers["Content-Type"] == "application/json"
    assert "Preference-Applied" not in answer.headers
    assert answer.headers["Vary"] == "Prefer"
    await until_waiting(poll.bridge.server, 0)


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


@each_row(
    "prefer",
    [
        "wait=7",
        "Wait=7",
        "WAIT = 7",
        'wait="7"',
        "wait=007",
        "respond-async, wait=7",
        "respond-async,wait=7 , handling=lenient",
        'return=minimal; x="y", wait=7; hurry',
        "wait=7, wait=9",
    ],
)
async def test_the_wait_is_found_among_the_preferences(
    bridge: BridgeClient, session_id: str, prefer: str
) -> None:
    await bridge.update(session_id)

    answer = await bridge.get(f"/session/{session_id}", {"Prefer": prefer})

    assert answer.headers["Preference-Applied"] == "wait=7"


async def test_the_wait_is_found_in_a_second_header(bridge: BridgeClient, session_id: str) -> None:
    await bridge.update(session_id)
    headers = [("Prefer", "respond-async"), ("Prefer", "wait=7")]

    url = f"{bridge.server.url}/session/{session_id}"
    async with bridge.server.client.get(url, headers=headers) as response:
        assert response.headers["Preference-Applied"] == "wait=7"


@each_row(
    "prefer",
    [
        "",
        "wait",
        "wait=",
        "wait=-1",
        "wait=1.5",
        "wait=1s",
        "wait=soon",
        "wait=0x10",
        "wait=1 0",
        "xwait=7",
        "wait-7",
        "respond-async",
        "wait=٣",
    ],
)
async def test_a_malformed_preference_is_ignored(bridge: BridgeClient, prefer: str) -> None:
    for poll in [await make(bridge) for make in POLLS.values()]:
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
        ("wait=5", 5),
        ("WAIT = 5", 5),
        ('wait="5"', 5),
        ("respond-async, wait=5", 5),
        ("respond-async; wait=5", 5),
        ("wait=5, wait=7", 5),
        ('x="a", wait=5', 5),
        ('x="a, wait=2", wait=5', 5),
        (r'x="a\", wait=2", wait=5', 5),
        ('x="a, wait=2"', None),
        ('x="a; wait=2"', None),
        ('x="a, wait=2', None),
        ("await=2", None),
        ("wait=", None),
        ("wait=-1", None),
        ("wait=1.5", None),
        ('wait="5', None),
        ("", None),
    ],
)
def test_a_preference_is_what_stands_between_commas(preferences: str, seconds: int | None) -> None:
    assert preferred_seconds(preferences) == seconds


async def test_a_wait_in_a_quoted_text_is_none(poll: Poll) -> None:
    answer = await poll.read(Prefer='x="a, wait=20"')

    assert "Preference-Applied" not in answer.headers
