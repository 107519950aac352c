"""A provider that refuses this server's credentials: said once, nothing lost, nothing counted."""

from collections.abc import MutableMapping
from dataclasses import replace
from typing import Any, Self

import orjson
import pytest
from structlog.testing import capture_logs

from bridge_server.notify.service import DEVICE
from bridge_server.outbox.guarded_client import Outcome, Verdict
from bridge_server.outbox.models import OutgoingMessage
from bridge_server.push.models import PushNotice
from bridge_server.push.providers.provider import ProviderSender
from tests.support import apns_service, fcm_service
from tests.support.asking import ask, figure, until_delivered
from tests.support.inbox_client import InboxClient
from tests.support.project import App, look
from tests.support.push_client import PushClient
from tests.support.push_services import PushServices
from tests.support.rows import each_row
from tests.support.waiting import eventually

DELIVERED = Outcome(Verdict.DELIVERED)
BLOCKED = Outcome(Verdict.BLOCKED, "the key was deleted")
FAILED = Outcome(Verdict.FAILED, "it answered 503")
GONE = Outcome(Verdict.GONE, "no such token")
PAUSE_MS = 30_000


class FakeProvider:
    """A provider with the outcome that a test gives it."""

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


async def test_hidden_fields_are_strings_in_the_data(sender: ProviderSender, provider: FakeProvider) -> None:
    await sender.send(message(url="https://a.test/", number=7, nothing=None, type="news"), 0)

    ((_, notice),) = provider.pushed
    assert (notice.url, notice.data) == ("https://a.test/", {"number": "7", "type": "news"})


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


async def test_a_failure_ends_no_block(sender: ProviderSender, provider: FakeProvider) -> None:
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


PROVIDERS = ("fcm", "apns")
QUEUED = "SELECT count(*), max(attempts), count(last_error), count(died_at_ms) FROM outbox"


def refuse_credentials(services: PushServices, channel: str) -> None:
    """From now on, until `accept_credentials`."""
    if channel == "fcm":
        refusal = fcm_service.answered(400, {"error": "invalid_grant"})
        services.fcm.token_script.extend([refusal] * 1_000)
    else:
        services.apns.otherwise = apns_service.refusal("InvalidProviderToken")


def accept_credentials(services: PushServices, channel: str) -> None:
    services.fcm.token_script.clear()
    services.apns.otherwise = apns_service.taken


async def until_blocked(app: App, channel: str) -> None:
    async def blocked() -> bool:
        return await figure(app.server, f"push_{channel}_blocked") == 1

    await eventually(blocked)


async def readiness(app: App) -> tuple[int, str]:
    answer = await ask(app.server, "GET", "/readyz")
    return answer.status, answer.body.decode()


def loud(logs: list[MutableMapping[str, Any]]) -> list[MutableMapping[str, Any]]:
    return [line for line in logs if line["event"] == "push_provider_blocked"]


@each_row("channel", PROVIDERS)
async def test_blocked_provider_is_logged_once_and_unready_until_it_works(
    app: App, subscriber: InboxClient, services: PushServices, channel: str
) -> None:
    await subscriber.add_device(channel, services.token(channel))
    refuse_credentials(services, channel)
    assert await figure(app.server, f"push_{channel}_blocked") == 0
    assert await readiness(app) == (200, "ready\n")

    with capture_logs() as logs:
        for _ in range(10):
            await app.notify([subscriber.account])
        await until_blocked(app, channel)
        app.server.clock.advance(31)
        await app.notify([subscriber.account])
        blocked = await readiness(app)

    (line,) = loud(logs)
    assert (line["log_level"], line["channel"]) == ("error", channel)
    assert services.token(channel) not in str(logs)
    assert blocked[0] == 200
    assert blocked[1] == f"ready\nbut pushes by {channel} have stopped: {line['reason']}\n"

    accept_credentials(services, channel)
    app.server.clock.advance(31)
    await services.got(channel, 11)
    await until_delivered(app.server)

    assert await readiness(app) == (200, "ready\n")
    assert await figure(app.server, f"push_{channel}_blocked") == 0


@pytest.mark.parametrize("channel", PROVIDERS)
async def test_nothing_is_lost_no_attempt_is_counted_and_others_go_on_however_long_it_takes(
    app: App, subscriber: InboxClient, services: PushServices, channel: str
) -> None:
    (other,) = set(PROVIDERS) - {channel}
    for each in (channel, other):
        await subscriber.add_device(each, services.token(each))
    refuse_credentials(services, channel)

    for number in range(3):
        await app.notify([subscriber.account], title=f"n{number}")
    await until_blocked(app, channel)
    app.server.clock.advance(3 * 86_400)
    await app.notify([subscriber.account], title="n3")
    await services.got(other, 4)
    await eventually(lambda: look(app.server, QUEUED) == [(4, 0, 0, 0)])
    assert await figure(app.server, f"push_{other}_blocked") == 0
    devices = await subscriber.devices()
    accept_credentials(services, channel)
    app.server.clock.advance(31)
    await until_delivered(app.server)

    assert len(devices) == 2
    shown = services.shown(channel)
    delivered = {each.message_id: each.title for each in shown}
    assert sorted(delivered.values()) == ["n0", "n1", "n2", "n3"]
    assert look(app.server, QUEUED) == [(0, None, 0, 0)]


@each_row("channel", PROVIDERS)
async def test_a_push_at_once_is_502_and_keeps_the_registration(
    connected: PushClient, services: PushServices, channel: str
) -> None:
    await connected.register(type=channel, token=services.token(channel))
    refuse_credentials(services, channel)

    for _ in range(2):
        (await connected.push()).problem(502)
    asked = services.fcm.token_requests if channel == "fcm" else len(services.apns.received)
    accept_credentials(services, channel)
    (await connected.push()).problem(502)  # it is not asked again so soon
    connected.clock.advance(31)

    assert asked == 1
    assert (await connected.push()).status == 200
