"""What a server logs of pushes that succeed, fail and are refused: no token, no key, nothing of a message."""

from pathlib import Path

import orjson

from bridge_server.kernel.clock import SystemClock
from tests.support import apns_service, fcm_service
from tests.support.command import watched_server
from tests.support.eventually import eventually
from tests.support.inbox_client import sign_in
from tests.support.project import opened_app
from tests.support.push_client import PushClient
from tests.support.push_services import (
    APNS_TOKEN,
    FCM_TOKEN,
    SERVICES,
    VAPID,
    PushServices,
    running_push_services,
)
from tests.support.server import reached


def secrets(services: PushServices) -> set[str]:
    """What nobody may read in a log."""
    subscription = orjson.loads(services.subscription)
    key = services.fcm.service_account()["private_key"].splitlines()[1]
    apns_key = services.apns.key.splitlines()[1]
    return {
        FCM_TOKEN,
        APNS_TOKEN,
        VAPID.private_key,
        subscription["keys"]["auth"],
        subscription["endpoint"].rpartition("/")[2],
        key,
        apns_key,
        "ya29.local",
        "eyJ",
        "Nobody may read this",
        *services.apns.provider_tokens,
    }


async def test_no_secret_is_in_the_log_whatever_the_providers_answer(tmp_path: Path) -> None:
    async with running_push_services(tmp_path, SystemClock()) as services:
        environment = {**services.environment, "BRIDGE_LOG_LEVEL": "debug", "BRIDGE_ACCESS_LOG": "yes"}
        with watched_server(tmp_path, environment=environment) as watched:
            async with reached(watched) as server, opened_app(server) as app:
                inbox, push = await sign_in(server), PushClient(server)
                await inbox.subscribe(app.project_id)
                for channel in SERVICES:
                    await inbox.add_device(channel, services.token(channel))
                    await push.register(type=channel, token=services.token(channel))
                    for kind in ("failing", "dead"):
                        services.next_answer(channel, kind)
                        await push.push()
                for channel in SERVICES:
                    services.next_answer(channel, "failing")
                services.fcm.revoke_tokens()
                services.fcm.token_script.append(fcm_service.answered(400, {"error": "invalid_grant"}))
                services.apns.otherwise = apns_service.refusal("InvalidProviderToken")
                for _ in range(2):
                    await app.notify([inbox.account], body="Nobody may read this")

                async def all_were_tried() -> bool:
                    text = watched.err_file.read_text("utf-8")
                    return all(f'"{event}"' in text for event in ("push_provider_blocked", "webhook_failed"))

                await eventually(all_were_tried)
            watched.stop(15)
            text, lines = watched.err_file.read_text("utf-8"), watched.log()

        assert {"push_provider_blocked", "webhook_failed"} <= {line["event"] for line in lines}
        assert [secret for secret in secrets(services) if secret in text] == []
