"""The local push services refuse what the real ones refuse: what they take is what those would take."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from secrets import token_bytes
from typing import Any

import aiohttp
import orjson
import pytest
from Crypto.PublicKey import ECC, RSA

from bridge_server.kernel import base64url
from bridge_server.push.keys import VapidIdentity, es256, rs256
from bridge_server.push.providers.http2 import Http2Client, client_tls
from tests.push.providers import KEYS, SUBJECT
from tests.support.apns_service import ApnsService, running_apns_service
from tests.support.clock import ManualClock
from tests.support.credentials import throw_away_certificate
from tests.support.fcm_service import GRANT_TYPE, SCOPE, FcmService, running_fcm_service
from tests.support.rows import each_row
from tests.support.webpush_service import Browser, WebPushService, web_push_service

NOW = 1_800_000_000


async def post(url: str, **request: Any) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.post(url, **request) as response:
        return response.status, await response.text()


# APNs.


@dataclass(frozen=True, slots=True)
class Asking:
    """APNs, and a client that knows the account's key."""

    service: ApnsService
    client: Http2Client
    clock: ManualClock

    def bearer(self, *, key: ECC.EccKey | None = None, kid: str = "", iss: str = "", iat: int = 0) -> str:
        header = {"kid": kid or self.service.key_id}
        claims: dict[str, str | int] = {"iss": iss or self.service.team_id, "iat": iat or NOW}
        return "bearer " + es256(header, claims, key or ECC.import_key(self.service.key))

    async def reason(
        self,
        body: bytes = b"{}",
        method: str = "POST",
        path: str = f"/3/device/{'ab' * 32}",
        **changes: str | None,
    ) -> str | None:
        """The refusal of a request that is sound but for the changes; None is a success."""
        fields = {
            "authorization": self.bearer(),
            "apns-topic": self.service.topic,
            "apns-push-type": "alert",
            **{name.replace("_", "-"): value for name, value in changes.items()},
        }
        pseudo = [(":method", method), (":scheme", "https"), (":authority", "a.example"), (":path", path)]
        sent = [(name, value) for name, value in fields.items() if value is not None]
        answer = await self.client.request([*pseudo, *sent], body)
        return None if answer.status == 200 else str(orjson.loads(answer.body)["reason"])


@pytest.fixture
async def asking(tmp_path: Path) -> AsyncIterator[Asking]:
    certificate = throw_away_certificate(tmp_path)
    clock = ManualClock()
    async with running_apns_service(certificate.server, clock) as service:
        tls = client_tls(str(certificate.ca_file))
        async with Http2Client("127.0.0.1", service.port, tls, 2.0) as client:
            yield Asking(service, client, clock)


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
        ({}, None),
    ],
)
async def test_apns_refuses_faulty_requests(
    asking: Asking, changes: dict[str, Any], reason: str | None
) -> None:
    assert await asking.reason(**changes) == reason

    assert len(asking.service.received) == (reason is None)


async def test_a_provider_token_must_be_the_accounts_own(asking: Asking) -> None:
    for bearer in (
        asking.bearer(key=ECC.generate(curve="P-256")),
        asking.bearer(kid="XXXXXXXXXX"),
        asking.bearer(iss="XXXXXXXXXX"),
        asking.bearer(iat=NOW + 61),
    ):
        assert await asking.reason(authorization=bearer) == "InvalidProviderToken"


async def test_a_provider_token_serves_for_an_hour_and_is_not_replaced_within_twenty_minutes(
    asking: Asking,
) -> None:
    first, second = asking.bearer(), asking.bearer(iat=NOW + 1_199)
    reasons = [await asking.reason(authorization=first)]
    for seconds, bearer in ((1_199, second), (1, first), (0, second), (2_400, first), (1, first)):
        asking.clock.advance(seconds)
        reasons.append(await asking.reason(authorization=bearer))

    assert reasons == [None, "TooManyProviderTokenUpdates", None, None, None, "ExpiredProviderToken"]


# FCM.


@pytest.fixture
async def fcm_service() -> AsyncIterator[FcmService]:
    async with running_fcm_service(ManualClock()) as service:
        yield service


def assertion(service: FcmService, key: RSA.RsaKey | None = None, **changes: Any) -> str:
    account = service.service_account()
    header = {"kid": changes.pop("kid", account["private_key_id"])}
    usual = {"iss": account["client_email"], "scope": SCOPE, "aud": service.token_endpoint}
    claims = {**usual, "iat": NOW, "exp": NOW + 3_600, **changes}
    return rs256(header, claims, key or RSA.import_key(account["private_key"]))


async def granted(
    service: FcmService, token: str, grant_type: str = GRANT_TYPE
) -> tuple[int, dict[str, Any]]:
    status, text = await post(service.token_endpoint, data={"grant_type": grant_type, "assertion": token})
    return status, orjson.loads(text)


async def sent(service: FcmService, message: object, token: str) -> tuple[int, dict[str, Any]]:
    url = f"{service.endpoint}/v1/projects/{service.project_id}/messages:send"
    status, text = await post(
        url, json={"message": message}, headers={"Authorization": f"Bearer {token}"} if token else {}
    )
    return status, orjson.loads(text)


@each_row(
    "changes",
    [
        {"iss": "somebody@else.example"},
        {"scope": "https://www.googleapis.com/auth/drive"},
        {"aud": "https://oauth2.googleapis.com/token"},
        {"exp": NOW + 3_601},
        {"exp": NOW},
        {"iat": NOW + 61},
        {"kid": "another"},
        {"key": RSA.generate(1_024)},
    ],
)
async def test_a_faulty_assertion_gets_no_token(fcm_service: FcmService, changes: dict[str, Any]) -> None:
    status, document = await granted(fcm_service, assertion(fcm_service, **changes))

    assert (status, document["error"]) == (400, "invalid_grant")


async def test_a_sound_assertion_alone_gets_an_access_token(fcm_service: FcmService) -> None:
    sound = assertion(fcm_service)

    status, document = await granted(fcm_service, sound)

    assert (status, document["expires_in"], document["token_type"]) == (200, 3_600, "Bearer")
    for malformed in ("", "a.b", "a.b.c", "e30.e30.e30="):
        assert (await granted(fcm_service, malformed))[0] == 400
    assert (await granted(fcm_service, sound, "client_credentials"))[1]["error"] == "unsupported_grant_type"


@each_row(
    ("message", "field"),
    [
        ({"token": "x", "priority": "high"}, "message.priority"),
        ({"notification": {}}, "message"),
        ({"token": "x", "data": {"n": 5}}, "message.data[0].value"),
        ({"token": "x", "data": {"from": "a"}}, "message.data.from"),
        ({"token": "x", "data": {"google.c": "a"}}, "message.data.google.c"),
        ({"token": "x", "android": {"ttl": "1d"}}, "message.android.ttl"),
    ],
)
async def test_a_malformed_message_is_not_taken(fcm_service: FcmService, message: object, field: str) -> None:
    _, grant = await granted(fcm_service, assertion(fcm_service))

    status, document = await sent(fcm_service, message, grant["access_token"])

    assert (status, document["error"]["status"]) == (400, "INVALID_ARGUMENT")
    assert document["error"]["details"][0]["fieldViolations"][0]["field"] == field


async def test_a_message_has_an_access_token_and_at_most_four_kibibytes(fcm_service: FcmService) -> None:
    _, grant = await granted(fcm_service, assertion(fcm_service))
    token = grant["access_token"]

    statuses = [
        (await sent(fcm_service, {"token": "x", "data": {"a": "x" * size}}, token))[0]
        for size in (3_900, 4_100)
    ]
    status, document = await sent(fcm_service, {"token": "x"}, "")

    assert statuses == [200, 400]
    assert (status, document["error"]["status"]) == (401, "UNAUTHENTICATED")


# Web Push.

BODY = token_bytes(16) + (4_096).to_bytes(4, "big") + bytes([65]) + Browser().point + token_bytes(200)
DAY = 24 * 3_600


@pytest.fixture
async def service(clock: ManualClock) -> AsyncIterator[WebPushService]:
    async with web_push_service(clock) as service:
        yield service


async def deliver(
    service: WebPushService,
    changes: Mapping[str, str | None] | None = None,
    body: bytes = BODY,
    key: str | None = None,
) -> tuple[int, str]:
    """Post to a fresh subscription what is right but for the changes."""
    right = {
        "Authorization": VapidIdentity(KEYS.private_key, SUBJECT).authorization(service.origin, NOW * 1_000),
        "Content-Encoding": "aes128gcm",
        "TTL": "60",
    }
    headers = {name: text for name, text in {**right, **(changes or {})}.items() if text is not None}
    endpoint = orjson.loads(Browser().subscribe(service, key))["endpoint"]
    return await post(endpoint, data=body, headers=headers)


async def test_a_push_service_takes_a_valid_message(service: WebPushService) -> None:
    assert await deliver(service, key=KEYS.public_key) == (201, "")
    assert await deliver(service, {"Topic": "a" * 32, "Urgency": "very-low"}) == (201, "")


def signed(claims: Mapping[str, str | int]) -> str:
    key = ECC.generate(curve="P-256")
    point = key.public_key().export_key(format="raw")
    return f"vapid t={es256({'typ': 'JWT'}, claims, key)}, k={base64url.encode(point)}"


@each_row(
    ("changes", "status"),
    [
        ({"TTL": None}, 400),
        ({"TTL": "-1"}, 400),
        ({"TTL": "soon"}, 400),
        ({"Urgency": "urgent"}, 400),
        ({"Topic": "a" * 33}, 400),
        ({"Topic": "a.b"}, 400),
        ({"Content-Encoding": None}, 400),
        ({"Content-Encoding": "aesgcm"}, 400),
        ({"Authorization": None}, 401),
        ({"Authorization": ""}, 401),
        ({"Authorization": "Bearer x"}, 401),
        ({"Authorization": "vapid t=a.b.c"}, 401),
        ({"Authorization": "vapid t=a.b, k=c"}, 401),
    ],
)
async def test_headers_that_are_wrong_are_refused(
    service: WebPushService, changes: Mapping[str, str | None], status: int
) -> None:
    assert (await deliver(service, changes))[0] == status
    assert service.accepted == []


@each_row(
    ("body", "status"),
    [
        (BODY[:102], 400),
        (b"{}", 400),
        (BODY[:16] + (100).to_bytes(4, "big") + BODY[20:], 400),
        (BODY[:20] + bytes([33]) + BODY[21:], 400),
        (BODY[:103], 201),
        (BODY + bytes(4_096 - len(BODY)), 201),
        (BODY + bytes(4_097 - len(BODY)), 413),
    ],
)
async def test_bodies_are_looked_at(service: WebPushService, body: bytes, status: int) -> None:
    assert (await deliver(service, body=body))[0] == status


@each_row(
    ("changes", "taken"),
    [
        ({}, True),
        ({"exp": DAY}, True),
        ({"exp": DAY + 1}, False),
        ({"exp": 1}, True),
        ({"exp": 0}, False),
        ({"aud": "https://elsewhere.example.net"}, False),
        ({"sub": "push@example.org"}, False),
        ({"sub": "mailto:push@localhost"}, False),
        ({"sub": "https://example.org/contact"}, True),
    ],
)
async def test_claims_are_checked(
    service: WebPushService, changes: Mapping[str, str | int], taken: bool
) -> None:
    claims: dict[str, str | int] = {"aud": service.origin, "exp": 3_600, "sub": SUBJECT, **changes}
    claims["exp"] = NOW + int(claims["exp"])

    status, text = await deliver(service, {"Authorization": signed(claims)})

    assert (status == 201) is taken
    assert taken or (status == 401 and text.startswith("invalid JWT"))


async def test_a_message_is_signed_by_the_key_of_its_subscription(service: WebPushService) -> None:
    right = VapidIdentity(KEYS.private_key, SUBJECT).authorization(service.origin, NOW * 1_000)
    forged = right.split(", k=")[0] + f", k={Browser().p256dh}"

    status, text = await deliver(service, key=Browser().p256dh)

    assert status == 403
    assert "do not correspond" in text
    assert (await deliver(service, {"Authorization": forged}))[0] == 401


async def test_messages_wait_as_long_as_they_live(service: WebPushService, clock: ManualClock) -> None:
    await deliver(service, {"TTL": "60"})

    clock.advance(59)
    assert len(service.waiting()) == 1
    clock.advance(1)
    assert service.waiting() == []
