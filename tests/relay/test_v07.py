"""Generation 0.7: envelopes, what has ended, waiting, and plain clients in one session with it."""

import asyncio
from dataclasses import replace
from pathlib import Path
from time import time
from typing import Any

import orjson
import pytest

from tests.pubsub.test_published_clients import line_of, node
from tests.relay.polls import POLLS, V07_PATH
from tests.support.asking import ask, until_delivered, until_waiting
from tests.support.bridge_client import BridgeClient
from tests.support.clock import ManualClock
from tests.support.needs import PACKAGES, needs_node
from tests.support.programs import output_of
from tests.support.rows import each_row
from tests.support.server import running_server, server_process
from tests.support.webhook_receiver import WebhookReceiver

_SEALED = {"data": "ab12", "hmac": "cd34", "iv": "ef56"}


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
    first = expires = (await v07.session(session_id)).json["data"]["expires"]
    for prolong, later_ms in ((v07.request_call, 61_000), (v07.update, 122_000)):
        v07.clock.advance(61)
        await prolong(session_id)
        expires = (await v07.session(session_id)).json["data"]["expires"]
        assert expires == first + later_ms

    v07.clock.advance((expires - v07.clock.now_ms()) / 1000 - 0.001)
    assert (await v07.session(session_id)).status == 200
    v07.clock.advance(0.001)
    assert (await v07.session(session_id)).status == 204


async def test_a_session_that_ended_reads_as_one_without_details_and_can_be_ended_again(
    bridge: BridgeClient, v07: BridgeClient, session_id: str
) -> None:
    call_id = await v07.request_call(session_id)
    await v07.update(session_id)
    await v07.session(session_id)

    await v07.end(session_id)

    for gone in (session_id, "5f9c55ec-102a-45ab-a679-b264d7cdc261"):
        answer = await v07.session(gone)
        assert (answer.status, answer.body) == (204, b"")
        assert (await v07.end(gone)).json == {"success": True}
        (await bridge.end(gone)).problem(404)
    for other in (
        v07.get(f"/session/{session_id}?wait=20"),
        v07.get(f"/session/{session_id}", {"Prefer": "wait=20"}),
        v07.update(session_id),
        v07.post_call(session_id),
        v07.calls(session_id),
        v07.call(session_id, call_id),
        v07.answer(call_id),
        v07.status(call_id),
    ):
        (await other).problem(404)


@pytest.mark.parametrize("kind", list(POLLS))
async def test_clients_of_both_generations_wait_for_one_change_and_read_it(
    bridge: BridgeClient, kind: str
) -> None:
    plain = await POLLS[kind](bridge)
    v07 = replace(plain, path=V07_PATH + plain.path)
    before = [await poll.read() for poll in (plain, v07)]  # what they find is remembered
    waiting = [asyncio.create_task(poll.read(Prefer="wait=20")) for poll in (plain, v07)]
    await until_waiting(bridge.server, 2)

    body = await v07.happen()

    empty = (200, b'{"data":{}}') if kind == "calls" else (204, b"")
    assert [(answer.status, answer.body) for answer in before] == [plain.empty, empty]
    enveloped = b'{"data":%b}' % body
    if kind != "calls":
        lives_ms = {"session": 86_400_000, "status": 3_600_000}[kind]
        enveloped = b'{"data":%b,"expires":%d}}' % (body[:-1], bridge.clock.now_ms() + lives_ms)
    answers = await asyncio.gather(*waiting)
    assert [answer.body for answer in answers] == [body, enveloped]
    assert [answer.headers["Preference-Applied"] for answer in answers] == ["wait=20"] * 2
    for _ in range(2):
        assert (await plain.read()).body == body
        after = await v07.read()
        assert after.body == enveloped
    assert before[1].headers["Vary"] == after.headers["Vary"] == "Prefer"


@pytest.mark.parametrize("kind", list(POLLS))
async def test_a_waiting_poll_is_answered_when_the_session_ends(bridge: BridgeClient, kind: str) -> None:
    plain = await POLLS[kind](bridge)
    async with replace(plain, path=V07_PATH + plain.path).waiting("?wait=20") as waiting:
        await bridge.end(plain.session_id)
        (await waiting).problem(404)


@pytest.mark.parametrize("is_dapp_v07", [False, True])
async def test_clients_of_both_generations_pair_call_and_answer(
    bridge: BridgeClient, v07: BridgeClient, receiver: WebhookReceiver, is_dapp_v07: bool
) -> None:
    dapp, wallet = (v07, bridge) if is_dapp_v07 else (bridge, v07)

    async def read(client: BridgeClient, path: str) -> Any:
        """The members that the client finds in an answer."""
        document = (await client.get(path)).json
        return document["data"] if client.path else document

    session_id = (await dapp.send("POST", "/session/new", {})).json["sessionId"]
    push = {"type": "fcm", "token": "token", "webhook": receiver.url("/push")}
    sealed_call, sealed_status = ({**_SEALED, "data": name} for name in ("call", "status"))

    await wallet.update(session_id, _SEALED, push=push)
    assert (await read(dapp, f"/session/{session_id}"))["encryptionPayload"] == _SEALED
    call_id = await dapp.request_call(session_id, sealed_call)
    calls = f"/session/{session_id}/calls"
    assert await read(wallet, calls) == {call_id: {"encryptionPayload": sealed_call}}
    call = await read(wallet, f"/session/{session_id}/call/{call_id}")
    assert call["encryptionPayload"] == sealed_call
    await wallet.answer(call_id, sealed_status)
    assert (await read(dapp, f"/call-status/{call_id}"))["encryptionPayload"] == sealed_status
    assert await read(wallet, calls) == {}
    await until_delivered(dapp.server)
    assert [orjson.loads(request.body)["callId"] for request in receiver.requests] == [call_id]


async def test_new_sessions_of_both_generations_count_towards_one_quota(tmp_path: Path) -> None:
    async with running_server(tmp_path, quota_exempt=(), sessions_burst=1, sessions_per_minute=1) as server:
        answers = [await ask(server, "POST", f"{prefix}/session/new") for prefix in ("", V07_PATH)]
        assert [answer.status for answer in answers] == [200, 429]


@needs_node
async def test_the_published_clients_work(tmp_path: Path) -> None:
    clock = ManualClock(start_ms=round(time() * 1000))  # the clients look at their own
    async with running_server(tmp_path, clock, allow_private_webhooks=True) as server:
        script = str(PACKAGES / "v07_run.js")
        failures = orjson.loads(await output_of("node", script, server.url, folder=tmp_path))

    assert {scenario: failure for scenario, failure in failures.items() if failure is not None} == {}
    assert len(failures) == 15


@needs_node
async def test_the_published_clients_go_on_after_the_server_was_killed(tmp_path: Path) -> None:
    with server_process(tmp_path / "data") as server:
        async with node("v07_restart.js", f"{server.url}{V07_PATH}", tmp_path) as process:
            assert process.stdin is not None
            assert await line_of(process) == b"paired\n"
            server.kill()
            server.start()
            process.stdin.write(b"restarted\n")

            async with asyncio.timeout(240):
                assert await process.wait() == 0
