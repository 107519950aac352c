"""Messages for channels: who delivers them, how many at once, and what a channel does that is blocked."""

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest
from structlog.testing import capture_logs

from bridge_server.outbox.channels import Channels, LogSender, Sender
from bridge_server.outbox.guarded_client import Outcome, Verdict
from bridge_server.outbox.models import OutgoingMessage
from tests.outbox.running import HOOK, Outbox, running_outbox
from tests.support.clock import ManualClock
from tests.support.eventually import eventually
from tests.support.rows import each_row
from tests.support.webhook_receiver import WebhookReceiver

DELIVERED = Outcome(Verdict.DELIVERED)
BLOCKED = Outcome(Verdict.BLOCKED, "the key was deleted")
PAUSE_SECONDS = 30


class FakeSender:
    """Says what it is told to, once it may."""

    def __init__(self) -> None:
        self.outcome = DELIVERED
        self.breaks = False
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.sent: list[str] = []
        self.at_once = 0
        self.most_at_once = 0

    async def send(self, message: OutgoingMessage, now_ms: int) -> Outcome:
        self.sent.append(message.message_id)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await self.may_answer.wait()
        finally:
            self.at_once -= 1
        if self.breaks:
            raise LookupError("unforeseen")
        return self.outcome


@pytest.fixture
def sender() -> FakeSender:
    return FakeSender()


def over(sender: FakeSender) -> Callable[[Sender], Sender]:
    """Puts the sender before the one that there is, for the channel `fake`."""
    return lambda otherwise: Channels({"fake": sender}, otherwise=otherwise)


async def settled(outbox: Outbox, pending: int) -> None:
    """Return once so many messages are pending and nothing is under way."""

    async def reached() -> bool:
        rows = await outbox.rows("id")
        return len(rows) == pending

    await eventually(reached)


async def test_a_message_goes_to_the_sender_of_its_scheme_or_to_the_default() -> None:
    fake, other = FakeSender(), FakeSender()
    channels = Channels({"fake": fake}, otherwise=other)

    for number, url in enumerate(("fake:token", "https://a.test/", "fakes:token", "")):
        await channels.send(OutgoingMessage(str(number), url, b"{}", HOOK), 0)

    assert (fake.sent, other.sent) == (["0"], ["1", "2", "3"])


@each_row(
    ("device_id", "of_whom", "told"),
    [
        ("", {"topic": "client", "bridge": "https://b.test"}, {"topic": "client"}),
        ("device", {"account": "eip155:1:0x12", "id": "7"}, {"account": "eip155:1:0x12", "device": "device"}),
    ],
)
async def test_the_log_channel_shows_the_notice_and_its_device(
    device_id: str, of_whom: dict[str, str], told: dict[str, str]
) -> None:
    body = orjson.dumps({"title": "Bank", "body": "Prices fall", "url": "https://a.test", **of_whom})
    message = OutgoingMessage("id", "log:", body, HOOK, device_id=device_id or None)

    with capture_logs() as logs:
        outcome = await LogSender().send(message, 0)

    assert outcome == DELIVERED
    assert logs == [
        {
            "event": "device_notified",
            "log_level": "info",
            "message_id": "id",
            **told,
            "title": "Bank",
            "text": "Prices fall",
        }
    ]


@pytest.mark.parametrize(
    ("lane", "at_once"),
    [(None, 64), ("fake", 64), ("fake https://push.example", 16), ("http://host.test:80", 4)],
)
async def test_a_service_is_sent_many_at_once_and_a_strangers_host_few(
    file: Path, clock: ManualClock, sender: FakeSender, lane: str | None, at_once: int
) -> None:
    sender.may_answer.clear()
    async with running_outbox(file, clock, sender_over=over(sender)) as outbox:
        await outbox.owe(*["fake:token"] * 200, lane=lane)

        async def as_many_as_may() -> bool:
            return sender.at_once >= at_once

        await eventually(as_many_as_may)
        for _ in range(3):
            await outbox.rows("id")  # one more would be read and sent meanwhile
        sender.may_answer.set()
        await settled(outbox, 0)

    assert sender.most_at_once == at_once
    assert set(Counter(sender.sent).values()) == {1}
    assert len(sender.sent) == 200


async def test_messages_of_one_lane_are_owed_under_its_name(
    file: Path, clock: ManualClock, sender: FakeSender
) -> None:
    sender.may_answer.clear()
    async with running_outbox(file, clock, sender_over=over(sender)) as outbox:
        await outbox.owe("fake:a", "fake:b", lane="the lane")
        await outbox.owe("fake:c", prefix="other")

        assert await outbox.rows("destination, url") == [
            ("the lane", "fake:a"),
            ("the lane", "fake:b"),
            ("fake", "fake:c"),
        ]


async def test_a_blocked_channel_pauses_and_counts_no_attempt(
    file: Path, clock: ManualClock, sender: FakeSender
) -> None:
    sender.outcome = BLOCKED
    columns = "attempts, next_attempt_at_ms, last_error, died_at_ms"
    untouched = (0, clock.now_ms(), None, None)
    async with running_outbox(file, clock, sender_over=over(sender)) as outbox:
        await outbox.owe("fake:token")
        for pause in range(1, 20):
            await _attempted(sender, pause)
            await _at_rest(outbox)
            await outbox.pass_time(PAUSE_SECONDS - 0.1)
            await asyncio.sleep(0)
            assert len(sender.sent) == pause
            await outbox.pass_time(0.1)
        assert await outbox.rows(columns) == [untouched]
        assert outbox.dispatcher.figures() == {"due": 1, "dead": 0, "delivered": 0, "failed": 0}

        sender.outcome = DELIVERED
        await _at_rest(outbox)
        await outbox.pass_time(PAUSE_SECONDS)
        await settled(outbox, 0)

    assert set(sender.sent) == {"message-0"}


async def test_a_block_stops_every_message_that_is_not_under_way(
    file: Path, clock: ManualClock, sender: FakeSender
) -> None:
    sender.outcome = BLOCKED
    sender.may_answer.clear()
    async with running_outbox(file, clock, sender_over=over(sender)) as outbox:
        await outbox.owe(*["fake:token"] * 500)
        await _attempted(sender, 64)
        sender.may_answer.set()
        await _at_rest(outbox)

        assert len(sender.sent) == 64
        assert await outbox.database.read("SELECT max(attempts), count(*) FROM outbox") == [(0, 500)]

        sender.outcome = DELIVERED
        await outbox.pass_time(PAUSE_SECONDS)
        await settled(outbox, 0)

    assert set(sender.sent) == {f"message-{number}" for number in range(500)}
    assert len(sender.sent) == 564


async def test_a_blocked_channel_stops_no_other_destination(
    file: Path, clock: ManualClock, sender: FakeSender, receiver: WebhookReceiver
) -> None:
    sender.outcome = BLOCKED
    async with running_outbox(file, clock, sender_over=over(sender)) as outbox:
        await outbox.owe(*["fake:token"] * 100)
        await outbox.owe(*[receiver.url()] * 20, prefix="webhook")

        await receiver.got(20)
        await settled(outbox, 100)


async def test_a_message_added_during_a_block_is_sent_with_the_others(
    file: Path, clock: ManualClock, sender: FakeSender
) -> None:
    sender.outcome = BLOCKED
    async with running_outbox(file, clock, sender_over=over(sender)) as outbox:
        await outbox.owe("fake:token")
        await _attempted(sender, 1)
        await _at_rest(outbox)
        await outbox.owe("fake:token", prefix="later")
        await _attempted(sender, 2)
        await _at_rest(outbox)
        sender.outcome = DELIVERED

        await outbox.pass_time(PAUSE_SECONDS)
        await settled(outbox, 0)

    assert set(sender.sent) == {"message-0", "later-0"}


async def test_blocked_messages_are_sent_after_a_restart(
    file: Path, clock: ManualClock, sender: FakeSender
) -> None:
    sender.outcome = BLOCKED
    async with running_outbox(file, clock, sender_over=over(sender)) as outbox:
        await outbox.owe("fake:token")
        await _attempted(sender, 1)
        await _at_rest(outbox)

    sender.outcome = DELIVERED
    async with running_outbox(file, clock, sender_over=over(sender)) as outbox:
        await settled(outbox, 0)

    assert sender.sent == ["message-0", "message-0"]


async def test_a_sender_that_breaks_has_failed_once(
    file: Path, clock: ManualClock, sender: FakeSender
) -> None:
    sender.breaks = True
    async with running_outbox(file, clock, sender_over=over(sender)) as outbox:
        await outbox.owe("fake:token")
        with capture_logs() as logs:
            await outbox.comes_to("attempts, last_error", [(1, "the attempt broke")])

        assert len(sender.sent) == 1
        assert [line["event"] for line in logs if line["log_level"] == "error"] == ["webhook_attempt_broke"]
        sender.breaks = False
        await outbox.pass_time(60)
        await settled(outbox, 0)


async def _attempted(sender: FakeSender, count: int) -> None:
    async def enough() -> bool:
        return len(sender.sent) >= count

    await eventually(enough)


async def _at_rest(outbox: Outbox) -> None:
    """Return once no lane is open."""

    async def at_rest() -> bool:
        return not outbox.dispatcher._lanes

    await eventually(at_rest)
