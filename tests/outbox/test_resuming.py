"""A stop, a crash or another process loses nothing.

White-box: the periodic recount would hide what an event brings, or come too late.
"""

import asyncio
from pathlib import Path

import pytest

from bridge_server.outbox.models import OutboxGrew, OutgoingMessage
from bridge_server.outbox.queues import AllDestinations
from tests.outbox.running import HOOK, Start
from tests.support.engines import database_of, settings_over
from tests.support.waiting import eventually, turns
from tests.support.webhook_receiver import WebhookReceiver, hang, status


async def test_a_message_in_flight_at_the_stop_stays_due(start: Start, receiver: WebhookReceiver) -> None:
    receiver.otherwise = hang
    async with start() as outbox:
        await outbox.owe(*[receiver.url()] * 6)
        await receiver.got(4)
    receiver.otherwise = status(200)

    async with start() as outbox:
        await outbox.comes_to("id", [])

    ids = {request.headers["webhook-id"] for request in receiver.requests}
    assert (ids, len(receiver.requests)) == ({f"message-{number}" for number in range(6)}, 10)


async def test_an_answer_during_the_stop_is_the_last(start: Start, receiver: WebhookReceiver) -> None:
    receiver.otherwise = hang
    async with start(grace_seconds=60) as outbox:
        await outbox.owe(receiver.url())
        await receiver.got(1)
        stopping = asyncio.create_task(outbox.dispatcher.stop())
        await turns()
        receiver.released.set()
        await stopping
        assert await outbox.rows("id") == []

        await outbox.owe(receiver.url())
        async with start() as later:  # the stopped one would have sent it by then
            await later.comes_to("id", [])
    assert len(receiver.requests) == 2


async def test_a_restart_keeps_to_the_times_that_were_set(start: Start, receiver: WebhookReceiver) -> None:
    receiver.script.append(status(500))
    async with start() as outbox:
        await outbox.owe(receiver.url())
        await outbox.comes_to("attempts", [(1,)])

    outbox.clock.advance(4)
    async with start() as outbox:
        assert outbox.dispatcher.figures() == {"due": 1, "dead": 0, "delivered": 0, "failed": 0}
        await outbox.owe(receiver.url(), prefix="new")
        await outbox.comes_to("message_id", [("message-0",)])
        await outbox.pass_time(1)

        await outbox.comes_to("id", [])

    ids = [request.headers["webhook-id"] for request in receiver.requests]
    assert ids == ["message-0", "new-0", "message-0"]


async def test_a_restart_attends_to_every_destination(start: Start, receiver: WebhookReceiver) -> None:
    async with start() as outbox:
        await outbox.dispatcher.stop()
        await outbox.owe(*[receiver.url(host=f"127.0.0.{n}") for n in range(1, 6)], receiver.url("/again"))
    receiver.requests.clear()

    async with start() as outbox:
        await outbox.comes_to("destination", [(f"http://127.0.0.{n}:{receiver.port}",) for n in range(2, 6)])

        await outbox.comes_to("attempts", [(1,)] * 4)

    assert {request.path for request in receiver.requests} == {"/hook", "/again"}


def insert_outside(file: Path, url: str) -> OutboxGrew:
    """Another process queues a message; returns the event that it announces."""
    destination, queue = OutgoingMessage("theirs", url, b"{}", HOOK).queue
    with database_of(settings_over(file.parent)) as database:
        database.changed(
            "INSERT INTO outbox (message_id, destination, url, body, purpose, queue, created_at_ms,"
            " next_attempt_at_ms) VALUES ('theirs', ?, ?, ?, ?, ?, 0, 0)",
            (destination, url, b"{}", HOOK, queue),
        )
    return OutboxGrew(destination, queue, None, 1)


async def test_a_message_of_another_process_is_found(
    start: Start, file: Path, receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(AllDestinations, "ticks_to_recount", lambda _: 2)
    async with start() as outbox:
        insert_outside(file, receiver.url())

        await receiver.got(1)
        await outbox.comes_to("id", [])


async def test_messages_of_another_process_are_its_own_until_some_were_missed(
    start: Start, file: Path, receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(AllDestinations, "ticks_to_recount", lambda _: 10**9)
    async with start() as outbox:
        outbox.events.hear(insert_outside(file, receiver.url()))
        await outbox.owe(receiver.url(), subject="own")
        await outbox.comes_to("message_id", [("theirs",)])
        await eventually(lambda: outbox.dispatcher.figures()["due"] == 0)

        outbox.events.hear_everything()

        await outbox.comes_to("message_id", [])
    assert len(receiver.requests) == 2


async def test_a_lane_takes_messages_of_others(start: Start, file: Path, receiver: WebhookReceiver) -> None:
    async with start() as outbox:
        await outbox.owe(receiver.url())
        await outbox.comes_to("message_id", [])
        receiver.otherwise = hang
        await outbox.owe(receiver.url(), prefix="own")
        await receiver.got(2)

        outbox.events.hear(insert_outside(file, receiver.url()))

        await receiver.got(3)
