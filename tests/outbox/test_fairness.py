"""No destination waits for another."""

import asyncio
from contextlib import AsyncExitStack

from tests.outbox.running import Outbox
from tests.support.webhook_receiver import WebhookReceiver, hang, open_receiver, status


async def test_a_receiver_that_hangs_delays_only_itself(outbox: Outbox, receiver: WebhookReceiver) -> None:
    receiver.otherwise = hang
    await outbox.owe(*[receiver.url()] * 1_000, prefix="stuck")
    await receiver.got(4)

    async with open_receiver() as other, asyncio.timeout(5):
        await outbox.owe(other.url(), prefix="quick")
        await other.got(1)

    assert receiver.most_at_once == 4
    assert len(receiver.requests) == 4


async def test_many_receivers_that_hang_do_not_stop_one_that_answered_before(
    outbox: Outbox, receiver: WebhookReceiver
) -> None:
    await outbox.owe(receiver.url())
    await receiver.got(1)
    async with AsyncExitStack() as stack:
        others = [await stack.enter_async_context(open_receiver()) for _ in range(60)]
        for other in others:
            other.otherwise = hang
        await outbox.owe(*[other.url() for other in others] * 4, prefix="stuck")
        for other in others[:48]:
            await other.got(3)

        async with asyncio.timeout(5):
            await outbox.owe(receiver.url(), prefix="quick")
            await receiver.got(2)

        assert sum(len(other.requests) for other in others) == 192
        await outbox.dispatcher.stop()  # or it would connect to receivers that are being closed
        for other in others:
            other.released.set()


async def test_a_receiver_that_answers_gets_four_requests_at_a_time(
    outbox: Outbox, receiver: WebhookReceiver
) -> None:
    receiver.script.extend([hang] * 8)
    await outbox.owe(*[receiver.url()] * 100)
    await receiver.got(4)
    receiver.released.set()

    await outbox.comes_to("id", [])

    assert receiver.most_at_once == 4
    assert len({request.headers["webhook-id"] for request in receiver.requests}) == 100
    assert len(receiver.requests) == 100


async def test_a_receiver_that_fails_gets_one_request_at_a_time(
    outbox: Outbox, receiver: WebhookReceiver
) -> None:
    receiver.script.append(status(500))
    await outbox.owe(receiver.url())
    await outbox.comes_to("attempts", [(1,)])
    receiver.otherwise = hang

    await outbox.owe(*[receiver.url()] * 10, prefix="more")
    await receiver.got(2)
    await asyncio.sleep(0.05)

    assert len(receiver.requests) == 2


async def test_a_receiver_that_recovers_gets_four_requests_again(
    outbox: Outbox, receiver: WebhookReceiver
) -> None:
    receiver.script.extend([status(500), status(200)])
    await outbox.owe(receiver.url())
    await outbox.comes_to("attempts", [(1,)])
    receiver.otherwise = hang

    await outbox.owe(*[receiver.url()] * 10, prefix="more")

    await receiver.got(6)
    assert receiver.most_at_once == 4


async def test_a_message_that_comes_due_while_another_hangs_is_sent(
    outbox: Outbox, receiver: WebhookReceiver
) -> None:
    receiver.script.extend([status(500), status(200), hang])
    await outbox.owe(receiver.url(), prefix="late")
    await outbox.comes_to("attempts", [(1,)])
    await outbox.owe(receiver.url(), receiver.url(), prefix="hanging")
    await receiver.got(3)

    await outbox.pass_time(5)

    await receiver.got(4)
    assert receiver.requests[3].headers["webhook-id"] == "late-0"
