"""A provider beside the local service that it speaks to."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import orjson

from bridge_server.outbox.guarded_client import Outcome
from bridge_server.push.models import PushNotice
from bridge_server.push.providers.credentials import ServiceAccount
from bridge_server.push.providers.fcm import FcmProvider, FcmSettings
from tests.support.clock import ManualClock
from tests.support.fcm_service import FcmService, running_fcm_service

TOKEN = "dGVzdA:APA91b-a_token_of_some_device"
NOTICE = PushNotice("message-1", "Bank", "New request from Dapp", "https://dapp.example/", {"topic": "t"})


@dataclass(frozen=True, slots=True)
class Fcm:
    """The two, and the clock of both."""

    service: FcmService
    provider: FcmProvider
    clock: ManualClock

    async def push(self, token: str = TOKEN, notice: PushNotice = NOTICE) -> Outcome:
        """One attempt."""
        return await self.provider.push(token, notice)


@asynccontextmanager
async def opened_fcm(*, timeout_seconds: float = 30.0, project_id: str | None = None) -> AsyncIterator[Fcm]:
    """Both are open inside the block; the account may claim to be of another project."""
    clock = ManualClock()
    async with running_fcm_service(clock) as service:
        account = ServiceAccount.parse(orjson.dumps(service.service_account()))
        if project_id is not None:
            account = replace(account, project_id=project_id)
        settings = FcmSettings(account, service.endpoint, service.token_endpoint, timeout_seconds)
        async with FcmProvider(settings, clock) as provider:
            yield Fcm(service, provider, clock)
