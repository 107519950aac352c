"""Each provider beside the local service that it speaks to."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from secrets import token_bytes
from tempfile import TemporaryDirectory
from typing import Any

import orjson

from bridge_server.outbox.guarded_client import Outcome, Verdict
from bridge_server.push.keys import ApnsSettings, ServiceAccount, new_vapid_keys
from bridge_server.push.models import PushNotice
from bridge_server.push.providers.apns import ApnsProvider
from bridge_server.push.providers.fcm import FcmProvider, FcmSettings
from bridge_server.push.providers.webpush import WebPushSettings
from tests.support.apns_service import ApnsService, running_apns_service
from tests.support.clock import ManualClock
from tests.support.credentials import throw_away_certificate
from tests.support.fcm_service import FcmService, running_fcm_service
from tests.support.push_services import APNS_TOKEN, FCM_TOKEN
from tests.support.waiting import eventually

OTHER_TOKEN = "fedcba9876543210" * 4
NOTICE = PushNotice("message-1", "Bank", "New request from Dapp", "https://dapp.example/", {"topic": "t"})
DELIVERED = Outcome(Verdict.DELIVERED, status=200)

KEYS = new_vapid_keys(token_bytes)
SUBJECT = "mailto:push@bridge.example.org"
WEB_PUSH = WebPushSettings(KEYS.private_key, SUBJECT, 20, allow_private=True, user_agent="Bridge-Server/1")
WEB_NOTICE = PushNotice(
    "device-7.41", "New request", "Wallet asks für you 👋", "https://dapp.example.org/calls", {"topic": "t-1"}
)


@dataclass(frozen=True, slots=True)
class Apns:
    """APNs and its provider, and the clock of both."""

    service: ApnsService
    provider: ApnsProvider
    settings: ApnsSettings
    clock: ManualClock

    async def push(self, token: str = APNS_TOKEN, notice: PushNotice = NOTICE) -> Outcome:
        """One attempt."""
        return await self.provider.push(token, notice)

    async def push_many(self, count: int) -> list[Outcome]:
        """So many attempts at once, each for a device of its own."""
        return await asyncio.gather(*(self.push(f"{number:064x}") for number in range(count)))

    async def held(self, count: int) -> None:
        """Return once the service holds so many requests back."""
        await eventually(lambda: len(self.service.held) >= count)
        assert len(self.service.held) == count


@asynccontextmanager
async def opened_apns(
    *, max_streams: int = 1_000, trusted: bool = True, **settings: str
) -> AsyncIterator[Apns]:
    """Both are open inside the block."""
    clock = ManualClock()
    with TemporaryDirectory() as folder:
        certificate = throw_away_certificate(Path(folder))
        async with running_apns_service(certificate.server, clock, max_streams=max_streams) as service:
            names = ("key", "key_id", "team_id", "topic", "endpoint")
            made = ApnsSettings(
                **{**{name: getattr(service, name) for name in names}, **settings},
                ca_file=str(certificate.ca_file) if trusted else None,
                timeout_seconds=30.0,
            )
            async with ApnsProvider(made, clock) as provider:
                yield Apns(service, provider, made, clock)


@dataclass(frozen=True, slots=True)
class Fcm:
    """FCM and its provider, and the clock of both."""

    service: FcmService
    provider: FcmProvider
    clock: ManualClock

    async def push(self, token: str = FCM_TOKEN, notice: PushNotice = NOTICE) -> Outcome:
        """One attempt."""
        return await self.provider.push(token, notice)


@asynccontextmanager
async def opened_fcm(wrong_by_seconds: float = 0.0, **account: Any) -> AsyncIterator[Fcm]:
    """Both are open inside the block; the provider's clock and account may differ from the service's."""
    clock = ManualClock()
    async with running_fcm_service(ManualClock() if wrong_by_seconds else clock) as service:
        sound = ServiceAccount.parse(orjson.dumps(service.service_account()))
        settings = FcmSettings(replace(sound, **account), service.endpoint, service.token_endpoint, 30.0)
        clock.advance(wrong_by_seconds)
        async with FcmProvider(settings, clock) as provider:
            yield Fcm(service, provider, clock)
