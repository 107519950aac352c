"""The lifetime of a call across requests, from the record of requests and from the database."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.admin.observed import Observed, observing
from tests.support.rows import each_row
from tests.support.webhook_receiver import open_receiver, status

PAYLOAD = "c0ffee" * 20


@pytest.fixture
async def observed(tmp_path: Path) -> AsyncIterator[Observed]:
    async with observing(tmp_path / "data") as running:
        yield running


async def life_of(observed: Observed, call_id: str) -> dict[str, Any]:
    (asked,) = await observed.traffic(f"?filter=route:request-call call:{call_id}")
    life: dict[str, Any] = (await observed.admin.get(f"/admin/traffic/calls/{asked['call']['handle']}")).json
    return life


async def steps_of(observed: Observed, call_id: str) -> list[str]:
    return [step["step"] for step in (await life_of(observed, call_id))["steps"]]


async def test_a_call_from_its_request_to_the_reading_of_its_status(observed: Observed) -> None:
    session_id = await observed.bridge.open_session()
    await observed.bridge.calls(session_id)
    call_id = await observed.bridge.request_call(session_id, PAYLOAD)
    for step in (
        observed.bridge.calls(session_id),
        observed.bridge.call(session_id, call_id),
        observed.bridge.status(call_id),
        observed.bridge.answer(call_id, PAYLOAD),
        observed.bridge.calls(session_id),
        observed.bridge.status(call_id),
    ):
        observed.bridge.clock.advance(1)
        await step

    life = await life_of(observed, call_id)

    steps = [step["step"] for step in life["steps"]]
    assert steps == ["asked", "fetched", "fetched", "answered", "status read", "expires"]
    assert life["state"] == "answered"
    assert life["session"]["id"] == f"{session_id[:8]}…"
    assert life["steps"][0]["request"]["route"] == "request-call"
    assert PAYLOAD not in str(life)
    assert call_id not in str(life)


async def test_a_call_that_waits_and_what_is_owed_to_its_wallet(observed: Observed) -> None:
    async with open_receiver() as receiver:
        receiver.script.append(status(503))
        session_id = await observed.bridge.open_session()
        push = {"type": "fcm", "token": "device-token", "webhook": receiver.url()}
        await observed.bridge.update(session_id, push=push)
        call_id = await observed.bridge.request_call(session_id)
        await observed.admin.get("/admin/traffic?since=0&wait=20&filter=who:bridge")

        life = await life_of(observed, call_id)

        told = [step for step in life["steps"] if step["step"] == "told"]
        assert life["state"] == "waiting"
        assert told[0]["outcome"] == "the receiver answered 503"
        assert told[0]["request"]["status"] == 503
        assert "device-token" not in str(life)


async def test_the_database_knows_what_the_record_does_not(tmp_path: Path) -> None:
    async with observing(tmp_path / "data") as observed:
        session_id = await observed.bridge.open_session()
        call_id = await observed.bridge.request_call(session_id)
        await observed.bridge.answer(call_id)
    async with observing(tmp_path / "data", traffic=False) as observed:
        (session,) = (await observed.admin.get("/admin/sessions")).json["sessions"]
        shown = (await observed.admin.get(f"/admin/sessions/{session['handle']}")).json
        handle = next(each["call"]["handle"] for each in shown["timeline"] if each["event"] == "asked")

        life = (await observed.admin.get(f"/admin/traffic/calls/{handle}")).json

        assert [step["step"] for step in life["steps"]] == ["asked", "answered", "expires"]
        assert {step["request"] for step in life["steps"]} == {None}


async def test_a_call_that_is_gone_is_known_as_far_as_the_record_goes(observed: Observed) -> None:
    session_id = await observed.bridge.open_session()
    call_id = await observed.bridge.request_call(session_id)
    await observed.bridge.end(session_id)

    life = await life_of(observed, call_id)

    assert (life["state"], life["expires_at"]) == ("gone", None)
    assert await steps_of(observed, call_id) == ["asked"]


@each_row("handle", ["x", "A" * 22, "%00", "A" * 23, "%C3%A9" * 22, "=" * 22])
async def test_a_handle_that_names_no_call_is_not_found(observed: Observed, handle: str) -> None:
    (await observed.admin.get(f"/admin/traffic/calls/{handle}")).problem(404)
