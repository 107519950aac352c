from dataclasses import replace

import pytest

from bridge_server.outbox.guarded_client import Outcome, Verdict
from tests.push.apns import NOTICE, OTHER_TOKEN, TOKEN, opened_apns
from tests.support.apns_service import ApnsService, ServerStream, refusal
from tests.support.rows import each_row


async def test_a_notification_arrives_in_the_form_that_apple_documents() -> None:
    async with opened_apns() as apns:
        outcome = await apns.push()

        assert outcome == Outcome(Verdict.DELIVERED, status=200)
        (received,) = apns.service.received
        assert received.device_token == TOKEN
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


async def test_an_id_stays_at_every_attempt_and_differs_between_messages() -> None:
    async with opened_apns() as apns:
        for notice in (NOTICE, NOTICE, replace(NOTICE, message_id="message-2")):
            await apns.push(notice=notice)

        ids = [
            (received.headers["apns-id"], received.headers["apns-collapse-id"])
            for received in apns.service.received
        ]
        assert ids[0] == ids[1]
        assert ids[0][0] != ids[2][0]
        assert ids[0][1] != ids[2][1]


@each_row("message_id", ["x" * 64, "x" * 65, "é", "a b", "a\r\nb: c", ""])
async def test_a_collapse_id_fits_whatever_the_message_id_is(message_id: str) -> None:
    async with opened_apns() as apns:
        assert (await apns.push(notice=replace(NOTICE, message_id=message_id))).verdict is Verdict.DELIVERED

        (received,) = apns.service.received
        assert 1 <= len(received.headers["apns-collapse-id"].encode()) <= 64
        assert received.payload["id"] == message_id


@each_row(("ttl", "sent"), [(0, "0"), (-5, "0"), (60, "1800000060")])
async def test_push_expires_with_its_time_to_live(ttl: int, sent: str) -> None:
    async with opened_apns() as apns:
        await apns.push(notice=replace(NOTICE, ttl_seconds=ttl))

        assert apns.service.received[0].headers["apns-expiration"] == sent


async def test_data_never_takes_the_place_of_what_the_server_says() -> None:
    async with opened_apns() as apns:
        await apns.push(notice=replace(NOTICE, data={"aps": "x", "id": "x", "url": "x"}))

        payload = apns.service.received[0].payload
        assert payload["aps"]["alert"]["title"] == "Bank"
        assert (payload["id"], payload["url"]) == ("message-1", "https://dapp.example/")


@each_row(("size", "verdict"), [(4_096, Verdict.DELIVERED), (4_097, Verdict.REFUSED)])
async def test_a_payload_that_is_too_large_is_refused_before_it_is_sent(size: int, verdict: Verdict) -> None:
    bare = len(
        b'{"topic":"t","text":"","aps":{"alert":{"title":"Bank","body":"New request from Dapp"},'
        b'"sound":"default"},'
        b'"id":"message-1","url":"https://dapp.example/"}'
    )
    async with opened_apns() as apns:
        outcome = await apns.push(notice=replace(NOTICE, data={"topic": "t", "text": "x" * (size - bare)}))

        assert outcome.verdict is verdict
        assert len(apns.service.received) == (verdict is Verdict.DELIVERED)


REFUSALS = {
    Verdict.GONE: ["BadDeviceToken", "Unregistered", "ExpiredToken"],
    Verdict.REFUSED: [
        "PayloadTooLarge",
        "PayloadEmpty",
        "BadCollapseId",
        "BadExpirationDate",
        "BadMessageId",
        "BadPriority",
        "DuplicateHeaders",
        "InvalidPushType",
        "MissingDeviceToken",
    ],
    Verdict.BLOCKED: [
        "BadCertificate",
        "BadCertificateEnvironment",
        "BadEnvironmentKeyIdInToken",
        "BadTopic",
        "Forbidden",
        "InvalidProviderToken",
        "MissingProviderToken",
        "MissingTopic",
        "TopicDisallowed",
        "UnrelatedKeyIdInToken",
    ],
    Verdict.FAILED: [
        "TooManyRequests",
        "TooManyProviderTokenUpdates",
        "InternalServerError",
        "ServiceUnavailable",
        "Shutdown",
        "IdleTimeout",
        "BadPath",
        "MethodNotAllowed",
        "NeverHeardOf",
    ],
}


@each_row(
    ("reason", "verdict"), [(reason, verdict) for verdict, reasons in REFUSALS.items() for reason in reasons]
)
async def test_every_apns_answer_has_its_outcome(reason: str, verdict: Verdict) -> None:
    async with opened_apns() as apns:
        apns.service.otherwise = refusal(reason)

        outcome = await apns.push()

        assert outcome.verdict is verdict
        assert outcome.reason.startswith(f"APNs answered {outcome.status} {reason}")
        assert TOKEN not in outcome.reason
        assert (await apns.push()).verdict is verdict  # the connection is as good as before


async def test_a_token_of_another_app_is_dead_once_the_topic_has_proven_itself() -> None:
    async with opened_apns() as apns:
        apns.service.by_token[OTHER_TOKEN] = refusal("DeviceTokenNotForTopic")

        unproven = [await apns.push(OTHER_TOKEN) for _ in range(2)]
        await apns.push()
        proven = await apns.push(OTHER_TOKEN)

        assert [outcome.verdict for outcome in unproven] == [Verdict.FAILED] * 2
        assert proven.verdict is Verdict.GONE
        assert proven.reason == "APNs answered 400 DeviceTokenNotForTopic: the token belongs to another app"


@each_row(
    ("reason", "headers", "asked"),
    [
        ("TooManyRequests", {"retry_after": "90"}, 90.0),
        ("ServiceUnavailable", {"retry_after": "30"}, 30.0),
        ("InternalServerError", {}, None),
        ("TooManyProviderTokenUpdates", {}, 1_200.0),
        ("Unregistered", {"retry_after": "30"}, None),
    ],
)
async def test_retry_after_of_apns_is_kept(reason: str, headers: dict[str, str], asked: float | None) -> None:
    async with opened_apns() as apns:
        apns.service.otherwise = refusal(reason, **headers)

        assert (await apns.push()).retry_after_seconds == asked


@each_row(
    ("reason", "about_all"),
    [
        ("TooManyRequests", False),
        ("TooManyProviderTokenUpdates", True),
        ("ServiceUnavailable", True),
        ("Shutdown", True),
        ("InternalServerError", False),
    ],
)
async def test_rate_limit_of_a_device_differs_from_that_of_the_service(reason: str, about_all: bool) -> None:
    async with opened_apns() as apns:
        apns.service.otherwise = refusal(reason, retry_after="90")

        assert (await apns.push()).about_lane is about_all


@each_row("body", [b"", b"hush", b"[]", b'{"reason": 5}', b'{"reason": "hush hush"}', b"x" * 16_000])
async def test_an_answer_that_makes_no_sense_is_a_failure(body: bytes) -> None:
    def answer(_: ApnsService, stream: ServerStream) -> None:
        stream.respond(500, {}, body)

    async with opened_apns() as apns:
        apns.service.otherwise = answer

        assert await apns.push() == Outcome(Verdict.FAILED, "APNs answered 500", 500)


async def test_a_wrong_topic_is_blocked() -> None:
    async with opened_apns(topic="com.example.other") as apns:
        assert (await apns.push()).reason == (
            "APNs answered 400 TopicDisallowed: the key may not push to this bundle id"
        )


async def test_a_stored_token_that_has_no_form_is_dead_and_never_part_of_a_path() -> None:
    async with opened_apns() as apns:
        assert (await apns.push("../../3/device/x")).verdict is Verdict.GONE
        assert apns.service.connections == []


async def test_a_notice_that_cannot_be_written_as_json_is_a_failure_and_no_error() -> None:
    async with opened_apns() as apns:
        assert (await apns.push(notice=replace(NOTICE, body="\ud800"))).verdict is Verdict.FAILED


@each_row("token", [TOKEN, TOKEN.upper(), "ab" * 16, "ab" * 128])
async def test_a_sound_token_is_taken_in_lower_case(token: str) -> None:
    async with opened_apns() as apns:
        assert apns.provider.checked_token(token) == token.lower()


@each_row("token", ["", "ab" * 15, "a" * 63, "g" * 64, "ab" * 129, TOKEN + "\n", "<" + TOKEN + ">"])
async def test_malformed_device_token_is_refused(token: str) -> None:
    async with opened_apns() as apns:
        with pytest.raises(ValueError, match="in hexadecimal"):
            apns.provider.checked_token(token)
