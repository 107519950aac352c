"""A provider that refuses this server's credentials: said once, nothing lost, nothing counted.

No local push service can take a token of one lane and refuse another: a fake provider does.
"""

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
from tests.support.inbox_client import InboxClient
from tests.support.project import App, look
from tests.support.push_client import PushClient
from tests.support.push_services import PushServices
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


async def test_a_block_of_one_lane_stops_no_other_and_ends_once_a_token_of_its_own_was_judged() -> None:
    delivered, gone = Outcome(Verdict.DELIVERED), Outcome(Verdict.GONE, "no such token")
    blocked, failed = Outcome(Verdict.BLOCKED, "the key was deleted"), Outcome(Verdict.FAILED, "503")
    provider, clock = FakeProvider(), ManualClock()
    sender = ProviderSender("fake", provider, clock)
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
            body = orjson.dumps({"title": "Bank", "body": "Prices fall"})
            message = OutgoingMessage("device.7", "fake:a:b:c", body, DEVICE, lane=lane)
            assert await sender.send(message, clock.now_ms()) == outcome
            assert sender.blocked == dict.fromkeys(lanes, "the key was deleted")

    assert [(line["event"], line["lane"]) for line in logs] == [
        ("push_provider_blocked", apple),
        ("push_provider_blocked", google),
        ("push_provider_works_again", apple),
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
