"""A provider beside the local service that it speaks to."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from bridge_server.outbox.guarded_client import Outcome
from bridge_server.push.models import PushNotice
from bridge_server.push.providers.apns import ApnsProvider
from bridge_server.push.providers.credentials import ApnsSettings
from tests.support.apns_service import ApnsService, running_apns_service
from tests.support.clock import ManualClock
from tests.support.credentials import throw_away_certificate
from tests.support.eventually import eventually

TOKEN = "0123456789abcdef" * 4
OTHER_TOKEN = "fedcba9876543210" * 4
NOTICE = PushNotice("message-1", "Bank", "New request from Dapp", "https://dapp.example/", {"topic": "t"})


@dataclass(frozen=True, slots=True)
class Apns:
    """The two, and the clock of both."""

    service: ApnsService
    provider: ApnsProvider
    clock: ManualClock

    async def push(self, token: str = TOKEN, notice: PushNotice = NOTICE) -> Outcome:
        """One attempt."""
        return await self.provider.push(token, notice)

    async def push_many(self, count: int) -> list[Outcome]:
        """So many attempts at once, each for a device of its own."""
        return await asyncio.gather(*(self.push(f"{number:064x}") for number in range(count)))

    async def held(self, count: int) -> None:
        """Return once the service holds so many requests back."""

        async def enough() -> bool:
            return len(self.service.held) >= count

        await eventually(enough)
        assert len(self.service.held) == count


@asynccontextmanager
async def opened_apns(
    *, timeout_seconds: float = 30.0, max_streams: int = 1_000, trusted: bool = True, **settings: str
) -> AsyncIterator[Apns]:
    """Both are open inside the block."""
    clock = ManualClock()
    with TemporaryDirectory() as folder:
        certificate = throw_away_certificate(Path(folder))
        async with running_apns_service(certificate.server, clock, max_streams=max_streams) as service:
            made = ApnsSettings(
                **{
                    "key": service.key,
                    "key_id": service.key_id,
                    "team_id": service.team_id,
                    "topic": service.topic,
                    **settings,
                },
                endpoint=service.endpoint,
                ca_file=str(certificate.ca_file) if trusted else None,
                timeout_seconds=timeout_seconds,
            )
            async with ApnsProvider(made, clock) as provider:
                yield Apns(service, provider, clock)
