"""A provider that refuses this server's credentials: said loudly once, nothing lost, nothing counted."""

from collections.abc import MutableMapping
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.support import apns_service, fcm_service
from tests.support.asking import ask
from tests.support.eventually import eventually
from tests.support.figures import figure, until_delivered
from tests.support.inbox_client import InboxClient
from tests.support.project import App, look
from tests.support.push_client import PushClient
from tests.support.push_services import PushServices
from tests.support.rows import each_row

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
async def test_nothing_is_lost_and_no_attempt_is_counted_however_long_it_takes(
    app: App, subscriber: InboxClient, services: PushServices, channel: str
) -> None:
    await subscriber.add_device(channel, services.token(channel))
    refuse_credentials(services, channel)

    for number in range(3):
        await app.notify([subscriber.account], title=f"n{number}")
    await until_blocked(app, channel)
    app.server.clock.advance(3 * 86_400)
    await app.notify([subscriber.account], title="n3")
    waiting = look(app.server, QUEUED)
    devices = await subscriber.devices()
    accept_credentials(services, channel)
    app.server.clock.advance(31)
    await until_delivered(app.server)

    assert waiting == [(4, 0, 0, 0)]
    assert len(devices) == 1
    shown = services.shown(channel)
    delivered = {each.message_id: each.title for each in shown}
    assert sorted(delivered.values()) == ["n0", "n1", "n2", "n3"]
    assert look(app.server, QUEUED) == [(0, None, 0, 0)]


@pytest.mark.parametrize("channel", PROVIDERS)
async def test_others_go_on(app: App, subscriber: InboxClient, services: PushServices, channel: str) -> None:
    (other,) = set(PROVIDERS) - {channel}
    for each in (channel, other):
        await subscriber.add_device(each, services.token(each))
    refuse_credentials(services, channel)

    await app.notify([subscriber.account])
    await services.got(other, 1)
    await until_blocked(app, channel)

    assert await figure(app.server, f"push_{other}_blocked") == 0


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
