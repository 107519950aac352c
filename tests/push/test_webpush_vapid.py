"""The token that identifies this server, checked with another library's signatures."""

from typing import Any

import orjson
import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256

from bridge_server.push.keys import VapidIdentity, checked_subject
from tests.push.webpush import KEYS, SUBJECT
from tests.support.browser import Browser, from_base64url
from tests.support.rows import each_row

NOW_MS = 1_800_000_000_000
HOUR_MS = 3_600_000
SERVICE = "https://push.example.net"


def identity() -> VapidIdentity:
    return VapidIdentity(KEYS.private_key, SUBJECT)


def claims(authorization: str) -> dict[str, Any]:
    """The claims of a header whose signature must hold."""
    token, key = authorization.removeprefix("vapid t=").split(", k=")
    header, body, signature = token.split(".")
    raw = from_base64url(signature)
    public_key = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), from_base64url(key))
    r, s = int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big")
    public_key.verify(encode_dss_signature(r, s), f"{header}.{body}".encode(), ec.ECDSA(SHA256()))
    assert len(raw) == 64
    assert orjson.loads(from_base64url(header)) == {"typ": "JWT", "alg": "ES256"}
    fields: dict[str, Any] = orjson.loads(from_base64url(body))
    return fields


def test_the_token_names_service_end_and_subject() -> None:
    authorization = identity().authorization(SERVICE, NOW_MS)

    assert claims(authorization) == {"aud": SERVICE, "exp": NOW_MS // 1_000 + 12 * 3_600, "sub": SUBJECT}
    assert authorization.endswith(f", k={KEYS.public_key}")


def test_another_keys_signature_would_be_noticed() -> None:
    token = identity().authorization(SERVICE, NOW_MS).split(", k=")[0]

    with pytest.raises(InvalidSignature):
        claims(f"{token}, k={Browser().p256dh}")


def test_a_token_is_kept_for_eleven_hours_and_then_renewed() -> None:
    vapid = identity()
    first = vapid.authorization(SERVICE, NOW_MS)

    assert vapid.authorization(SERVICE, NOW_MS + 11 * HOUR_MS - 1) == first
    renewed = vapid.authorization(SERVICE, NOW_MS + 11 * HOUR_MS)

    assert claims(renewed)["exp"] == NOW_MS // 1_000 + 23 * 3_600


def test_a_clock_that_is_set_back_makes_a_token_that_does_not_last_too_long() -> None:
    vapid = identity()
    vapid.authorization(SERVICE, NOW_MS)

    earlier = vapid.authorization(SERVICE, NOW_MS - 24 * HOUR_MS)

    assert claims(earlier)["exp"] == NOW_MS // 1_000 - 12 * 3_600


def test_every_service_gets_a_token_of_its_own() -> None:
    vapid = identity()

    audiences = [f"https://push-{number}.example.net" for number in range(300)]
    first = {audience: vapid.authorization(audience, NOW_MS) for audience in audiences}

    assert [claims(first[audience])["aud"] for audience in audiences] == audiences
    later_ms = NOW_MS + 1_000
    assert vapid.authorization(audiences[-1], later_ms) == first[audiences[-1]]
    assert vapid.authorization(audiences[0], later_ms) != first[audiences[0]]  # no longer remembered


@each_row(
    "subject", ["mailto:push@example.org", "https://example.org", "https://example.org/contact?about=push"]
)
def test_a_subject_that_can_be_reached_is_taken(subject: str) -> None:
    assert checked_subject(subject) == subject


@each_row(
    "subject",
    [
        "",
        "push@example.org",
        "mailto:",
        "mailto:push",
        "mailto: a@example.org",
        "http://example.org",
        "https://",
    ],
)
def test_a_subject_of_another_form_is_refused(subject: str) -> None:
    with pytest.raises(ValueError, match="VAPID subject must be mailto: and an address, or an https URL"):
        checked_subject(subject)


@each_row(
    "subject",
    [
        "mailto:push@localhost",
        "mailto:push@bridge.localhost",
        "https://bridge",
        "https://bridge.invalid/",
        "mailto:a@b.TEST",
    ],
)
def test_a_subject_that_apple_would_refuse_is_refused(subject: str) -> None:
    with pytest.raises(ValueError, match="reached from outside"):
        checked_subject(subject)
