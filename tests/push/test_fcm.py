"""Pushes by FCM: the service account, what is sent, and the meaning of each answer."""

import asyncio
from dataclasses import replace

import orjson
import pytest
from aiohttp import web
from Crypto.PublicKey import RSA

from bridge_server.outbox.guarded_client import Outcome, Verdict
from bridge_server.push.keys import ServiceAccount
from tests.push.providers import DELIVERED, NOTICE, Fcm
from tests.support.clock import PassTime
from tests.support.fcm_service import (
    FcmAnswer,
    FcmService,
    answered,
    hang,
    invalid_token,
    refusal,
    reset,
    rsa_key,
)
from tests.support.push_services import FCM_TOKEN
from tests.support.rows import each_row

BAD_REQUEST = "type.googleapis.com/google.rpc.BadRequest"
QUOTA_FAILURE = "type.googleapis.com/google.rpc.QuotaFailure"
PEM = rsa_key().export_key(pkcs=8).decode()
SOUND = {
    "type": "service_account",
    "project_id": "demo-wallet",
    "private_key_id": "k1",
    "private_key": PEM,
    "client_email": "pusher@demo-wallet.iam.gserviceaccount.com",
    "token_uri": "https://oauth2.googleapis.com/token",
}


def file(**changes: object) -> bytes:
    return orjson.dumps({name: value for name, value in {**SOUND, **changes}.items() if value is not None})


@each_row("key_id", [None, "", 5])
def test_a_file_without_a_key_id_will_do(key_id: object) -> None:
    assert ServiceAccount.parse(file(private_key_id=key_id)).private_key_id is None


@each_row(
    ("complaint", "changes"),
    [
        ("google-services.json is the app's file", {"type": None}),
        ('type must be "service_account"', {"type": "authorized_user"}),
        ("project_id must be the id of a Google Cloud", {"project_id": "a/../b"}),
        ("project_id must be", {"project_id": 12345}),
        ("client_email must be an address", {"client_email": "pusher"}),
        *(
            ("token_uri must be an absolute http", {"token_uri": uri})
            for uri in ("/token", "ftp://x/", "http://[/")
        ),
        ("private_key must be a PEM text", {"private_key": "MIIEvQ"}),
        ("keep the line breaks as the file had them", {"private_key": PEM.replace("\n", "\\n")}),
        ("private_key is no RSA key in PEM", {"private_key": PEM[:800]}),
        (
            "private_key holds a public key",
            {"private_key": RSA.import_key(PEM).public_key().export_key().decode()},
        ),
        ("unencrypted", {"private_key": RSA.import_key(PEM).export_key(pkcs=8, passphrase="x").decode()}),
        (
            "private_key has 1024 bits; at least 2048 are needed",
            {"private_key": RSA.generate(1_024).export_key(pkcs=8).decode()},
        ),
    ],
)
def test_malformed_file_is_refused_with_the_reason(complaint: str, changes: dict[str, object]) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the text is looked at below
        ServiceAccount.parse(file(**changes))
    assert complaint in str(caught.value)
    assert PEM[40:60] not in str(caught.value)
    assert caught.value.__cause__ is None


@each_row(
    ("text", "complaint"),
    [
        (b"{", "is not JSON; make one in the Firebase console"),
        (b"[]", "must hold a JSON object"),
        (b"{}", r"type must be .*; project_id .*; private_key .*; client_email .*; token"),
    ],
)
def test_a_file_without_the_members_of_a_key_is_refused(text: bytes, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        ServiceAccount.parse(text)


def error(status: str, *details: object) -> dict[str, object]:
    return {"error": {"status": status, "message": "hush", "details": list(details)}}


def violated(*violations: object) -> FcmAnswer:
    """An invalid argument with details that name these violations, and one that has another shape."""
    details = [{"@type": BAD_REQUEST, "fieldViolations": each} for each in violations]
    return answered(400, error("INVALID_ARGUMENT", 5, *details))


def limited(*violations: object) -> FcmAnswer:
    """A quota that is used up, with details that name these violations."""
    details = [{"@type": QUOTA_FAILURE, "violations": each} for each in violations]
    return answered(429, error("RESOURCE_EXHAUSTED", *details))


async def test_a_message_arrives_in_the_form_that_fcm_documents_whatever_its_data(fcm: Fcm) -> None:
    outcome = await fcm.push(notice=replace(NOTICE, data={"topic": "t", "id": "forged", "url": "forged"}))

    assert outcome == Outcome(Verdict.DELIVERED, status=200)
    received = fcm.service.received[-1]
    assert received.message == {
        "token": FCM_TOKEN,
        "notification": {"title": "Bank", "body": "New request from Dapp"},
        "data": {"topic": "t", "id": "message-1", "url": "https://dapp.example/"},
        "android": {
            "priority": "HIGH",
            "ttl": "86400s",
            "notification": {"tag": "message-1", "default_sound": True},
        },
        "apns": {
            "headers": {
                "apns-priority": "10",
                "apns-expiration": "1800086400",
                "apns-collapse-id": "message-1",
            },
            "payload": {"aps": {"sound": "default"}},
        },
        "webpush": {
            "headers": {"TTL": "86400", "Urgency": "high"},
            "notification": {"tag": "message-1"},
            "fcm_options": {"link": "https://dapp.example/"},
        },
    }


async def test_a_link_that_fcm_would_refuse_is_spelled_in_ascii_or_left_out(fcm: Fcm) -> None:
    for url, link in (
        (None, None),
        ("http://dapp.example/", None),
        ("https://exämple.org/é?q=ü", "https://xn--exmple-cua.org/%C3%A9?q=%C3%BC"),
    ):
        await fcm.push(notice=replace(NOTICE, url=url))
        message = fcm.service.received[-1].message
        assert message["webpush"].get("fcm_options", {}).get("link") == link
        assert message["data"].get("url") == url


async def test_the_time_to_live_stays_within_four_weeks(fcm: Fcm) -> None:
    for ttl, sent in ((-1, "0s"), (2_419_200, "2419200s"), (2_419_201, "2419200s")):
        await fcm.push(notice=replace(NOTICE, ttl_seconds=ttl))
        assert fcm.service.received[-1].message["android"]["ttl"] == sent


INVALID = [{"field": "message.token", "description": "Invalid registration token"}]
OF_OTHER_SHAPES = {"status": 7, "details": {"@type": "x"}, "message": 5}


@each_row(
    ("answer", "verdict", "pause", "about_all"),
    [
        (refusal("UNREGISTERED"), Verdict.GONE, None, False),
        (refusal("UNREGISTERED", Retry_After="30"), Verdict.GONE, None, False),
        (invalid_token(), Verdict.GONE, None, False),
        (violated(INVALID), Verdict.GONE, None, False),
        (violated("message.token", ["message.token"]), Verdict.REFUSED, None, False),
        (refusal("INVALID_ARGUMENT"), Verdict.REFUSED, None, False),
        (answered(413), Verdict.REFUSED, None, False),  # the body is too large for the front end
        (refusal("QUOTA_EXCEEDED"), Verdict.FAILED, 60.0, None),
        (refusal("QUOTA_EXCEEDED", Retry_After="90"), Verdict.FAILED, 90.0, None),
        (limited([{"subject": "device:1", "description": "Rate exceeded"}]), Verdict.FAILED, 60.0, False),
        (limited([{"description": "Device message rate exceeded"}]), Verdict.FAILED, 60.0, False),
        (limited([{"subject": "project:1"}], ["device"], "device"), Verdict.FAILED, 60.0, None),
        (refusal("UNAVAILABLE"), Verdict.FAILED, None, True),
        (refusal("UNAVAILABLE", Retry_After="30"), Verdict.FAILED, 30.0, True),
        (answered(429), Verdict.FAILED, 60.0, None),
        (answered(503, Retry_After="30"), Verdict.FAILED, 30.0, True),
        (refusal("INTERNAL"), Verdict.FAILED, None, False),
        (refusal("INTERNAL", Retry_After="Fri, 15 Jan 2027 08:02:00 GMT"), Verdict.FAILED, 120.0, False),
        (refusal("THIRD_PARTY_AUTH_ERROR"), Verdict.FAILED, None, False),
        (answered(403, error("PERMISSION_DENIED")), Verdict.BLOCKED, None, False),
        (answered(403, "a proxy's page"), Verdict.FAILED, None, False),
        (answered(404, error("NOT_FOUND")), Verdict.FAILED, None, False),
        (answered(307, Location="http://127.0.0.1:9/"), Verdict.FAILED, None, False),
        (answered(418, [1, 2]), Verdict.FAILED, None, False),
        (answered(400, {"error": "INVALID_ARGUMENT"}), Verdict.FAILED, None, False),
        (answered(400, {"error": OF_OTHER_SHAPES}), Verdict.FAILED, None, False),
    ],
)
async def test_every_fcm_answer_has_its_outcome_and_its_retry_after_is_for_the_device_or_the_service(
    answer: FcmAnswer, verdict: Verdict, pause: float | None, about_all: bool | None, fcm: Fcm
) -> None:
    fcm.service.otherwise = answer
    outcome = await fcm.push()
    assert (outcome.verdict, outcome.retry_after_seconds, outcome.about_lane) == (verdict, pause, about_all)
    assert outcome.reason.startswith("FCM answered ")
    assert FCM_TOKEN not in outcome.reason


async def test_a_reason_names_the_code_and_what_to_do_but_not_what_the_service_wrote(fcm: Fcm) -> None:
    fcm.service.script.append(answered(403, error("PERMISSION_DENIED")))
    assert (await fcm.push()).reason == (
        "FCM answered 403 PERMISSION_DENIED: "
        "the service account may not send, or the project's FCM API is off"
    )

    fcm.service.script.append(answered(400, error("hush; drop table")))
    assert (await fcm.push()).reason == "FCM answered 400"


async def test_a_token_of_another_project_is_dead_once_the_account_has_proven_itself(fcm: Fcm) -> None:
    fcm.service.by_token["foreign"] = refusal("SENDER_ID_MISMATCH")

    for _ in range(2):
        assert (await fcm.push("foreign")).verdict is Verdict.FAILED
    await fcm.push()
    proven = await fcm.push("foreign")

    assert proven.verdict is Verdict.GONE
    assert proven.reason.endswith("SENDER_ID_MISMATCH: the token belongs to another Firebase project")


async def test_a_hang_is_given_up_in_time(fcm: Fcm, pass_time: PassTime) -> None:
    await fcm.push()
    asked = asyncio.Event()

    async def hangs(service: FcmService, request: web.Request) -> web.StreamResponse:
        asked.set()
        return await hang(service, request)

    fcm.service.script.append(hangs)
    given_up = asyncio.create_task(fcm.push())
    await asked.wait()
    await pass_time(30)

    assert await given_up == Outcome(Verdict.FAILED, "no answer in time")
    assert await fcm.push() == DELIVERED


async def test_after_a_broken_connection_and_a_huge_answer_the_next_attempt_is_delivered(fcm: Fcm) -> None:
    await fcm.push()
    fcm.service.script.append(reset)
    assert (await fcm.push()).verdict is Verdict.FAILED
    assert await fcm.push() == DELIVERED
    fcm.service.script.append(answered(200, "x" * 1_000_000))
    assert [await fcm.push() for _ in range(2)] == [DELIVERED, DELIVERED]


async def test_a_notice_without_json_is_a_failure_and_a_data_key_of_fcm_kills_no_token(fcm: Fcm) -> None:
    assert (await fcm.push(notice=replace(NOTICE, body="\ud800"))).verdict is Verdict.FAILED
    assert fcm.service.received == []
    assert (await fcm.push(notice=replace(NOTICE, data={"from": "x"}))).verdict is Verdict.REFUSED


async def test_a_registration_token_is_1_to_4096_printable_ascii_characters(fcm: Fcm) -> None:
    for token in ("a", FCM_TOKEN, "x" * 4_096):
        assert fcm.provider.checked_token(token) == token
    for token in ("", "a b", "a\n", "ä", "x" * 4_097):
        with pytest.raises(ValueError, match="1 to 4096 printable ASCII characters"):
            fcm.provider.checked_token(token)
