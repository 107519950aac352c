"""No receiver waits for another, wherever they are and whatever made them known.

White-box: the size of a page has no setting.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from aiohttp import web

from bridge_server.outbox import dispatcher
from bridge_server.outbox.fairness import Limits
from tests.outbox.running import Outbox, Start
from tests.support.waiting import eventually
from tests.support.webhook_receiver import WebhookReceiver, hang, open_receiver, status


async def test_what_hangs_delays_only_itself(outbox: Outbox, receiver: WebhookReceiver) -> None:
    receiver.otherwise = hang
    await outbox.owe(*[receiver.url()] * 1_000, prefix="stuck", subject="session 1")
    await receiver.got(4)

    async with open_receiver() as other, asyncio.timeout(60):
        await outbox.owe(other.url(), prefix="quick")
        await other.got(1)
    assert (receiver.most_at_once, len(receiver.requests)) == (4, 4)

    await outbox.owe(receiver.url(), prefix="beside", subject="session 2")
    await receiver.got(5)
    assert receiver.requests[4].headers["webhook-id"] == "beside-0"


HASTY = Limits(
    known=2,
    strangers=4,
    retries=2,
    host=2,
    waiting=100,
    patience_seconds=0.2,
    patience_in_crowd_seconds=0.2,
    check_every_seconds=0.005,
)
PATIENT = replace(HASTY, patience_seconds=60.0, patience_in_crowd_seconds=60.0)


@pytest.fixture
async def anywhere() -> AsyncIterator[WebhookReceiver]:
    """A receiver at every address 127.x.y.z; its path `/hang` never answers."""

    async def answer(receiver: WebhookReceiver, request: web.BaseRequest) -> web.StreamResponse:
        return await (hang if request.path == "/hang" else status(200))(receiver, request)

    async with open_receiver(host="0.0.0.0") as receiver:
        receiver.otherwise = answer
        yield receiver


async def hangs_at_many_hosts(outbox: Outbox, anywhere: WebhookReceiver, hosts: int) -> None:
    """Owe a message to each of so many hosts that hang, each about another session."""
    for number in range(hosts):
        url = anywhere.url("/hang", host=f"127.1.{number // 200}.{number % 200 + 1}")
        await outbox.owe(url, prefix=f"stuck-{number}", subject=f"stuck {number}")


async def arrives(receiver: WebhookReceiver, message_id: str, outbox: Outbox | None = None) -> None:
    """Return once the message has come; time passes in the `outbox` as long as it was given up on the way."""

    async def has_come() -> bool:
        if outbox is not None and (message_id, 1) in await outbox.rows("id, attempts > 0"):
            await outbox.pass_time(5)
        return any(request.headers["webhook-id"] == message_id for request in receiver.requests)

    await eventually(has_come)


async def test_many_hosts_that_hang_delay_no_new_one(start: Start, anywhere: WebhookReceiver) -> None:
    async with start(limits=HASTY) as outbox:
        await hangs_at_many_hosts(outbox, anywhere, 300)
        await anywhere.got(4)

        for number in range(5):
            url = anywhere.url(host=f"127.9.9.{number + 1}")
            await outbox.owe(url, prefix=f"quick-{number}", subject=f"quick {number}")
            await arrives(anywhere, f"quick-{number}-0", outbox)
            in_use = outbox.dispatcher.destinations_in_use()
            assert len(in_use) < 150  # places, and outcomes that the disk has not taken yet


async def test_a_queue_that_was_turned_away_is_found_in_the_store(
    start: Start, receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher, "_PAGE", 7)
    async with start(limits=replace(PATIENT, waiting=10)) as outbox:
        for number in range(60):
            await outbox.owe(receiver.url(), prefix=f"{number}", client="192.0.2.1", subject=f"{number}")

        await outbox.comes_to("id", [])

    assert {request.headers["webhook-id"] for request in receiver.requests} == {f"{n}-0" for n in range(60)}
    assert len(receiver.requests) == 60


async def test_a_request_given_up_is_a_failure_to_try_again(start: Start, anywhere: WebhookReceiver) -> None:
    async def one_was_given_up() -> bool:
        return (1, "no answer in time") in await outbox.rows("attempts, last_error")

    async def every_request_given_up_was_made_again() -> bool:
        await outbox.pass_time(5)
        attempts = await outbox.rows("attempts")
        return len(attempts) < HASTY.strangers and set(attempts) <= {(0,)}

    anywhere.script.extend([hang] * HASTY.strangers)
    async with start(limits=HASTY) as outbox:
        hosts = [f"127.1.1.{number + 1}" for number in range(HASTY.strangers)]
        await outbox.owe(*[anywhere.url(host=host) for host in hosts], prefix="slow")
        await anywhere.got(4)
        await outbox.owe(anywhere.url(host="127.9.9.9"), prefix="quick")

        await arrives(anywhere, "quick-0")
        await eventually(one_was_given_up)
        assert set(await outbox.rows("attempts, last_error")) <= {(1, "no answer in time"), (0, None)}
        await eventually(every_request_given_up_was_made_again)


async def test_a_known_host_keeps_its_places_after_a_restart(start: Start, anywhere: WebhookReceiver) -> None:
    honest = anywhere.url(host="127.9.9.9")
    async with start(limits=PATIENT) as outbox:
        await outbox.owe(honest, prefix="first")
        await outbox.comes_to("id", [])
    async with start(limits=PATIENT) as outbox:
        await hangs_at_many_hosts(outbox, anywhere, 10)
        await anywhere.got(5)

        await outbox.owe(honest, prefix="quick")

        await arrives(anywhere, "quick-0")
    assert len(anywhere.requests) == 6


async def test_a_retry_that_hangs_delays_no_new_message(start: Start, anywhere: WebhookReceiver) -> None:
    anywhere.script.extend([status(500)] * 12)
    async with start(limits=PATIENT) as outbox:
        await hangs_at_many_hosts(outbox, anywhere, 12)
        await outbox.comes_to("attempts", [(1,)] * 12)
        await outbox.pass_time(5)
        await anywhere.got(14)

        await outbox.owe(anywhere.url(host="127.9.9.9"), prefix="quick")

        await arrives(anywhere, "quick-0")
    assert len(anywhere.requests) == 15


async def test_a_new_message_goes_before_retries(outbox: Outbox, receiver: WebhookReceiver) -> None:
    receiver.script.extend([status(500)] * 12)
    await outbox.owe(*[receiver.url()] * 12, prefix="old")
    await outbox.comes_to("attempts", [(1,)] * 12)
    receiver.otherwise = hang
    await outbox.pass_time(5)
    await receiver.got(13)

    await outbox.owe(receiver.url(), prefix="new")
    receiver.otherwise = status(200)
    receiver.released.set()
    await receiver.got(14)

    assert receiver.requests[13].headers["webhook-id"] == "new-0"


async def test_failed_messages_are_tried_again_in_time(outbox: Outbox, receiver: WebhookReceiver) -> None:
    receiver.script.extend([status(503, Retry_After=str(100 * number)) for number in range(1, 5)])
    for number in range(4):
        await outbox.owe(receiver.url(), prefix=f"{number}")
        await outbox.comes_to("attempts", [(1,)] * (number + 1))

    for number in range(4):
        await outbox.pass_time(110)
        await outbox.comes_to("message_id", [(f"{left}-0",) for left in range(number + 1, 4)])


async def test_a_failing_receiver_gets_one_at_a_time(outbox: Outbox, receiver: WebhookReceiver) -> None:
    receiver.script.append(status(500))
    await outbox.owe(receiver.url())
    await outbox.comes_to("attempts", [(1,)])
    receiver.otherwise = hang

    await outbox.owe(*[receiver.url()] * 10, prefix="more")
    await receiver.got(2)
    async with open_receiver() as other:  # its message was pending later, and needs as many steps
        await outbox.owe(other.url(), prefix="other")
        await other.got(1)
    assert len(receiver.requests) == 2

    first, receiver.released = receiver.released, asyncio.Event()
    first.set()
    await receiver.got(6)
    assert receiver.most_at_once == 4


async def test_a_message_comes_due_while_another_hangs(outbox: Outbox, receiver: WebhookReceiver) -> None:
    receiver.script.extend([status(500), status(200), hang])
    await outbox.owe(receiver.url(), prefix="late")
    await outbox.comes_to("attempts", [(1,)])
    await outbox.owe(receiver.url(), receiver.url(), prefix="hanging")
    await receiver.got(3)

    await outbox.pass_time(5)

    await receiver.got(4)
    assert receiver.requests[3].headers["webhook-id"] == "late-0"
