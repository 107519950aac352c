"""The local push service itself: it refuses what real ones refuse."""

from collections.abc import AsyncIterator, Mapping
from secrets import token_bytes

import aiohttp
import orjson
import pytest
from Crypto.PublicKey import ECC

from bridge_server.push.keys import VapidIdentity, es256
from tests.push.webpush import KEYS, SUBJECT
from tests.support.browser import Browser, base64url
from tests.support.clock import ManualClock
from tests.support.rows import each_row
from tests.support.webpush_service import WebPushService, web_push_service

BODY = token_bytes(16) + (4_096).to_bytes(4, "big") + bytes([65]) + Browser().point + token_bytes(200)
DAY = 24 * 3_600


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def service(clock: ManualClock) -> AsyncIterator[WebPushService]:
    async with web_push_service(clock) as service:
        yield service


class Sender:
    """Posts to a fresh subscription what is right but for what a test changes."""

    def __init__(self, service: WebPushService, clock: ManualClock, key: str | None = None) -> None:
        self._service = service
        self._clock = clock
        self._endpoint = orjson.loads(Browser().subscribe(service, key))["endpoint"]

    async def post(
        self, changes: Mapping[str, str | None] | None = None, body: bytes = BODY
    ) -> tuple[int, str]:
        identity = VapidIdentity(KEYS.private_key, SUBJECT)
        right = {
            "Authorization": identity.authorization(self._service.origin, self._clock.now_ms()),
            "Content-Encoding": "aes128gcm",
            "TTL": "60",
        }
        headers = {name: text for name, text in {**right, **(changes or {})}.items() if text is not None}
        async with (
            aiohttp.ClientSession() as session,
            session.post(self._endpoint, data=body, headers=headers) as response,
        ):
            return response.status, await response.text()


async def test_fake_push_service_takes_a_valid_message(service: WebPushService, clock: ManualClock) -> None:
    assert await Sender(service, clock, KEYS.public_key).post() == (201, "")
    assert await Sender(service, clock).post({"Topic": "a" * 32, "Urgency": "very-low"}) == (201, "")


@each_row(
    "changes",
    [
        {"TTL": None},
        {"TTL": "-1"},
        {"TTL": "soon"},
        {"Urgency": "urgent"},
        {"Topic": "a" * 33},
        {"Topic": "a.b"},
        {"Content-Encoding": None},
        {"Content-Encoding": "aesgcm"},
    ],
)
async def test_headers_that_are_wrong_are_a_400(
    service: WebPushService, clock: ManualClock, changes: Mapping[str, str | None]
) -> None:
    assert (await Sender(service, clock).post(changes))[0] == 400
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
async def test_bodies_are_looked_at(
    service: WebPushService, clock: ManualClock, body: bytes, status: int
) -> None:
    assert (await Sender(service, clock).post(body=body))[0] == status


async def test_another_key_than_the_subscriptions_is_a_403(
    service: WebPushService, clock: ManualClock
) -> None:
    status, text = await Sender(service, clock, Browser().p256dh).post()

    assert status == 403
    assert "do not correspond" in text


@each_row("authorization", [None, "", "Bearer x", "vapid t=a.b.c", "vapid t=a.b, k=c"])
async def test_fake_push_service_answers_401_without_a_signature(
    service: WebPushService, clock: ManualClock, authorization: str | None
) -> None:
    assert (await Sender(service, clock).post({"Authorization": authorization}))[0] == 401


def signed(claims: Mapping[str, str | int], header: Mapping[str, str] | None = None) -> str:
    key = ECC.generate(curve="P-256")
    point = key.public_key().export_key(format="raw")
    return f"vapid t={es256(header or {'typ': 'JWT'}, claims, key)}, k={base64url(point)}"


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
async def test_the_claims_are_checked(
    service: WebPushService, clock: ManualClock, changes: Mapping[str, str | int], taken: bool
) -> None:
    claims: dict[str, str | int] = {"aud": service.origin, "exp": 3_600, "sub": SUBJECT, **changes}
    claims["exp"] = clock.now_ms() // 1_000 + int(claims["exp"])

    status, text = await Sender(service, clock).post({"Authorization": signed(claims)})

    assert (status == 201) is taken
    assert taken or (status == 401 and text.startswith("invalid JWT"))


async def test_a_signature_by_another_key_is_a_401(service: WebPushService, clock: ManualClock) -> None:
    right = VapidIdentity(KEYS.private_key, SUBJECT).authorization(service.origin, clock.now_ms())
    forged = right.split(", k=")[0] + f", k={Browser().p256dh}"

    assert (await Sender(service, clock).post({"Authorization": forged}))[0] == 401


async def test_messages_wait_as_long_as_they_live(service: WebPushService, clock: ManualClock) -> None:
    await Sender(service, clock).post({"TTL": "60"})

    clock.advance(59)
    assert len(service.waiting()) == 1
    clock.advance(1)
    assert service.waiting() == []
