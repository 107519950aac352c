"""Messages for channels: who delivers them, how many at once, blocks, and pauses that a service asks for.

White-box: no receiver sees that the dispatcher has nothing left to do.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from bridge_server.outbox.channels import (
    PUBLIC_SCHEMES,
    Channels,
    PublicSender,
    marked_public,
    private_address,
)
from bridge_server.outbox.delivery import Pauses
from bridge_server.outbox.guarded_client import Outcome, Verdict
from bridge_server.outbox.models import OutgoingMessage, unmarked
from tests.outbox.running import HOOK, Outbox, Start
from tests.support.rows import each_row
from tests.support.waiting import eventually
from tests.support.webhook_receiver import WebhookReceiver

DELIVERED = Outcome(Verdict.DELIVERED)
BLOCKED = Outcome(Verdict.BLOCKED, "the key was deleted")
TOO_MUCH = Outcome(Verdict.FAILED, "it answered 429", 429, 300.0, about_lane=True)


class FakeSender:
    """Has the outcome that a test gives it, once it may answer, and remembers the messages."""

    def __init__(self) -> None:
        self.outcome: Outcome | None = DELIVERED
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.messages: list[OutgoingMessage] = []
        self.at_once = 0
        self.most_at_once = 0

    @property
    def sent(self) -> list[str]:
        return [message.message_id for message in self.messages]

    async def send(self, message: OutgoingMessage, now_ms: int) -> Outcome:
        self.messages.append(message)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await self.may_answer.wait()
        finally:
            self.at_once -= 1
        if self.outcome is None:
            raise LookupError("unforeseen")
        return self.outcome


@pytest.fixture
def sender() -> FakeSender:
    return FakeSender()


@pytest.fixture
async def outbox(start: Start, sender: FakeSender) -> AsyncIterator[Outbox]:
    async with start(sender_over=lambda usual: Channels({"fake": sender}, otherwise=usual)) as outbox:
        yield outbox


async def at_rest(outbox: Outbox, after_seconds: float = 0.0) -> None:
    """Return once no lane is open, after this time."""
    if after_seconds:
        await outbox.pass_time(after_seconds)
    await eventually(lambda: not outbox.dispatcher._lanes.destinations())


async def test_a_message_goes_to_the_sender_of_its_scheme_or_to_the_default() -> None:
    fake, other = FakeSender(), FakeSender()
    channels = Channels({"fake": fake}, otherwise=other)

    for number, url in enumerate(("fake:token", "https://a.test/", "fakes:token", "")):
        await channels.send(OutgoingMessage(str(number), url, b"{}", HOOK), 0)

    assert (fake.sent, other.sent) == (["0"], ["1", "2", "3"])


@pytest.mark.parametrize(
    ("lane", "at_once"),
    [(None, 64), ("fake", 64), ("fake https://push.example", 16), ("http://host.test:80", 4)],
)
async def test_a_service_is_sent_many_at_once_and_a_strangers_host_few(
    outbox: Outbox, sender: FakeSender, lane: str | None, at_once: int
) -> None:
    sender.may_answer.clear()
    await outbox.owe(*["fake:token"] * 200, lane=lane)

    await eventually(lambda: sender.at_once >= at_once)
    for _ in range(3):
        await outbox.rows("id")  # one more would be read and sent meanwhile
    sender.may_answer.set()
    await outbox.comes_to("id", [])

    assert sender.most_at_once == at_once
    assert set(Counter(sender.sent).values()) == {1}
    assert len(sender.sent) == 200


async def test_a_blocked_channel_pauses_alone_and_counts_no_attempt(
    outbox: Outbox, sender: FakeSender, receiver: WebhookReceiver
) -> None:
    sender.outcome = BLOCKED
    sender.may_answer.clear()
    untouched = (0, outbox.clock.now_ms(), None, None)
    await outbox.owe(*["fake:token"] * 500)
    await eventually(lambda: len(sender.messages) >= 64)
    sender.may_answer.set()
    await at_rest(outbox)
    for pause in range(3):
        assert len(sender.messages) == 64 + pause, "what was under way, and one after each pause"
        await at_rest(outbox, 29.9)
        assert len(sender.messages) == 64 + pause
        await at_rest(outbox, 0.1)
    rows = await outbox.rows("attempts, next_attempt_at_ms, last_error, died_at_ms")
    assert rows == [untouched] * 500
    assert outbox.dispatcher.figures() == {"due": 500, "dead": 0, "delivered": 0, "failed": 0}
    await outbox.owe(receiver.url(), prefix="webhook")
    await receiver.got(1)

    sender.outcome = DELIVERED
    await at_rest(outbox, 30)
    await outbox.comes_to("id", [])
    assert set(sender.sent) == {f"message-{number}" for number in range(500)}
    assert len(sender.messages) == 567


async def test_a_sender_that_breaks_has_failed_once(outbox: Outbox, sender: FakeSender) -> None:
    sender.outcome = None
    with capture_logs() as logs:
        await outbox.owe("fake:token")
        await outbox.comes_to("attempts, last_error", [(1, "the attempt broke")])

    assert len(sender.sent) == 1
    assert [line["event"] for line in logs if line["log_level"] == "error"] == ["webhook_attempt_broke"]
    sender.outcome = DELIVERED
    await outbox.pass_time(60)
    await outbox.comes_to("id", [])


# A service that asks for time gets it from all that waits for it, and only what it answered was tried.


async def test_a_pause_counts_only_the_attempt_that_was_answered(outbox: Outbox, sender: FakeSender) -> None:
    untouched = (0, outbox.clock.now_ms(), None)
    sender.outcome = TOO_MUCH
    await outbox.owe("fake:token")
    await at_rest(outbox)
    await outbox.owe(*["fake:token"] * 99, prefix="later")
    await at_rest(outbox)
    for _ in range(10):
        await at_rest(outbox, 29.9)

    assert sender.sent == ["message-0"]
    first, *others = await outbox.rows("attempts, next_attempt_at_ms, last_error")
    assert (first[0], first[2]) == (1, "it answered 429")
    assert others == [untouched] * 99
    assert outbox.dispatcher.figures() == {"due": 100, "dead": 0, "delivered": 0, "failed": 1}

    sender.outcome = DELIVERED
    await at_rest(outbox, 1)
    await outbox.comes_to("message_id", [("message-0",)])
    await at_rest(outbox, 60)
    await outbox.comes_to("id", [])
    assert len(sender.sent) == 101


async def test_a_pause_is_logged_once_and_one_is_tried_after_it(outbox: Outbox, sender: FakeSender) -> None:
    sender.outcome = TOO_MUCH
    with capture_logs() as logs:
        await outbox.owe(*["fake:token"] * 500)
        await at_rest(outbox)

    (line,) = [line for line in logs if line["event"] == "webhooks_paused"]
    assert (line["log_level"], line["destination"], line["seconds"]) == ("warning", "fake", 300)
    answered = len(sender.sent)
    assert 1 <= answered <= 64  # what was under way with the first
    assert sum(row == (0, None) for row in await outbox.rows("attempts, last_error")) == 500 - answered
    assert max(await outbox.rows("attempts")) == (1,)
    for pause in range(1, 10):
        await at_rest(outbox, 300)
        assert len(sender.sent) == answered + pause
    assert max(await outbox.rows("attempts")) <= (2,)


async def test_a_service_is_left_alone_for_an_hour_at_most(outbox: Outbox, sender: FakeSender) -> None:
    sender.outcome = replace(TOO_MUCH, retry_after_seconds=1e9)
    await outbox.owe("fake:token")
    await at_rest(outbox)
    await outbox.owe("fake:token", prefix="later")

    outbox.clock.set_by(7_200)
    await at_rest(outbox, 3_599.9)
    assert sender.sent == ["message-0"]
    sender.outcome = DELIVERED
    await at_rest(outbox, 0.1)
    await outbox.comes_to("id", [])


@pytest.mark.parametrize(
    ("outcome", "lane"),
    [
        (replace(TOO_MUCH, about_lane=False), "fake"),
        (replace(TOO_MUCH, retry_after_seconds=None), "fake"),
        (replace(TOO_MUCH, retry_after_seconds=0.0), "fake"),
        (TOO_MUCH, "fake https://a.test"),
    ],
    ids=["about one device", "no time asked for", "no time at all", "another lane"],
)
async def test_a_failure_that_asks_for_no_pause_of_a_lane_delays_no_other_message(
    outbox: Outbox, sender: FakeSender, outcome: Outcome, lane: str
) -> None:
    sender.outcome = outcome
    await outbox.owe("fake:token", lane=lane)
    await at_rest(outbox)
    sender.outcome = DELIVERED
    await outbox.owe("fake:token", prefix="other")

    await outbox.comes_to("message_id", [("message-0",)])


def test_the_longest_pause_that_was_asked_for_counts_and_ends_on_the_microsecond() -> None:
    pauses = Pauses()
    for seconds in (300, 200):
        pauses.put("fake", seconds)

    assert pauses.left_us("other", 0) == 0
    assert [pauses.left_us("fake", moment) for moment in (299, 300, 0)] == [1, 0, 0]


# URLs whose receivers must be public, whatever the settings allow.


def message(url: str) -> OutgoingMessage:
    return OutgoingMessage("message-1", url, b"{}", HOOK, subject="a session")


@each_row("url", ["https://example.com/hook?a=b", "http://example.com:9000/"])
async def test_the_public_mark_changes_the_sender_and_nothing_else(url: str) -> None:
    plain = OutgoingMessage("message-1", url, b"{}", HOOK, subject="a session")
    marked, sender = replace(plain, url=marked_public(url)), FakeSender()

    assert marked.channel in PUBLIC_SCHEMES
    assert (marked.destination, marked.queue) == (plain.destination, plain.queue)
    assert unmarked(marked.url) == url
    assert await PublicSender(sender).send(marked, 0) == DELIVERED
    assert sender.messages == [plain]


def test_the_private_part_of_a_url_is_named_and_others_may_be_public() -> None:
    for url in (
        *("https://example.com/", "http://8.8.8.8/"),
        *("http://[2606:4700::1]:8080/", "https://intranet.example:8443/"),
    ):
        assert private_address(url) is None, url
    for url, reason in (
        ("http://10.0.0.1/", "private"),
        ("http://LOCALHOST:80/", "own machine"),
        ("http://[::ffff:10.0.0.1]/", "private"),
        ("http://[fe80::1]/", "link-local"),
        ("http://8.8.8.8:22/", "port 22"),
        ("http://host:99999/", "cannot be read"),
    ):
        assert reason in (private_address(url) or ""), url
