"""Every way to a device, each with a service on this machine that the device belongs to."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from secrets import token_bytes
from typing import Any

import orjson

from bridge_server.kernel.clock import Clock
from bridge_server.push.keys import new_vapid_keys
from tests.support import apns_service, fcm_service, webhook_receiver, webpush_service
from tests.support.apns_service import ApnsAnswer, ApnsService, running_apns_service
from tests.support.credentials import throw_away_certificate
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
        "dead": fcm_service.refusal("UNREGISTERED"),
        "failing": fcm_service.refusal("UNAVAILABLE"),
        "too large": fcm_service.refusal("INVALID_ARGUMENT"),
        "hanging": fcm_service.hang,
    },
    "apns": {
        "dead": apns_service.refusal("Unregistered"),
        "failing": apns_service.refusal("ServiceUnavailable"),
        "too large": apns_service.refusal("PayloadTooLarge"),
        "hanging": apns_service.hang,
    },
    "webpush": {
        "dead": webpush_service.status(410),
        "failing": webpush_service.status(503),
        "too large": webpush_service.status(413),
        "hanging": webpush_service.hang,
    },
    "webhook": {
        "dead": webhook_receiver.status(410),
        "failing": webhook_receiver.status(503),
        "hanging": webhook_receiver.hang,
    },
}


@dataclass(frozen=True, slots=True)
class Shown:
    """One notification on a device."""

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
        """The settings as variables."""
        return {f"BRIDGE_{name.upper()}": str(value) for name, value in self.settings.items()}

    def token(self, channel: str) -> str:
        """The address with which the one device is registered."""
        tokens = {
            "fcm": FCM_TOKEN,
            "apns": APNS_TOKEN,
            "webpush": self.subscription,
            "webhook": self.receiver.url(),
        }
        return tokens[channel]

    def next_answer(self, channel: str, kind: str) -> None:
        """Choose the answer to the next push: dead, failing, too large or hanging."""
        answer = _NEXT[channel][kind]
        if channel == "apns":
            self.apns.by_token[APNS_TOKEN] = _once(answer)
        else:
            scripts: Mapping[str, Any] = {
                "fcm": self.fcm.script,
                "webpush": self.webpush.script,
                "webhook": self.receiver.script,
            }
            scripts[channel].append(answer)

    def shown(self, channel: str) -> list[Shown]:
        """Everything that the service was handed for devices, whatever it answered."""
        return _READERS[channel](self)

    async def got(self, channel: str, count: int, within_seconds: float = 60.0) -> list[Shown]:
        """The notifications that the service was handed, once there are so many."""

        async def enough() -> bool:
            return len(self.shown(channel)) >= count

        await eventually(enough, within_seconds)
        return self.shown(channel)


def _once(answer: ApnsAnswer) -> ApnsAnswer:
    def answered(service: ApnsService, stream: Any) -> None:
        del service.by_token[APNS_TOKEN]
        answer(service, stream)

    return answered


def _from_fcm(services: PushServices) -> list[Shown]:
    return [
        Shown(
            each.message["data"]["id"],
            each.message["notification"]["title"],
            each.message["notification"]["body"],
            each.message["data"].get("url"),
        )
        for each in services.fcm.received
    ]


def _from_apns(services: PushServices) -> list[Shown]:
    return [
        Shown(each.payload["id"], alert["title"], alert["body"], each.payload.get("url"))
        for each in services.apns.received
        for alert in [each.payload["aps"]["alert"]]
    ]


def _from_webpush(services: PushServices) -> list[Shown]:
    read = [services.browser.read(push.body) for push in services.webpush.received]
    return [Shown(each["id"], each["title"], each["body"], each["url"]) for each in read]


def _from_webhook(services: PushServices) -> list[Shown]:
    return [
        Shown(request.headers["webhook-id"], notice["title"], notice["body"], notice.get("url"))
        for request in services.receiver.requests
        for notice in [orjson.loads(request.body)]
    ]


_READERS: Mapping[str, Callable[[PushServices], list[Shown]]] = {
    "fcm": _from_fcm,
    "apns": _from_apns,
    "webpush": _from_webpush,
    "webhook": _from_webhook,
}


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
            "apns_key": key,
            "apns_key_id": apns.key_id,
            "apns_team_id": apns.team_id,
            "apns_topic": apns.topic,
            "apns_endpoint": apns.endpoint,
            "apns_ca_file": certificate.ca_file,
            "vapid_private_key": VAPID.private_key,
            "vapid_subject": "mailto:push@bridge.example.org",
            "allow_private_webhooks": True,
        }
        subscription = browser.subscribe(webpush, VAPID.public_key)
        yield PushServices(fcm, apns, webpush, receiver, browser, subscription, settings)
