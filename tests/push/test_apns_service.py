"""The local service is as strict as the real one: what it takes, that one takes too."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import orjson
import pytest
from Crypto.PublicKey import ECC

from bridge_server.push.keys import es256
from bridge_server.push.providers.http2 import Http2Client, client_tls
from tests.support.apns_service import ApnsService, running_apns_service
from tests.support.clock import ManualClock
from tests.support.credentials import throw_away_certificate
from tests.support.rows import each_row

NOW = 1_800_000_000
PATH = "/3/device/" + "ab" * 32


@dataclass(frozen=True, slots=True)
class Asking:
    service: ApnsService
    client: Http2Client
    clock: ManualClock

    def bearer(self, *, key: ECC.EccKey | None = None, kid: str = "", iss: str = "", iat: int = 0) -> str:
        header = {"kid": kid or self.service.key_id}
        claims: dict[str, str | int] = {"iss": iss or self.service.team_id, "iat": iat or NOW}
        return "bearer " + es256(header, claims, key or ECC.import_key(self.service.key))

    async def reason(
        self, body: bytes = b"{}", method: str = "POST", path: str = PATH, **changes: str | None
    ) -> str | None:
        """What it says to a request that is sound but for the changes; None is a success."""
        fields = {
            "authorization": self.bearer(),
            "apns-topic": self.service.topic,
            "apns-push-type": "alert",
            **{name.replace("_", "-"): value for name, value in changes.items()},
        }
        pseudo = [(":method", method), (":scheme", "https"), (":authority", "a.example"), (":path", path)]
        told = [(name, value) for name, value in fields.items() if value is not None]
        answer = await self.client.request([*pseudo, *told], body)
        return None if answer.status == 200 else str(orjson.loads(answer.body)["reason"])


@pytest.fixture
async def asking(tmp_path: Path) -> AsyncIterator[Asking]:
    certificate = throw_away_certificate(tmp_path)
    clock = ManualClock()
    async with running_apns_service(certificate.server, clock) as service:
        tls = client_tls(str(certificate.ca_file))
        async with Http2Client("127.0.0.1", service.port, tls, 2.0) as client:
            yield Asking(service, client, clock)


async def test_a_sound_request_is_taken(asking: Asking) -> None:
    assert await asking.reason() is None


@each_row(
    ("changes", "reason"),
    [
        ({"authorization": None}, "MissingProviderToken"),
        ({"authorization": "basic x"}, "MissingProviderToken"),
        ({"authorization": "bearer x.y.z"}, "InvalidProviderToken"),
        ({"method": "GET"}, "MethodNotAllowed"),
        ({"path": "/3/devices/x"}, "BadPath"),
        ({"path": "/3/device/"}, "MissingDeviceToken"),
        ({"path": "/3/device/xyz"}, "BadDeviceToken"),
        ({"apns_topic": None}, "MissingTopic"),
        ({"apns_topic": "com.example.other"}, "TopicDisallowed"),
        ({"apns_collapse_id": "x" * 65}, "BadCollapseId"),
        ({"apns_expiration": "tomorrow"}, "BadExpirationDate"),
        ({"apns_priority": "11"}, "BadPriority"),
        ({"apns_push_type": None}, "InvalidPushType"),
        ({"apns_id": "message-1"}, "BadMessageId"),
        ({"body": b""}, "PayloadEmpty"),
        ({"body": b"x" * 4_097}, "PayloadTooLarge"),
    ],
)
async def test_fake_apns_refuses_what_the_real_one_refuses(
    asking: Asking, changes: dict[str, str | None], reason: str
) -> None:
    assert await asking.reason(**changes) == reason  # type: ignore[arg-type]
    assert asking.service.received == []


async def test_a_provider_token_must_be_the_accounts_own(asking: Asking) -> None:
    for bearer in (
        asking.bearer(key=ECC.generate(curve="P-256")),
        asking.bearer(kid="XXXXXXXXXX"),
        asking.bearer(iss="XXXXXXXXXX"),
        asking.bearer(iat=NOW + 61),
    ):
        assert await asking.reason(authorization=bearer) == "InvalidProviderToken"


async def test_a_provider_token_serves_for_an_hour(asking: Asking) -> None:
    bearer = asking.bearer()
    assert await asking.reason(authorization=bearer) is None
    asking.clock.advance(3_600)
    assert await asking.reason(authorization=bearer) is None
    asking.clock.advance(1)

    assert await asking.reason(authorization=bearer) == "ExpiredProviderToken"


async def test_another_provider_token_within_twenty_minutes_is_one_too_many(asking: Asking) -> None:
    first = asking.bearer()
    await asking.reason(authorization=first)
    asking.clock.advance(1_199)

    second = asking.bearer(iat=NOW + 1_199)
    assert await asking.reason(authorization=second) == "TooManyProviderTokenUpdates"
    assert await asking.reason(authorization=first) is None
    asking.clock.advance(1)
    assert await asking.reason(authorization=second) is None
