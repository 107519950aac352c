"""Tokens of push services: fetched from Google, or signed here and checked by another implementation.

White-box: a token's lifetime and its text in a log are asked of the object that keeps it.
"""

import asyncio
from secrets import token_bytes
from typing import Any

import pytest
import structlog
from aiohttp import web
from Crypto.PublicKey import ECC, RSA
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from bridge_server.kernel import base64url
from bridge_server.outbox.guarded_client import Outcome, Verdict
from bridge_server.push.keys import (
    VapidIdentity,
    checked_subject,
    es256,
    new_vapid_keys,
    raw_public_key,
    read_private_key,
    rs256,
)
from tests.push.providers import KEYS, SUBJECT, Fcm, opened_fcm
from tests.support.clock import PassTime
from tests.support.credentials import checked
from tests.support.fcm_service import FcmService, answered, hang, refusal, reset, rsa_key, unauthenticated
from tests.support.push_services import FCM_TOKEN
from tests.support.rows import each_row
from tests.support.waiting import eventually
from tests.support.webpush_service import Browser, from_base64url

HOUR = 3_600


def verified(token: str, key: RSA.RsaKey | ECC.EccKey) -> tuple[dict[str, Any], dict[str, Any]]:
    """The header and the claims of a token, verified with another library than the one that signs."""
    exported = key.public_key().export_key(format="PEM")
    public = load_pem_public_key(exported if isinstance(exported, bytes) else exported.encode())

    def verify(text: bytes, signature: bytes) -> None:
        if isinstance(public, rsa.RSAPublicKey):
            public.verify(signature, text, padding.PKCS1v15(), SHA256())
        else:
            assert isinstance(public, ec.EllipticCurvePublicKey)
            assert len(signature) == 64  # r and s, 32 bytes each
            numbers = int.from_bytes(signature[:32]), int.from_bytes(signature[32:])
            public.verify(encode_dss_signature(*numbers), text, ec.ECDSA(SHA256()))

    return checked(token, "RS256" if isinstance(key, RSA.RsaKey) else "ES256", verify)


async def push_many(fcm: Fcm, count: int) -> set[Verdict]:
    outcomes = await asyncio.gather(*(fcm.push(f"{FCM_TOKEN}-{number}") for number in range(count)))
    return {outcome.verdict for outcome in outcomes}


async def until_asked(fcm: Fcm, count: int) -> None:
    """Return once the service has been asked so often for a token, whatever it answers."""
    await eventually(lambda: fcm.service.token_requests >= count)


@pytest.mark.parametrize("before", ["it was never asked", "its token has expired", "its token was revoked"])
async def test_a_hundred_messages_without_an_access_token_fetch_one(before: str, fcm: Fcm) -> None:
    if before != "it was never asked":
        await fcm.push()
    if before == "its token has expired":
        fcm.clock.advance(HOUR)
    if before == "its token was revoked":
        fcm.service.revoke_tokens()

    assert await push_many(fcm, 100) == {Verdict.DELIVERED}
    assert fcm.service.token_requests == (1 if before == "it was never asked" else 2)
    assert before == "its token was revoked" or fcm.service.unauthenticated_sends == 0


async def test_messages_that_are_refused_late_use_the_token_that_others_have_fetched(fcm: Fcm) -> None:
    asked, release = asyncio.Event(), asyncio.Event()

    async def refused_late(_: FcmService, __: web.Request) -> web.StreamResponse:
        asked.set()
        await release.wait()
        return unauthenticated()

    fcm.service.script.append(refused_late)
    late = asyncio.create_task(fcm.push())
    await asked.wait()
    fcm.service.revoke_tokens()
    await fcm.push()
    release.set()

    assert (await late).verdict is Verdict.DELIVERED
    assert fcm.service.token_requests == 2


@pytest.mark.parametrize(("lifetime", "renewed_after"), [(HOUR, HOUR - 300), (60, 30)])
async def test_access_token_is_renewed_without_a_wait(fcm: Fcm, lifetime: int, renewed_after: int) -> None:
    fcm.service.token_lifetime_seconds = lifetime
    await fcm.push()
    fcm.clock.advance(renewed_after - 1)
    await fcm.push()
    assert fcm.service.token_requests == 1
    fcm.clock.advance(1)
    fcm.service.token_script.append(hang)

    assert (await fcm.push()).verdict is Verdict.DELIVERED
    assert fcm.service.received[-1].access_token == "ya29.local-1"
    await until_asked(fcm, 2)


async def test_a_renewal_that_fails_early_harms_nothing_and_is_tried_again_after_a_pause(fcm: Fcm) -> None:
    await fcm.push()
    fcm.clock.advance(HOUR - 300)
    fcm.service.token_script.append(answered(503))
    await fcm.push()
    await until_asked(fcm, 2)

    for _ in range(5):
        assert (await fcm.push()).verdict is Verdict.DELIVERED
    assert (fcm.service.token_requests, fcm.service.tokens_issued) == (2, 1)
    fcm.clock.advance(10)

    async def is_used() -> bool:
        await fcm.push()
        return fcm.service.received[-1].access_token == "ya29.local-2"

    await eventually(is_used)
    assert await is_used()
    assert fcm.service.token_requests == 3


@each_row("lifetime", [None, "3600", -5, 10**12])
async def test_a_lifetime_that_is_not_clear_counts_as_an_hour(lifetime: object) -> None:
    async with opened_fcm() as fcm:
        document = {"access_token": "ya29.unknown", "expires_in": lifetime}
        fcm.service.token_script.append(answered(200, document))
        tokens = fcm.provider._access_tokens
        assert tokens is not None

        token = await tokens.current()

        assert not isinstance(token, Outcome)
        assert token.expires_at_us - fcm.clock.elapsed_us() == HOUR * 1_000_000


async def test_access_token_refused_twice_blocks_and_another_services_key_costs_none(fcm: Fcm) -> None:
    fcm.service.otherwise = refusal("THIRD_PARTY_AUTH_ERROR")
    await fcm.push()
    assert (fcm.service.token_requests, len(fcm.service.received)) == (1, 1)

    fcm.service.revoke_tokens()
    document = {"access_token": "ya29.not-known", "expires_in": 3_600}
    fcm.service.token_script.extend([answered(200, document), answered(400, {"error": "invalid_grant"})])
    assert await fcm.push() == Outcome(Verdict.BLOCKED, "FCM answered 401 UNAUTHENTICATED", 401)
    assert fcm.service.token_requests == 2
    assert (await fcm.push()).reason.startswith("Google refuses the service account")


async def test_a_token_endpoint_that_refuses_the_account_blocks_and_trouble_is_a_failure(fcm: Fcm) -> None:
    for error in ("invalid_grant", "deleted_client"):
        fcm.service.token_script.append(answered(400, {"error": error, "error_description": "hush"}))
        outcome = await fcm.push()
        assert (outcome.verdict, outcome.status) == (Verdict.BLOCKED, 400)
        assert outcome.reason.startswith(f"Google refuses the service account: {error}")
        assert "hush" not in outcome.reason

    for status in (200, 302, 400, 404, 500):
        document = {"error": "what", "access_token": "ä\n"}
        fcm.service.token_script.append(answered(status, document, Retry_After="77"))
        outcome = await fcm.push()
        assert outcome.verdict is Verdict.FAILED
        assert outcome.reason == f"no access token: the token endpoint answered {status}"
        assert (outcome.retry_after_seconds, outcome.about_lane) == (77.0 if status == 500 else None, True)

    fcm.service.token_script.append(reset)
    outcome = await fcm.push()
    assert outcome.verdict is Verdict.FAILED
    assert outcome.reason.startswith("no access token: ")
    assert fcm.service.received == []
    assert (await fcm.push()).verdict is Verdict.DELIVERED


@each_row(
    "wrong",
    [
        {"private_key": RSA.generate(1_024)},
        {"private_key_id": "another"},
        {"client_email": "somebody@else.example"},
        {"token_uri": "https://oauth2.googleapis.com/token"},
        {"wrong_by_seconds": 86_400},
    ],
)
async def test_an_assertion_that_google_does_not_take_blocks(wrong: dict[str, Any]) -> None:
    async with opened_fcm(**wrong) as fcm:
        outcome = await fcm.push()
        assert outcome.verdict is Verdict.BLOCKED
        assert "invalid_grant (the key was deleted" in outcome.reason
        assert "this machine's clock is wrong" in outcome.reason


async def test_a_token_endpoint_that_hangs_is_given_up_for_all_waiters(pass_time: PassTime, fcm: Fcm) -> None:
    fcm.service.token_script.append(hang)
    pushing = asyncio.create_task(push_many(fcm, 20))
    await until_asked(fcm, 1)
    await pass_time(30)
    assert await pushing == {Verdict.FAILED}
    assert fcm.service.token_requests == 1


async def test_a_caller_that_gives_up_does_not_take_the_renewal_away_from_others(fcm: Fcm) -> None:
    asked, release = asyncio.Event(), asyncio.Event()

    async def slow(service: FcmService, request: web.Request) -> web.StreamResponse:
        asked.set()
        await release.wait()
        return await service.grant(request)

    fcm.service.token_script.append(slow)
    impatient, patient = (asyncio.create_task(fcm.push()) for _ in range(2))
    await asked.wait()
    impatient.cancel()
    release.set()

    assert (await patient).verdict is Verdict.DELIVERED
    with pytest.raises(asyncio.CancelledError):
        await impatient


async def test_closing_gives_up_a_renewal_that_is_under_way(fcm: Fcm) -> None:
    fcm.service.token_script.append(hang)
    waiting = asyncio.create_task(fcm.push())
    await until_asked(fcm, 1)
    await fcm.provider.__aexit__(None, None, None)
    assert await waiting == Outcome(Verdict.FAILED, "the provider was closed")


async def test_no_credential_shows_in_logs_reprs_or_outcomes() -> None:
    with structlog.testing.capture_logs() as logs:
        async with opened_fcm() as fcm:
            fcm.service.token_script.append(answered(400, {"error": "invalid_grant"}))
            blocked = await fcm.push()
            await fcm.push()
            tokens = fcm.provider._access_tokens
            assert tokens is not None
            shown = f"{logs} {blocked} {tokens._token!r} {fcm.provider._settings!r} {fcm.provider!r}"

    assert [entry["event"] for entry in logs] == ["access_token_refused"]
    for secret in ("ya29.", "PRIVATE KEY", "private_key=", FCM_TOKEN):
        assert secret not in shown


NOW_MS = 1_800_000_000_000
SERVICE = "https://push.example.net"


def test_rs256_is_verified_and_es256_too_and_it_is_deterministic() -> None:
    google_key, apple_key = rsa_key(), ECC.generate(curve="P-256")
    token = rs256({"kid": "k"}, {"iss": "bücher", "iat": 5}, google_key)

    assert verified(token, google_key) == ({"alg": "RS256", "kid": "k"}, {"iss": "bücher", "iat": 5})
    for number in range(20):  # r and s begin with a zero byte now and then
        token = es256({"kid": "k"}, {"iss": "i", "iat": number}, apple_key)
        assert verified(token, apple_key) == ({"alg": "ES256", "kid": "k"}, {"iss": "i", "iat": number})
        assert es256({"kid": "k"}, {"iss": "i", "iat": number}, apple_key) == token


# VAPID.


def test_a_new_pair_is_ready_to_paste_and_shows_no_private_key() -> None:
    keys = new_vapid_keys(token_bytes)

    point, scalar = from_base64url(keys.public_key), from_base64url(keys.private_key)
    assert (len(keys.public_key), len(keys.private_key)) == (87, 43)
    assert (len(point), point[0], len(scalar)) == (65, 4, 32)
    assert Browser(int.from_bytes(scalar, "big")).point == point
    assert new_vapid_keys(token_bytes) != keys
    for ending in ("", "="):
        assert raw_public_key(read_private_key(keys.private_key + ending)) == point
    assert keys.private_key not in repr(keys)
    assert keys.public_key in repr(keys)


@each_row(
    ("text", "reason"),
    [
        ("", "must hold 32 bytes, and holds 0"),
        ("a+b/", "is not base64url"),
        ("abcde", "its length cannot be right"),
        (base64url.encode(bytes(32)), "not a scalar"),
        (base64url.encode(b"\xff" * 32), "not a scalar"),
        (Browser().p256dh, r"holds 65 \(the public key\?\)"),
    ],
)
def test_malformed_private_key_is_refused_without_quoting_it(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as caught:
        read_private_key(text)
    assert not text or text not in str(caught.value)


def claims(authorization: str) -> dict[str, Any]:
    """The claims of a header whose signature must hold."""
    token, key = authorization.removeprefix("vapid t=").split(", k=")
    header, fields = verified(token, ECC.import_key(from_base64url(key), curve_name="P-256"))
    assert header == {"typ": "JWT", "alg": "ES256"}
    return fields


def test_each_service_has_a_token_that_names_it_the_end_and_the_subject() -> None:
    vapid = VapidIdentity(KEYS.private_key, SUBJECT)
    for service, days in ((SERVICE, 0), ("https://push.example.org", 0), (SERVICE, 0), (SERVICE, -1)):
        now_seconds = 1_800_000_000 + days * 86_400  # also of a clock that is set back
        authorization = vapid.authorization(service, now_seconds * 1_000)
        assert claims(authorization) == {"aud": service, "exp": now_seconds + 12 * HOUR, "sub": SUBJECT}
        assert authorization.endswith(f", k={KEYS.public_key}")


def test_every_service_gets_a_token_of_its_own() -> None:
    vapid = VapidIdentity(KEYS.private_key, SUBJECT)
    audiences = [f"https://push-{number}.example.net" for number in range(300)]
    first = [vapid.authorization(audience, NOW_MS) for audience in audiences]
    assert [claims(each)["aud"] for each in first] == audiences
    assert vapid.authorization(audiences[-1], NOW_MS + 1_000) == first[-1]
    assert vapid.authorization(audiences[0], NOW_MS + 1_000) != first[0]  # no longer remembered


def test_a_subject_that_apple_would_refuse_is_refused() -> None:
    no_url = "must be mailto: and an address, or an https URL"
    for subject, reason in (
        *((each, no_url) for each in ("push@example.org", "mailto: a@example.org", "http://example.org")),
        ("https://", no_url),
        ("https://bridge", "reached from outside"),
        ("mailto:a@b.TEST", "reached from outside"),
    ):
        with pytest.raises(ValueError, match=reason):
            checked_subject(subject)

    for taken in ("mailto:push@example.org", "https://example.org/contact?about=push"):
        assert checked_subject(taken) == taken
