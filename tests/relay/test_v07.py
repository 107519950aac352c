"""Generation 0.7: envelopes, what has ended, waiting, and plain clients in one session with it."""

import asyncio
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from time import time
from typing import Any
from urllib.parse import urlsplit

import orjson
import pytest

from tests.relay.polls import POLLS, V07_PATH, Poll, as_v07
from tests.support.asking import ask, until_delivered, until_waiting
from tests.support.bridge_client import BridgeClient
from tests.support.clock import ManualClock
from tests.support.needs import PACKAGES, needs_node
from tests.support.rows import each_row
from tests.support.server import running_server, server_process
from tests.support.webhook_receiver import WebhookReceiver

_HOUR = 3600
_MS = 0.001
_UNKNOWN = "5f9c55ec-102a-45ab-a679-b264d7cdc261"
_SEALED = {"data": "ab12", "hmac": "cd34", "iv": "ef56"}


# Envelopes


@each_row("payload", ["", '""', "}", "é😀\\u0000", "x" * 60_000, {}, {"expires": 1}, {"a": {}}, _SEALED])
async def test_a_payload_is_unchanged_inside_the_envelope(
    v07: BridgeClient, session_id: str, payload: str | dict[str, object]
) -> None:
    await v07.update(session_id, payload)
    call_id = await v07.request_call(session_id, payload)
    await v07.answer(call_id, payload)

    for read in (v07.session(session_id), v07.call(session_id, call_id), v07.status(call_id)):
        data = (await read).json["data"]

        assert data["encryptionPayload"] == payload
        assert data["expires"] > v07.clock.now_ms()


async def test_the_expiry_of_a_session_follows_every_update_and_call_and_it_lives_until_then(
    v07: BridgeClient, session_id: str
) -> None:
    await v07.update(session_id)
    told = [(await v07.session(session_id)).json["data"]["expires"]]
    for prolong in (v07.request_call, v07.update):
        v07.clock.advance(61)
        await prolong(session_id)
        told.append((await v07.session(session_id)).json["data"]["expires"])
    v07.clock.advance((told[-1] - v07.clock.now_ms()) / 1000 - _MS)
    alive = await v07.session(session_id)
    v07.clock.advance(_MS)
    gone = await v07.session(session_id)

    first = told[0]
    assert told == [first, first + 61_000, first + 122_000]
    assert (alive.status, gone.status) == (200, 204)


# What has expired or was ended: whatever lets its clients go on


async def test_a_session_that_ended_reads_as_one_without_details(v07: BridgeClient, session_id: str) -> None:
    await v07.update(session_id)
    await v07.session(session_id)

    await v07.end(session_id)

    for gone in (session_id, _UNKNOWN):
        answer = await v07.session(gone)
        assert (answer.status, answer.body) == (204, b"")
    (await v07.get(f"/session/{session_id}?wait=20")).problem(404)
    (await v07.get(f"/session/{session_id}", {"Prefer": "wait=20"})).problem(404)


async def test_a_session_can_be_ended_again(bridge: BridgeClient, session_id: str) -> None:
    v07 = as_v07(bridge)
    await v07.end(session_id)

    for gone in (session_id, _UNKNOWN):
        assert (await v07.end(gone)).json == {"success": True}
        (await bridge.end(gone)).problem(404)


async def test_other_paths_of_an_ended_session_are_404(v07: BridgeClient, session_id: str) -> None:
    call_id = await v07.request_call(session_id)
    await v07.end(session_id)

    for answer in [
        await v07.update(session_id),
        await v07.post_call(session_id),
        await v07.calls(session_id),
        await v07.call(session_id, call_id),
        await v07.answer(call_id),
        await v07.status(call_id),
    ]:
        answer.problem(404)


# Waiting


_LIVES_MS = {"session": 86_400_000, "status": 3_600_000}
_EMPTY = {"session": (204, b""), "calls": (200, b'{"data":{}}'), "status": (204, b"")}
every_poll = pytest.mark.parametrize("kind", list(POLLS))


async def polls_of(bridge: BridgeClient, kind: str) -> tuple[Poll, Poll]:
    """One of the three reads by a plain client, and by a client of generation 0.7."""
    plain = await POLLS[kind](bridge)
    return plain, replace(plain, path=V07_PATH + plain.path)


def enveloped(bridge: BridgeClient, kind: str, body: bytes) -> bytes:
    if kind == "calls":
        return b'{"data":%b}' % body
    return b'{"data":%b,"expires":%d}}' % (body[:-1], bridge.clock.now_ms() + _LIVES_MS[kind])


@every_poll
async def test_one_change_wakes_clients_of_both_generations(bridge: BridgeClient, kind: str) -> None:
    plain, v07 = await polls_of(bridge, kind)
    waiting = [asyncio.create_task(poll.read(Prefer="wait=20")) for poll in (plain, v07)]
    await until_waiting(bridge.server, 2)

    body = await v07.happen()

    answers = await asyncio.gather(*waiting)
    assert [answer.body for answer in answers] == [body, enveloped(bridge, kind, body)]
    assert [answer.headers["Preference-Applied"] for answer in answers] == ["wait=20"] * 2


@every_poll
async def test_a_value_cached_for_one_generation_is_never_stale_for_the_other(
    bridge: BridgeClient, kind: str
) -> None:
    plain, v07 = await polls_of(bridge, kind)
    before = [await poll.read() for poll in (plain, v07)]  # what they find is remembered

    body = await v07.happen()

    assert [(answer.status, answer.body) for answer in before] == [plain.empty, _EMPTY[kind]]
    for _ in range(2):
        assert (await plain.read()).body == body
        after = await v07.read()
        assert after.body == enveloped(bridge, kind, body)
    assert before[1].headers["Vary"] == after.headers["Vary"] == "Prefer"


@every_poll
async def test_a_waiting_poll_is_answered_when_the_session_ends(bridge: BridgeClient, kind: str) -> None:
    _, poll = await polls_of(bridge, kind)

    async with poll.waiting("?wait=20") as waiting:
        await bridge.end(poll.session_id)
        answer = await waiting

    answer.problem(404)


# A dapp of one generation and a wallet of the other meet in one session


@pytest.fixture(params=[("plain", "0.7"), ("0.7", "plain")], ids=["plain dapp", "0.7 dapp"])
def pair(bridge: BridgeClient, request: pytest.FixtureRequest) -> tuple[BridgeClient, BridgeClient]:
    """A dapp and a wallet."""
    clients = {"plain": bridge, "0.7": as_v07(bridge)}
    dapp, wallet = request.param
    return clients[dapp], clients[wallet]


def inside(client: BridgeClient, document: Any) -> Any:
    """The members that the client finds in an answer."""
    return document["data"] if client.path else document


async def test_clients_of_both_generations_pair_call_and_answer(
    pair: tuple[BridgeClient, BridgeClient], receiver: WebhookReceiver
) -> None:
    dapp, wallet = pair
    session_id = (await dapp.send("POST", "/session/new", {})).json["sessionId"]
    push = {"type": "fcm", "token": "token", "webhook": receiver.url("/push")}

    await wallet.update(session_id, _SEALED, push=push)
    approval = inside(dapp, (await dapp.session(session_id)).json)
    call_id = await dapp.request_call(session_id, {**_SEALED, "data": "call"})
    pending = inside(wallet, (await wallet.calls(session_id)).json)
    call = inside(wallet, (await wallet.call(session_id, call_id)).json)
    await wallet.answer(call_id, {**_SEALED, "data": "status"})
    status = inside(dapp, (await dapp.status(call_id)).json)
    await until_delivered(dapp.server)

    assert approval["encryptionPayload"] == _SEALED
    assert pending == {call_id: {"encryptionPayload": {**_SEALED, "data": "call"}}}
    assert call["encryptionPayload"] == {**_SEALED, "data": "call"}
    assert status["encryptionPayload"] == {**_SEALED, "data": "status"}
    assert inside(wallet, (await wallet.calls(session_id)).json) == {}
    assert [orjson.loads(request.body)["callId"] for request in receiver.requests] == [call_id]


async def test_new_sessions_of_both_generations_count_towards_one_quota(tmp_path: Path) -> None:
    async with running_server(tmp_path, quota_exempt=(), sessions_burst=1, sessions_per_minute=1) as server:
        paths = ["/session/new", f"{V07_PATH}/session/new"]

        answers = [await ask(server, "POST", path) for path in paths]

        assert [answer.status for answer in answers] == [200, 429]


# The published clients, unmodified, run by Node.js.


_SECONDS = 240


@asynccontextmanager
async def node(script: str, url: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A script of `tests/node` that talks to the server at `url`; it ends with the block."""
    process = await asyncio.create_subprocess_exec("node", PACKAGES / script, url, stdin=PIPE, stdout=PIPE)
    try:
        async with asyncio.timeout(_SECONDS):
            yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@needs_node
async def test_the_published_clients_work(tmp_path: Path) -> None:
    clock = ManualClock(start_ms=round(time() * 1000))  # the clients look at their own
    async with (
        running_server(tmp_path, clock, allow_private_webhooks=True) as server,
        node("v07_run.js", server.url) as process,
    ):
        printed, _ = await process.communicate()

    failures = orjson.loads(printed)
    assert {scenario: failure for scenario, failure in failures.items() if failure is not None} == {}
    assert len(failures) == 15


@needs_node
async def test_the_published_clients_go_on_after_the_server_was_killed(tmp_path: Path) -> None:
    with server_process(tmp_path / "data") as server:
        async with node("v07_restart.js", f"{server.url}{V07_PATH}") as process:
            assert process.stdin is not None
            assert process.stdout is not None
            assert await process.stdout.readline() == b"paired\n"

            server.kill()
            with server_process(tmp_path / "data", "--port", str(urlsplit(server.url).port)) as again:
                process.stdin.write(b"restarted\n")
                await process.wait()

            assert again.url == server.url
            assert process.returncode == 0
