"""A service that asks for time gets it from all that waits for it, and only what it answered was tried."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from bridge_server.outbox.channels import Channels, Sender
from bridge_server.outbox.delivery import Pauses
from bridge_server.outbox.guarded_client import Outcome, Verdict
from bridge_server.outbox.models import OutgoingMessage
from tests.outbox.running import Outbox, running_outbox
from tests.support.clock import ManualClock
from tests.support.eventually import eventually

DELIVERED = Outcome(Verdict.DELIVERED)
TOO_MUCH = Outcome(Verdict.FAILED, "it answered 429", 429, 300.0, about_lane=True)


class Service:
    """Answers what it is told to, at once, and remembers who came."""

    def __init__(self) -> None:
        self.outcome = TOO_MUCH
        self.sent: list[str] = []

    async def send(self, message: OutgoingMessage, now_ms: int) -> Outcome:
        self.sent.append(message.message_id)
        return self.outcome


@pytest.fixture
def service() -> Service:
    return Service()


def over(service: Service) -> Callable[[Sender], Sender]:
    """Puts the service before the sender that there is, for the channel `fake`."""
    return lambda otherwise: Channels({"fake": service}, otherwise=otherwise)


async def at_rest(outbox: Outbox) -> None:
    """Return once no lane is open."""

    async def reached() -> bool:
        return not outbox.dispatcher._lanes

    await eventually(reached)


async def after(outbox: Outbox, seconds: float) -> None:
    await outbox.pass_time(seconds)
    await at_rest(outbox)


async def test_a_pause_of_a_hundred_messages_counts_only_the_attempt_that_was_answered(
    file: Path, clock: ManualClock, service: Service
) -> None:
    untouched = (0, clock.now_ms(), None)
    async with running_outbox(file, clock, sender_over=over(service)) as outbox:
        await outbox.owe("fake:token")
        await at_rest(outbox)
        await outbox.owe(*["fake:token"] * 99, prefix="later")
        await at_rest(outbox)
        for _ in range(10):
            await after(outbox, 29.9)

        assert service.sent == ["message-0"]
        first, *others = await outbox.rows("attempts, next_attempt_at_ms, last_error")
        assert (first[0], first[2]) == (1, "it answered 429")
        assert others == [untouched] * 99
        assert outbox.dispatcher.figures() == {"due": 100, "dead": 0, "delivered": 0, "failed": 1}

        service.outcome = DELIVERED
        await after(outbox, 1)
        await outbox.comes_to("message_id", [("message-0",)])
        await after(outbox, 60)
        await outbox.comes_to("id", [])

    assert len(service.sent) == 101


async def test_claimed_messages_stay_due_during_a_pause(
    file: Path, clock: ManualClock, service: Service
) -> None:
    async with running_outbox(file, clock, sender_over=over(service)) as outbox:
        await outbox.owe(*["fake:token"] * 500)
        await at_rest(outbox)

        answered = len(service.sent)
        assert 1 <= answered <= 64  # what was under way with the first
        assert sum(row == (0, None) for row in await outbox.rows("attempts, last_error")) == 500 - answered
        assert max(await outbox.rows("attempts")) == (1,)


async def test_one_message_is_tried_after_a_pause_and_its_answer_may_prolong_it(
    file: Path, clock: ManualClock, service: Service
) -> None:
    async with running_outbox(file, clock, sender_over=over(service)) as outbox:
        await outbox.owe("fake:token")
        await at_rest(outbox)
        await outbox.owe(*["fake:token"] * 99, prefix="later")
        for pause in range(1, 10):
            await after(outbox, 300)
            assert len(service.sent) == pause + 1

        assert max(await outbox.rows("attempts")) <= (2,)


async def test_a_pause_is_logged_once_with_its_length(
    file: Path, clock: ManualClock, service: Service
) -> None:
    async with running_outbox(file, clock, sender_over=over(service)) as outbox:
        with capture_logs() as logs:
            await outbox.owe(*["fake:token"] * 100)
            await at_rest(outbox)

    (line,) = [line for line in logs if line["event"] == "webhooks_paused"]
    assert (line["log_level"], line["destination"], line["seconds"]) == ("warning", "fake", 300)


async def test_a_service_is_left_alone_for_an_hour_at_most(
    file: Path, clock: ManualClock, service: Service
) -> None:
    service.outcome = replace(TOO_MUCH, retry_after_seconds=1e9)
    async with running_outbox(file, clock, sender_over=over(service)) as outbox:
        await outbox.owe("fake:token")
        await at_rest(outbox)
        await outbox.owe("fake:token", prefix="later")

        await after(outbox, 3_599.9)
        assert len(service.sent) == 1
        service.outcome = DELIVERED
        await after(outbox, 0.1)
        await outbox.comes_to("id", [])


@pytest.mark.parametrize(
    "outcome",
    [
        replace(TOO_MUCH, about_lane=False),
        replace(TOO_MUCH, retry_after_seconds=None),
        replace(TOO_MUCH, retry_after_seconds=0.0),
    ],
    ids=["about one device", "no time asked for", "no time at all"],
)
async def test_a_failure_that_asks_for_no_pause_delays_no_other_message(
    file: Path, clock: ManualClock, service: Service, outcome: Outcome
) -> None:
    service.outcome = outcome
    async with running_outbox(file, clock, sender_over=over(service)) as outbox:
        await outbox.owe("fake:token")
        await at_rest(outbox)
        service.outcome = DELIVERED
        await outbox.owe("fake:token", prefix="other")

        await outbox.comes_to("message_id", [("message-0",)])


async def test_a_pause_stops_no_other_lane(file: Path, clock: ManualClock, service: Service) -> None:
    async with running_outbox(file, clock, sender_over=over(service)) as outbox:
        await outbox.owe("fake:token", lane="fake https://a.test")
        await at_rest(outbox)
        service.outcome = DELIVERED
        await outbox.owe("fake:token", lane="fake https://b.test", prefix="other")

        await outbox.comes_to("message_id", [("message-0",)])


async def test_a_clock_that_is_set_forward_ends_no_pause(
    file: Path, clock: ManualClock, service: Service
) -> None:
    async with running_outbox(file, clock, sender_over=over(service)) as outbox:
        await outbox.owe("fake:token")
        await at_rest(outbox)
        await outbox.owe("fake:token", prefix="later")

        clock.set_by(3_600)
        await after(outbox, 299)
        assert service.sent == ["message-0"]

        service.outcome = DELIVERED
        await after(outbox, 1)
        await outbox.comes_to("id", [])


async def test_a_clock_that_is_set_back_prolongs_no_pause(
    file: Path, clock: ManualClock, service: Service
) -> None:
    async with running_outbox(file, clock, sender_over=over(service)) as outbox:
        await outbox.owe("fake:token")
        await at_rest(outbox)
        clock.advance(200)
        service.outcome = DELIVERED

        clock.set_by(-3_600)
        await after(outbox, 100)
        await outbox.owe("fake:token", prefix="later")

        await outbox.comes_to("message_id", [("message-0",)])


def test_the_longest_pause_that_was_asked_for_counts_and_ends_on_the_microsecond() -> None:
    pauses = Pauses()

    pauses.put("fake", 300)
    pauses.put("fake", 200)

    assert pauses.left_us("other", 0) == 0
    assert pauses.left_us("fake", 299) == 1
    assert pauses.left_us("fake", 300) == 0
    assert pauses.left_us("fake", 0) == 0
