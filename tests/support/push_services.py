"""Every way to a device, each with a service on this machine that the device belongs to."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from secrets import token_bytes
from typing import Any

import orjson

from bridge_server.kernel.clock import Clock
from bridge_server.push.keys import new_vapid_keys
from tests.support import apns_service, fcm_service, webhook_receiver
from tests.support.apns_service import ApnsService, ServerStream, running_apns_service
from tests.support.credentials import throw_away_certificate
from tests.support.fakes import hang, status
from tests.support.fcm_service import FcmService, running_fcm_service
from tests.support.waiting import eventually
from tests.support.webhook_receiver import WebhookReceiver, open_receiver
from tests.support.webpush_service import Browser, WebPushService, web_push_service

SERVICES = ("fcm", "apns", "webpush", "webhook")
FCM_TOKEN = "dGVzdA:APA91b-the_token_of_one_device"
APNS_TOKEN = "0123456789abcdef" * 4
VAPID = new_vapid_keys(token_bytes)

_NEXT: Mapping[str, Mapping[str, Any]] = {
    "fcm": {
        "dead": fcm_service.refusal("UNREGISTERED"), "failing": fcm_service.refusal("UNAVAILABLE"),
        "too large": fcm_service.refusal("INVALID_ARGUMENT"), "hanging": fcm_service.hang,
    },
    "apns": {
        "dead": apns_service.refusal("Unregistered"), "failing": apns_service.refusal("ServiceUnavailable"),
        "too large": apns_service.refusal("PayloadTooLarge"), "hanging": apns_service.hang,
    },
    "webpush": {"dead": status(410), "failing": status(503), "too large": status(413), "hanging": hang},
    "webhook": {"dead": status(410), "failing": status(503), "hanging": webhook_receiver.hang},
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Shown:
    message_id: str
    title: str
    body: str
    url: str | None


@dataclass(frozen=True, slots=True)
class PushServices:
    """The services, one device at each, and the settings of a server that pushes through them."""

    fcm: FcmService
    apns: ApnsService
    webpush: WebPushService
    receiver: WebhookReceiver
    browser: Browser
    subscription: str
    settings: Mapping[str, Any]

    @property
    def environment(self) -> dict[str, str]:
        return {f"BRIDGE_{name.upper()}": str(value) for name, value in self.settings.items()}

    def token(self, channel: str) -> str:
        """The address with which the one device is registered."""
        subscription, hook = self.subscription, self.receiver.url()
        tokens = {"fcm": FCM_TOKEN, "apns": APNS_TOKEN, "webpush": subscription, "webhook": hook}
        return tokens[channel]

    def next_answer(self, channel: str, kind: str) -> None:
        """Choose the answer to the next push: dead, failing, too large or hanging."""
        answer = _NEXT[channel][kind]

        def once(service: ApnsService, stream: ServerStream) -> None:
            del service.by_token[APNS_TOKEN]
            answer(service, stream)

        if channel == "apns":
            self.apns.by_token[APNS_TOKEN] = once
        else:
            services: Mapping[str, Any] = {"fcm": self.fcm, "webpush": self.webpush, "webhook": self.receiver}
            services[channel].script.append(answer)

    def shown(self, channel: str) -> list[Shown]:
        """Everything that the service was handed for devices, whatever it answered."""
        if channel == "fcm":
            messages = [each.message for each in self.fcm.received]
            return [_shown({**message["data"], **message["notification"]}) for message in messages]
        if channel == "apns":
            return [_shown({**each.payload, **each.payload["aps"]["alert"]}) for each in self.apns.received]
        if channel == "webpush":
            return [_shown(self.browser.read(push.body)) for push in self.webpush.received]
        return [
            _shown({**orjson.loads(request.body), "id": request.headers["webhook-id"]})
            for request in self.receiver.requests
        ]

    async def got(self, channel: str, count: int) -> list[Shown]:
        """The notifications that the service was handed, once there are so many."""
        await eventually(lambda: len(self.shown(channel)) >= count)
        return self.shown(channel)


def _shown(fields: Mapping[str, Any]) -> Shown:
    return Shown(fields["id"], fields["title"], fields["body"], fields.get("url"))


@asynccontextmanager
async def running_push_services(folder: Path, clock: Clock) -> AsyncIterator[PushServices]:
    """Run every service until the block is left. The clock is that of the server that pushes."""
    browser = Browser()
    async with AsyncExitStack() as stack:
        certificate = throw_away_certificate(folder)
        fcm = await stack.enter_async_context(running_fcm_service(clock))
        apns = await stack.enter_async_context(running_apns_service(certificate.server, clock))
        webpush = await stack.enter_async_context(web_push_service(clock))
        receiver = await stack.enter_async_context(open_receiver())
        account, key = folder / "service-account.json", folder / "AuthKey.p8"
        account.write_bytes(orjson.dumps(fcm.service_account()))
        key.write_text(apns.key, "ascii")
        settings = {
            "fcm_credentials": account,
            "fcm_endpoint": fcm.endpoint,
            "apns_key": key, "apns_key_id": apns.key_id, "apns_team_id": apns.team_id,
            "apns_topic": apns.topic, "apns_endpoint": apns.endpoint, "apns_ca_file": certificate.ca_file,
            "vapid_private_key": VAPID.private_key, "vapid_subject": "mailto:push@bridge.example.org",
            "allow_private_webhooks": True,
        }  # fmt: skip
        subscription = browser.subscribe(webpush, VAPID.public_key)
        yield PushServices(fcm, apns, webpush, receiver, browser, subscription, settings)
