"""A provider that refuses this server's credentials: said once, nothing lost, nothing counted. And one that
limits a device or this server, and does not say which.

No local push service can take a token of one lane and refuse another: a fake provider does.
"""

from dataclasses import replace
from typing import Self

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
from tests.support.clock import ManualClock
from tests.support.fakes import status
from tests.support.inbox_client import InboxClient, sign_in
from tests.support.project import App, look, until_tried
from tests.support.push_client import PushClient
from tests.support.push_services import VAPID, PushServices
from tests.support.rows import each_row
from tests.support.waiting import eventually


class FakeProvider:
    """A provider with the outcome that a test gives it."""

    outcome = Outcome(Verdict.DELIVERED)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    def checked_token(self, token: str) -> str:
        return token

    async def push(self, token: str, notice: PushNotice) -> Outcome:
        return self.outcome


def fake_sender(clock: ManualClock) -> tuple[FakeProvider, ProviderSender]:
    provider = FakeProvider()
    return provider, ProviderSender("fake", provider, clock)


def a_push(lane: str, token: str = "a:b:c") -> OutgoingMessage:
    body = orjson.dumps({"title": "Bank", "body": "Prices fall"})
    return OutgoingMessage("device.7", f"fake:{token}", body, DEVICE, lane=lane)


async def test_a_block_of_one_lane_stops_no_other_and_ends_once_a_token_of_its_own_was_judged() -> None:
    delivered, gone = Outcome(Verdict.DELIVERED), Outcome(Verdict.GONE, "no such token")
    blocked, failed = Outcome(Verdict.BLOCKED, "the key was deleted"), Outcome(Verdict.FAILED, "503")
    clock = ManualClock()
    provider, sender = fake_sender(clock)
    apple, google = "fake https://apple.test", "fake https://google.test"

    with capture_logs() as logs:
        for lane, seconds, answer, outcome, lanes in (
            (apple, 0, blocked, blocked, [apple]),
            (apple, 30, failed, failed, [apple]),
            (apple, 0, blocked, blocked, [apple]),
            (google, 0, delivered, delivered, [apple]),
            (apple, 1, delivered, blocked, [apple]),
            (google, 1, blocked, blocked, [apple, google]),
            (apple, 28, gone, gone, [google]),
        ):
            clock.advance(seconds)
            clock.set_by(-3_600)  # the pause is of elapsed time
            provider.outcome = answer
            assert await sender.send(a_push(lane), clock.now_ms()) == outcome
            assert sender.blocked == dict.fromkeys(lanes, "the key was deleted")

    assert [(line["event"], line["lane"]) for line in logs] == [
        ("push_provider_blocked", apple),
        ("push_provider_blocked", google),
        ("push_provider_works_again", apple),
    ]


async def test_a_limit_pauses_a_lane_once_three_devices_met_it_without_a_success_between() -> None:
    perhaps = Outcome(Verdict.FAILED, "429", 429, 60.0, about_lane=None)
    one, everything = replace(perhaps, about_lane=False), replace(perhaps, about_lane=True)
    delivered, gone = Outcome(Verdict.DELIVERED), Outcome(Verdict.GONE, "no such token")
    provider, sender = fake_sender(ManualClock())

    for lane, token, answer, outcome in (
        *[("google", "stranger's", perhaps, one)] * 9,
        ("google", "b", perhaps, one),
        ("apple", "c", perhaps, one),
        ("google", "c", one, one),
        ("google", "c", gone, gone),
        ("google", "c", perhaps, everything),
        ("google", "d", perhaps, one),
        ("google", "e", perhaps, one),
        ("google", "a", delivered, delivered),
        ("google", "f", perhaps, one),
        ("google", "f", everything, everything),
        ("apple", "a", perhaps, one),
        ("apple", "b", perhaps, everything),
    ):
        provider.outcome = answer
        assert await sender.send(a_push(lane, token), 0) == outcome, (lane, token)


async def test_the_limits_of_many_lanes_are_forgotten() -> None:
    provider, sender = fake_sender(ManualClock())
    provider.outcome = Outcome(Verdict.FAILED, "429", 429, 60.0, about_lane=None)

    for token in ("a", "b", "c"):
        for number in range(1_001):
            assert not (await sender.send(a_push(f"fake https://{number}.test", token), 0)).about_lane


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


@pytest.mark.parametrize("channel", PROVIDERS)
async def test_a_blocked_provider_is_logged_once_counts_no_attempt_stops_no_other_and_loses_nothing(
    app: App, subscriber: InboxClient, services: PushServices, channel: str
) -> None:
    (other,) = set(PROVIDERS) - {channel}
    for each in PROVIDERS:
        await subscriber.add_device(each, services.token(each))
    refuse_credentials(services, channel)

    async def blocked() -> bool:
        return await figure(app.server, f"push_{channel}_blocked") == 1

    async def readiness() -> tuple[int, str]:
        answer = await ask(app.server, "GET", "/readyz")
        return answer.status, answer.body.decode()

    with capture_logs() as logs:
        for number in range(3):
            await app.notify([subscriber.account], title=f"n{number}")
        await eventually(blocked)
        app.server.clock.advance(3 * 86_400)
        await app.notify([subscriber.account], title="n3")
        await services.got(other, 4)
        await eventually(lambda: look(app.server, QUEUED) == [(4, 0, 0, 0)])
        while_blocked = await readiness()

    (line,) = [line for line in logs if line["event"] == "push_provider_blocked"]
    assert (line["log_level"], line["channel"]) == ("error", channel)
    assert services.token(channel) not in str(logs)
    assert while_blocked == (200, f"ready\nbut pushes by {channel} have stopped: {line['reason']}\n")
    assert await figure(app.server, f"push_{other}_blocked") == 0
    assert len(await subscriber.devices()) == 2

    accept_credentials(services, channel)
    app.server.clock.advance(31)
    await until_delivered(app.server)

    delivered = {each.message_id: each.title for each in services.shown(channel)}
    assert sorted(delivered.values()) == ["n0", "n1", "n2", "n3"]
    assert look(app.server, QUEUED) == [(0, None, 0, 0)]
    assert await readiness() == (200, "ready\n")
    assert await figure(app.server, f"push_{channel}_blocked") == 0


LIMITED = {"fcm": fcm_service.refusal("QUOTA_EXCEEDED"), "webpush": status(429, Retry_After="3600")}


@pytest.mark.parametrize("channel", LIMITED)
async def test_the_limit_of_a_strangers_device_keeps_no_other_waiting(
    app: App, subscriber: InboxClient, services: PushServices, channel: str
) -> None:
    stranger = await sign_in(app.server, 2)
    await stranger.subscribe(app.project_id)
    tokens = {"fcm": "limited", "webpush": services.browser.subscribe(services.webpush, VAPID.public_key)}
    await stranger.add_device(channel, tokens[channel])
    getattr(services, channel).script.append(LIMITED[channel])
    await app.notify([stranger.account], title="limited")
    await until_tried(app.server, 1)

    await subscriber.add_device(channel, services.token(channel))
    await app.notify([subscriber.account], title="another")

    assert [each.title for each in await services.got(channel, 2)] == ["limited", "another"]


@each_row("channel", PROVIDERS)
async def test_a_push_at_once_is_502(connected: PushClient, services: PushServices, channel: str) -> None:
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
