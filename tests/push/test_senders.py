"""Between the outbox and the providers: what is handed over, and what is remembered of a refusal."""

from dataclasses import replace
from typing import Self

import orjson
import pytest
from structlog.testing import capture_logs

from bridge_server.kernel.errors import UnavailableError
from bridge_server.notify.service import DEVICE
from bridge_server.outbox.guarded_client import Outcome, Verdict
from bridge_server.outbox.models import OutgoingMessage
from bridge_server.push.models import PushNotice
from bridge_server.push.providers.provider import NoProvider, ProviderSender, TopicSender

DELIVERED = Outcome(Verdict.DELIVERED)
BLOCKED = Outcome(Verdict.BLOCKED, "the key was deleted")
FAILED = Outcome(Verdict.FAILED, "it answered 503")
GONE = Outcome(Verdict.GONE, "no such token")
PAUSE_MS = 30_000


class FakeProvider:
    """Says what it is told to."""

    def __init__(self) -> None:
        self.outcome = DELIVERED
        self.pushed: list[tuple[str, PushNotice]] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    def checked_token(self, token: str) -> str:
        return token

    async def push(self, token: str, notice: PushNotice) -> Outcome:
        self.pushed.append((token, notice))
        return self.outcome


def message(**notice: object) -> OutgoingMessage:
    body = orjson.dumps({"title": "Bank", "body": "Prices fall", **notice})
    return OutgoingMessage("device.7", "fake:a:b:c", body, DEVICE)


@pytest.fixture
def provider() -> FakeProvider:
    return FakeProvider()


@pytest.fixture
def sender(provider: FakeProvider) -> ProviderSender:
    return ProviderSender("fake", provider)


async def test_the_token_is_all_that_follows_the_channel(
    sender: ProviderSender, provider: FakeProvider
) -> None:
    assert await sender.send(message(), 0) == DELIVERED

    assert provider.pushed == [("a:b:c", PushNotice("device.7", "Bank", "Prices fall"))]


async def test_hidden_fields_are_strings_in_the_data(sender: ProviderSender, provider: FakeProvider) -> None:
    await sender.send(message(url="https://a.test/", number=7, nothing=None, type="news"), 0)

    ((_, notice),) = provider.pushed
    assert (notice.url, notice.data) == ("https://a.test/", {"number": "7", "type": "news"})


async def test_a_provider_that_is_blocked_is_asked_again_after_a_pause(
    sender: ProviderSender, provider: FakeProvider
) -> None:
    provider.outcome = BLOCKED

    for now_ms in (0, 1, PAUSE_MS - 1, PAUSE_MS, 2 * PAUSE_MS - 1):
        assert await sender.send(message(), now_ms) == BLOCKED

    assert len(provider.pushed) == 2
    assert sender.blocked == {"fake": "the key was deleted"}


@pytest.mark.parametrize("outcome", [DELIVERED, GONE])
async def test_a_block_is_over_once_a_token_was_judged(
    sender: ProviderSender, provider: FakeProvider, outcome: Outcome
) -> None:
    provider.outcome = BLOCKED
    with capture_logs() as logs:
        await sender.send(message(), 0)
        provider.outcome = outcome
        await sender.send(message(), PAUSE_MS)
        await sender.send(message(), PAUSE_MS + 1)

    assert sender.blocked == {}
    assert len(provider.pushed) == 3
    assert [(line["event"], line["log_level"]) for line in logs] == [
        ("push_provider_blocked", "error"),
        ("push_provider_works_again", "info"),
    ]


async def test_a_failure_says_nothing_of_the_credentials(
    sender: ProviderSender, provider: FakeProvider
) -> None:
    provider.outcome = BLOCKED
    await sender.send(message(), 0)
    provider.outcome = FAILED

    assert await sender.send(message(), PAUSE_MS) == FAILED

    assert sender.blocked == {"fake": "the key was deleted"}


async def test_a_block_of_one_lane_stops_no_other_and_ends_with_no_other(
    sender: ProviderSender, provider: FakeProvider
) -> None:
    apple, google = (replace(message(), lane=f"fake https://{name}.test") for name in ("apple", "google"))
    with capture_logs() as logs:
        provider.outcome = BLOCKED
        for now_ms in (0, PAUSE_MS):
            assert await sender.send(apple, now_ms) == BLOCKED
        provider.outcome = DELIVERED

        assert await sender.send(google, PAUSE_MS) == DELIVERED
        assert await sender.send(apple, PAUSE_MS + 1) == BLOCKED
        assert sender.blocked == {"fake https://apple.test": "the key was deleted"}

        provider.outcome = BLOCKED
        await sender.send(google, PAUSE_MS + 2)
        assert sender.blocked.keys() == {"fake https://apple.test", "fake https://google.test"}
        provider.outcome = DELIVERED
        assert await sender.send(apple, 2 * PAUSE_MS) == DELIVERED
        assert sender.blocked.keys() == {"fake https://google.test"}

    assert [(line["event"], line["lane"]) for line in logs] == [
        ("push_provider_blocked", "fake https://apple.test"),
        ("push_provider_blocked", "fake https://google.test"),
        ("push_provider_works_again", "fake https://apple.test"),
    ]


async def test_a_notice_of_the_own_bridge_becomes_a_push_or_is_dropped_with_no_further_effect() -> None:
    taken: list[OutgoingMessage] = []

    async def take(notice: OutgoingMessage) -> bool:
        taken.append(notice)
        return len(taken) == 1

    topic_sender = TopicSender(take)

    assert await topic_sender.send(message(), 0) == DELIVERED
    assert await topic_sender.send(message(), 0) == DELIVERED
    assert len(taken) == 2


async def test_a_notice_that_cannot_be_stored_now_is_worth_another_attempt() -> None:
    async def refuse(_: OutgoingMessage) -> bool:
        raise UnavailableError("the disk is full")

    assert await TopicSender(refuse).send(message(), 0) == Outcome(Verdict.FAILED, "the disk is full")


async def test_a_channel_without_a_provider_is_worth_another_attempt() -> None:
    outcome = await NoProvider("fcm").send(message(), 0)

    assert outcome == Outcome(Verdict.FAILED, "pushes by fcm are not configured")
