"""Pushes by APNs: the settings, the provider tokens, what is sent, and the meaning of each answer."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import orjson
import pytest
import structlog
from Crypto.PublicKey import ECC

from bridge_server.kernel import base64url
from bridge_server.outbox.guarded_client import Outcome, Verdict
from bridge_server.push.keys import ApnsSettings
from bridge_server.push.providers.apns import ApnsProvider, ProviderToken, ProviderTokens
from tests.push.providers import DELIVERED, NOTICE, OTHER_TOKEN, Apns, opened_apns
from tests.support.apns_service import refusal, taken
from tests.support.clock import ManualClock
from tests.support.push_services import APNS_TOKEN
from tests.support.rows import each_row

MINUTE = 60
WINDOW_MS = 750_000 * 40 * 60_000
KEY = ECC.generate(curve="P-256")
PEM = str(KEY.export_key(format="PEM"))


def made(**changes: object) -> ApnsSettings:
    sound = {"key": PEM, "key_id": "ABC123DEFG", "team_id": "DEF123GHIJ", "topic": "com.example.wallet"}
    return ApnsSettings(**{**sound, **changes})  # type: ignore[arg-type]


def test_the_environment_chooses_the_endpoint_unless_one_is_set() -> None:
    assert str(made().url) == "https://api.push.apple.com"
    assert str(made(environment="sandbox").url) == "https://api.sandbox.push.apple.com"
    for endpoint in ("https://127.0.0.1:8443", "https://[::1]:8443/"):
        assert str(made(endpoint=endpoint).url) == endpoint


@each_row(
    ("complaint", "changes"),
    [
        ("the key must be a PEM text", {"key": PEM[28:80]}),
        ("the key is no elliptic curve key in PEM", {"key": PEM[:80]}),
        ("the key is a public one", {"key": str(KEY.public_key().export_key(format="PEM"))}),
        (
            "the key is on the curve NIST P-384, and APNs takes P-256",
            {"key": str(ECC.generate(curve="P-384").export_key(format="PEM"))},
        ),
        ("key_id must be 10 upper-case letters and digits", {"key_id": "abc123defg"}),
        ("team_id must be 10 upper-case letters and digits", {"team_id": "DEF123GHI "}),
        ("topic must be the app's bundle id, such as com.example.wallet", {"topic": ""}),
        ("topic must be the app's bundle id", {"topic": "com.example\r\n"}),
        ("environment must be production or sandbox", {"environment": "staging"}),
        ("endpoint must be an https URL", {"endpoint": "http://127.0.0.1"}),
        ("endpoint must be an https URL", {"endpoint": "https://a.example/3/device"}),
        ("endpoint must be an https URL", {"endpoint": "https://[/"}),
        ("ca_file names no file", {"ca_file": "/nowhere/ca.pem"}),
        ("timeout_seconds must be more than 0", {"timeout_seconds": 0.0}),
    ],
)
def test_malformed_settings_are_refused_with_the_reason(complaint: str, changes: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="the APNs settings are not usable") as caught:
        made(**changes)
    assert complaint in str(caught.value)
    assert PEM[40:60] not in str(caught.value)


def test_all_faults_of_the_settings_are_named_at_once() -> None:
    named = r"the key must .*; apns_key_id must .*; apns_team_id must .*; apns_topic must .*"
    with pytest.raises(ValueError, match=named):
        ApnsSettings("", "", "", "")


# Provider tokens.


def issued_at(token: ProviderToken) -> int:
    issued: int = orjson.loads(base64url.decode(token.text.split(".")[1]))["iat"]
    return issued


async def test_provider_token_is_renewed_before_it_expires_and_not_too_often(apns: Apns) -> None:
    for _ in range(24):  # four hours, with a push every ten minutes
        assert (await apns.push()).verdict is Verdict.DELIVERED
        apns.clock.advance(10 * MINUTE)
    assert len(apns.service.provider_tokens) == 6


@pytest.mark.parametrize(("minutes", "refused"), [(40, 0), (30, 50)], ids=["it got old", "it was refused"])
async def test_many_pushes_make_one_new_provider_token(apns: Apns, minutes: float, refused: int) -> None:
    await apns.push()
    apns.clock.advance(minutes * MINUTE)
    apns.service.script.extend([refusal("ExpiredProviderToken")] * refused)
    assert await apns.push_many(100) == [DELIVERED] * 100
    assert len(apns.service.provider_tokens) == 2


async def test_provider_token_expired_twice_blocks_for_twenty_minutes(apns: Apns) -> None:
    apns.service.script.extend([refusal("ExpiredProviderToken")] * 10)
    left = []
    for minutes in (0, 0, 19, 1):
        apns.clock.advance(minutes * MINUTE)
        assert await apns.push() == Outcome(
            Verdict.BLOCKED,
            "APNs answered 403 ExpiredProviderToken for a fresh token: check this machine's clock",
            403,
        )
        left.append(len(apns.service.script))

    assert left == [8, 7, 6, 4]


async def test_a_renewal_that_comes_too_early_for_apple_is_a_failure_that_waits(apns: Apns) -> None:
    await apns.push()
    apns.clock.advance(MINUTE)
    apns.service.script.append(refusal("ExpiredProviderToken"))
    outcome = await apns.push()
    assert outcome.reason == "APNs answered 429 TooManyProviderTokenUpdates"
    assert (outcome.retry_after_seconds, outcome.about_lane) == (1_200, True)


@each_row("wrong", [{"key": PEM}, {"key_id": "XXXXXXXXXX"}, {"team_id": "XXXXXXXXXX"}])
async def test_a_key_that_apple_does_not_know_blocks(wrong: dict[str, Any]) -> None:
    async with opened_apns(**wrong) as apns:
        outcome = await apns.push()
        assert outcome.verdict is Verdict.BLOCKED
        assert outcome.reason.endswith("InvalidProviderToken: check the key, the key id and the team id")
        assert apns.service.received == []


async def test_a_restart_beside_a_push_is_no_update_to_apple(apns: Apns) -> None:
    await apns.push()
    apns.clock.advance(5 * MINUTE)

    async with ApnsProvider(apns.settings, apns.clock) as another:
        assert await another.push(APNS_TOKEN, NOTICE) == DELIVERED
        assert len(apns.service.provider_tokens) == 1
        apns.clock.advance(40 * MINUTE)
        assert await another.push(APNS_TOKEN, NOTICE) == await apns.push() == DELIVERED

    assert len(apns.service.provider_tokens) == 2


@each_row("first", [0, 10, 20, 21, 30, 39.99])
@each_row("refused", [None, 0, 1, 10, 19, 25, 39.99, 45, 59])
def test_no_update_of_a_provider_token_is_too_early(first: float, refused: float | None) -> None:
    started_ms = WINDOW_MS + round(first * 60_000)
    clock = ManualClock(started_ms)
    tokens = ProviderTokens(KEY, "K", "T", clock)
    made: dict[str, int] = {}
    forced: str | None = None

    for _ in range(4 * 60 * 2):
        now_ms = clock.now_ms()
        token = tokens.current()
        if refused is not None and forced is None and now_ms >= started_ms + refused * 60_000:
            replacement = tokens.replaced(token)
            assert replacement is not None
            made.pop(token.text, None)  # how soon after this one Apple calls it expired is up to Apple
            token, forced = replacement, replacement.text
        made.setdefault(token.text, now_ms)
        assert 0 <= now_ms // 1_000 - issued_at(token) < 3_600
        clock.advance(MINUTE / 2)

    moments = list(made.values())
    assert len(moments) >= 5
    assert all(later - earlier >= 20 * 60_000 for earlier, later in pairwise(moments))


def test_a_clock_that_was_set_back_makes_a_new_one() -> None:
    clock = ManualClock(WINDOW_MS)
    tokens = ProviderTokens(KEY, "K", "T", clock)
    first = tokens.current()
    clock.advance(-MINUTE)
    assert tokens.current().text != first.text
    assert issued_at(tokens.current()) == WINDOW_MS // 1_000 - 40 * MINUTE


async def test_no_credential_shows_in_logs_reprs_or_outcomes() -> None:
    with structlog.testing.capture_logs() as logs:
        async with opened_apns() as apns:
            apns.service.script.append(refusal("InvalidProviderToken"))
            outcomes = [await apns.push(), await apns.push()]
            token = ProviderTokens(KEY, "K", "T", apns.clock).current()
            shown = f"{logs} {outcomes} {token!r} {apns.settings!r} {apns.provider!r}"

    sent = apns.service.provider_tokens
    assert sent
    for secret in ("PRIVATE KEY", apns.service.key[40:80], token.text, APNS_TOKEN, *sent):
        assert secret not in shown


# What is sent, and what comes of each answer.


async def test_a_notification_arrives_in_the_form_that_apple_documents_whatever_its_data(apns: Apns) -> None:
    data = {"topic": "t", "aps": "x", "id": "x", "url": "x"}

    assert await apns.push(notice=replace(NOTICE, data=data)) == DELIVERED

    (received,) = apns.service.received
    assert received.device_token == APNS_TOKEN
    assert received.payload == {
        "aps": {"alert": {"title": "Bank", "body": "New request from Dapp"}, "sound": "default"},
        "id": "message-1",
        "url": "https://dapp.example/",
        "topic": "t",
    }
    described = {name: value for name, value in received.headers.items() if name.startswith("apns-")}
    assert described == {
        "apns-topic": "com.example.wallet",
        "apns-push-type": "alert",
        "apns-priority": "10",
        "apns-expiration": "1800086400",
        "apns-collapse-id": "message-1",
        "apns-id": "4c636ba5-8812-5693-b62c-79c19b98e436",
    }


async def test_every_message_has_ids_of_its_own_that_fit_whatever_its_id_is(apns: Apns) -> None:
    message_ids = ["x" * 64, "x" * 65, "é", "a b", "a\r\nb: c", ""]

    for message_id in message_ids:
        assert await apns.push(notice=replace(NOTICE, message_id=message_id)) == DELIVERED

    received = apns.service.received
    assert [each.payload["id"] for each in received] == message_ids
    assert all(1 <= len(each.headers["apns-collapse-id"].encode()) <= 64 for each in received)
    for name in ("apns-collapse-id", "apns-id"):
        assert len({each.headers[name] for each in received}) == len(message_ids)


@each_row(("ttl", "sent"), [(-5, "0"), (60, "1800000060")])
async def test_push_expires_with_its_time_to_live(apns: Apns, ttl: int, sent: str) -> None:
    await apns.push(notice=replace(NOTICE, ttl_seconds=ttl))
    assert apns.service.received[-1].headers["apns-expiration"] == sent


async def test_a_payload_that_is_too_large_is_refused_before_it_is_sent(apns: Apns) -> None:
    bare = len(
        b'{"topic":"t","text":"","aps":{"alert":{"title":"Bank","body":"New request from Dapp"},'
        b'"sound":"default"},"id":"message-1","url":"https://dapp.example/"}'
    )

    for size, verdict in ((4_096, Verdict.DELIVERED), (4_097, Verdict.REFUSED)):
        notice = replace(NOTICE, data={"topic": "t", "text": "x" * (size - bare)})
        assert (await apns.push(notice=notice)).verdict is verdict
    assert len(apns.service.received) == 1


REFUSALS = {
    Verdict.GONE: "Unregistered ExpiredToken",
    Verdict.REFUSED: """
        PayloadTooLarge PayloadEmpty BadCollapseId BadExpirationDate BadMessageId BadPriority DuplicateHeaders
        InvalidPushType MissingDeviceToken
    """,
    Verdict.BLOCKED: """
        BadCertificate BadCertificateEnvironment BadEnvironmentKeyIdInToken BadTopic Forbidden
        InvalidProviderToken MissingProviderToken MissingTopic TopicDisallowed UnrelatedKeyIdInToken
    """,
    Verdict.FAILED: """
        TooManyRequests TooManyProviderTokenUpdates InternalServerError ServiceUnavailable Shutdown
        IdleTimeout BadPath MethodNotAllowed NeverHeardOf
    """,
}


@each_row(
    ("reason", "verdict"),
    [(reason, verdict) for verdict, texts in REFUSALS.items() for reason in texts.split()],
)
async def test_every_apns_answer_has_its_outcome(apns: Apns, reason: str, verdict: Verdict) -> None:
    apns.service.otherwise = refusal(reason)

    outcome = await apns.push()

    assert outcome.verdict is verdict
    assert outcome.reason.startswith(f"APNs answered {outcome.status} {reason}")
    assert APNS_TOKEN not in outcome.reason
    apns.service.otherwise = taken
    assert await apns.push() == DELIVERED
    assert len(apns.service.connections) == 1  # the connection is as good as before


@pytest.mark.parametrize(
    ("reason", "hint"),
    [
        ("DeviceTokenNotForTopic", "the token belongs to another app"),
        ("BadDeviceToken", "the token is malformed, or belongs to the other environment"),
    ],
)
async def test_a_token_that_does_not_fit_is_dead_once_the_settings_have_proven_themselves(
    apns: Apns, reason: str, hint: str
) -> None:
    apns.service.by_token[OTHER_TOKEN] = refusal(reason)

    for _ in range(2):
        assert (await apns.push(OTHER_TOKEN)).verdict is Verdict.FAILED
    await apns.push()
    proven = await apns.push(OTHER_TOKEN)

    assert proven.verdict is Verdict.GONE
    assert proven.reason == f"APNs answered 400 {reason}: {hint}"


@each_row(
    ("reason", "headers", "asked", "about_all"),
    [
        ("TooManyRequests", {"retry_after": "90"}, 90.0, False),
        ("ServiceUnavailable", {"retry_after": "30"}, 30.0, True),
        ("InternalServerError", {"retry_after": "30"}, 30.0, False),
        ("InternalServerError", {}, None, False),
        ("Shutdown", {}, None, True),
        ("TooManyProviderTokenUpdates", {}, 1_200.0, True),
        ("Unregistered", {"retry_after": "30"}, None, False),
    ],
)
async def test_retry_after_of_apns_is_kept_for_the_device_or_the_service(
    apns: Apns, reason: str, headers: dict[str, str], asked: float | None, about_all: bool
) -> None:
    apns.service.otherwise = refusal(reason, **headers)
    outcome = await apns.push()
    assert (outcome.retry_after_seconds, outcome.about_lane) == (asked, about_all)


@each_row("body", [b"", b"[]", b'{"reason": 5}', b'{"reason": "hush hush"}'])
async def test_an_answer_that_makes_no_sense_is_a_failure(apns: Apns, body: bytes) -> None:
    apns.service.otherwise = lambda _, stream: stream.respond(500, {}, body)
    assert await apns.push() == Outcome(Verdict.FAILED, "APNs answered 500", 500)


async def test_a_token_without_form_is_dead_and_a_notice_without_json_a_failure(apns: Apns) -> None:
    assert (await apns.push("../../3/device/x")).verdict is Verdict.GONE
    assert (await apns.push(notice=replace(NOTICE, body="\ud800"))).verdict is Verdict.FAILED
    assert apns.service.connections == []


async def test_a_device_token_is_16_to_128_bytes_in_hexadecimal(apns: Apns) -> None:
    for token in (APNS_TOKEN.upper(), "ab" * 16, "ab" * 128):
        assert apns.provider.checked_token(token) == token.lower()
    for token in ("ab" * 15, "a" * 63, "g" * 64, "ab" * 129, APNS_TOKEN + "\n"):
        with pytest.raises(ValueError, match="in hexadecimal"):
            apns.provider.checked_token(token)
