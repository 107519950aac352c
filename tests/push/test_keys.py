"""Keys for push services and the tokens that they sign, checked by two other implementations."""

from collections.abc import Callable
from secrets import token_bytes
from typing import Any

import pytest
from Crypto.PublicKey import ECC, RSA
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from bridge_server.kernel import base64url
from bridge_server.push.keys import (
    VapidIdentity,
    checked_subject,
    es256,
    new_vapid_keys,
    raw_public_key,
    read_private_key,
    rs256,
)
from tests.push.providers import KEYS, SUBJECT
from tests.support import credentials, jwt_check
from tests.support.browser import Browser, from_base64url
from tests.support.fcm_service import rsa_key
from tests.support.rows import each_row

RSA_KEY = rsa_key()
EC_KEY = ECC.generate(curve="P-256")
NOW_MS = 1_800_000_000_000
HOUR_MS = 3_600_000
SERVICE = "https://push.example.net"

Key = RSA.RsaKey | ECC.EccKey
Verified = Callable[[str, Key], tuple[dict[str, Any], dict[str, Any]]]


def by_service(token: str, key: Key) -> tuple[dict[str, Any], dict[str, Any]]:
    return credentials.verified(token, key.public_key())


def by_another_library(token: str, key: Key) -> tuple[dict[str, Any], dict[str, Any]]:
    exported = key.public_key().export_key(format="PEM")
    public = load_pem_public_key(exported if isinstance(exported, bytes) else exported.encode())
    assert isinstance(public, jwt_check.PublicKey)
    return jwt_check.verified(token, public)


by_both = each_row("verified", [by_service, by_another_library])


@by_both
def test_rs256_is_verified(verified: Verified) -> None:
    token = rs256({"kid": "k"}, {"iss": "bücher", "iat": 5}, RSA_KEY)

    assert verified(token, RSA_KEY) == ({"alg": "RS256", "kid": "k"}, {"iss": "bücher", "iat": 5})


@by_both
def test_es256_is_verified_and_deterministic(verified: Verified) -> None:
    for number in range(20):  # r and s begin with a zero byte now and then
        token = es256({"kid": "k"}, {"iss": "i", "iat": number}, EC_KEY)

        assert verified(token, EC_KEY) == ({"alg": "ES256", "kid": "k"}, {"iss": "i", "iat": number})
        assert es256({"kid": "k"}, {"iss": "i", "iat": number}, EC_KEY) == token


@by_both
@each_row("part", [0, 1, 2])
def test_altered_token_is_not_verified(verified: Verified, part: int) -> None:
    for token, key in ((rs256({}, {}, RSA_KEY), RSA_KEY), (es256({}, {}, EC_KEY), EC_KEY)):
        parts = token.split(".")
        parts[part] = base64url.encode(base64url.decode(parts[part])[:-1] + b"?")

        with pytest.raises(ValueError, match="does not fit"):
            verified(".".join(parts), key)


@by_both
def test_malformed_token_is_not_verified(verified: Verified) -> None:
    header, claims, signature = es256({}, {}, EC_KEY).split(".")

    for text in ("", "a.b", f"{header}.{claims}.{signature}=", f"{header}.{claims}.{signature[:-4]}"):
        with pytest.raises(ValueError, match=r"three parts|padding|32 bytes each|does not fit"):
            verified(text, EC_KEY)
    with pytest.raises(ValueError, match="alg must be ES256"):
        verified(es256({"alg": "none"}, {}, EC_KEY), EC_KEY)


# VAPID.


def test_a_new_pair_is_ready_to_paste_and_shows_no_private_key() -> None:
    keys = new_vapid_keys(token_bytes)

    point, scalar = from_base64url(keys.public_key), from_base64url(keys.private_key)
    assert (len(keys.public_key), len(keys.private_key)) == (87, 43)
    assert (len(point), point[0], len(scalar)) == (65, 4, 32)
    assert Browser(int.from_bytes(scalar, "big")).point == point
    assert new_vapid_keys(token_bytes) != keys
    assert keys.private_key not in repr(keys)
    assert keys.public_key in repr(keys)


@each_row("padding", ["", "="])
def test_the_private_half_is_enough_and_padding_does_not_matter(padding: str) -> None:
    public = raw_public_key(read_private_key(KEYS.private_key + padding))

    assert base64url.encode(public) == KEYS.public_key


@each_row(
    ("text", "reason"),
    [
        ("", "must hold 32 bytes, and holds 0"),
        ("a+b/", "is not base64url"),
        ("abcde", "its length cannot be right"),
        (base64url.encode(bytes(31)), "must hold 32 bytes, and holds 31"),
        (base64url.encode(bytes(32)), "not a scalar"),
        (base64url.encode(b"\xff" * 32), "not a scalar"),
        (Browser().p256dh, r"holds 65 \(the public key\?\)"),
    ],
)
def test_malformed_private_key_is_refused_without_quoting_it(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as caught:
        read_private_key(text)

    assert not text or text not in str(caught.value)


def identity() -> VapidIdentity:
    return VapidIdentity(KEYS.private_key, SUBJECT)


def claims(authorization: str) -> dict[str, Any]:
    """The claims of a header whose signature must hold."""
    token, key = authorization.removeprefix("vapid t=").split(", k=")
    public_key = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), from_base64url(key))
    header, fields = jwt_check.verified(token, public_key)
    assert header == {"typ": "JWT", "alg": "ES256"}
    return fields


def test_the_token_names_service_end_and_subject() -> None:
    authorization = identity().authorization(SERVICE, NOW_MS)

    assert claims(authorization) == {"aud": SERVICE, "exp": NOW_MS // 1_000 + 12 * 3_600, "sub": SUBJECT}
    assert authorization.endswith(f", k={KEYS.public_key}")


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


FORM = "VAPID subject must be mailto: and an address, or an https URL"
OUTSIDE = "reached from outside"


@each_row(
    ("subject", "reason"),
    [
        ("", FORM),
        ("push@example.org", FORM),
        ("mailto:", FORM),
        ("mailto:push", FORM),
        ("mailto: a@example.org", FORM),
        ("http://example.org", FORM),
        ("https://", FORM),
        ("mailto:push@localhost", OUTSIDE),
        ("mailto:push@bridge.localhost", OUTSIDE),
        ("https://bridge", OUTSIDE),
        ("https://bridge.invalid/", OUTSIDE),
        ("mailto:a@b.TEST", OUTSIDE),
    ],
)
def test_a_subject_that_apple_would_refuse_is_refused(subject: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        checked_subject(subject)
