import asyncio
from dataclasses import replace

import pytest
from aiohttp import web

from bridge_server.outbox.guarded_client import Outcome, Verdict
from tests.push.fcm import NOTICE, TOKEN, opened_fcm
from tests.support.fcm_service import (
    FcmAnswer,
    FcmService,
    answered,
    hang,
    invalid_token,
    refusal,
    reset,
    running_fcm_service,
    taken,
)
from tests.support.loop_time import PassTime
from tests.support.rows import each_row


def error(status: str, *details: object, message: str = "text") -> dict[str, object]:
    return {"error": {"status": status, "message": message, "details": list(details)}}


async def test_a_message_arrives_in_the_form_that_fcm_documents() -> None:
    async with opened_fcm() as fcm:
        outcome = await fcm.push()

        assert outcome == Outcome(Verdict.DELIVERED, status=200)
        (received,) = fcm.service.received
        assert received.message == {
            "token": TOKEN,
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


@each_row("url", [None, "http://dapp.example/", "wallet://open"])
async def test_a_link_that_fcm_would_refuse_is_left_out(url: str | None) -> None:
    async with opened_fcm() as fcm:
        await fcm.push(notice=replace(NOTICE, url=url))

        (received,) = fcm.service.received
        assert "fcm_options" not in received.message["webpush"]
        assert received.message["data"].get("url") == url


async def test_a_link_beyond_ascii_is_spelled_in_ascii() -> None:
    async with opened_fcm() as fcm:
        await fcm.push(notice=replace(NOTICE, url="https://exämple.org/é?q=ü"))

        (received,) = fcm.service.received
        link = received.message["webpush"]["fcm_options"]["link"]
        assert link == "https://xn--exmple-cua.org/%C3%A9?q=%C3%BC"
        assert received.message["data"]["url"] == "https://exämple.org/é?q=ü"


@each_row(("ttl", "sent"), [(-1, "0s"), (0, "0s"), (2_419_200, "2419200s"), (10**9, "2419200s")])
async def test_the_time_to_live_stays_within_four_weeks(ttl: int, sent: str) -> None:
    async with opened_fcm() as fcm:
        await fcm.push(notice=replace(NOTICE, ttl_seconds=ttl))

        (received,) = fcm.service.received
        assert received.message["android"]["ttl"] == sent


async def test_data_never_takes_the_place_of_the_id() -> None:
    async with opened_fcm() as fcm:
        await fcm.push(notice=replace(NOTICE, data={"id": "forged", "url": "forged"}))

        (received,) = fcm.service.received
        assert received.message["data"] == {"id": "message-1", "url": "https://dapp.example/"}


REFUSALS = {
    "unregistered": (refusal("UNREGISTERED"), Verdict.GONE),
    "malformed token": (invalid_token(), Verdict.GONE),
    "malformed token, by field": (
        answered(
            400,
            error(
                "INVALID_ARGUMENT",
                {
                    "@type": "type.googleapis.com/google.rpc.BadRequest",
                    "fieldViolations": [
                        {"field": "message.token", "description": "Invalid registration token"}
                    ],
                },
            ),
        ),
        Verdict.GONE,
    ),
    "other argument": (refusal("INVALID_ARGUMENT"), Verdict.REFUSED),
    "body too large for the front end": (answered(413), Verdict.REFUSED),
    "quota": (refusal("QUOTA_EXCEEDED"), Verdict.FAILED),
    "unavailable": (refusal("UNAVAILABLE"), Verdict.FAILED),
    "internal": (refusal("INTERNAL"), Verdict.FAILED),
    "key of another service": (refusal("THIRD_PARTY_AUTH_ERROR"), Verdict.FAILED),
    "permission denied": (answered(403, error("PERMISSION_DENIED")), Verdict.BLOCKED),
    "403 of somebody else": (answered(403, "a proxy's page"), Verdict.FAILED),
    "404 of a wrong endpoint": (answered(404, error("NOT_FOUND")), Verdict.FAILED),
    "redirect": (answered(307, Location="http://127.0.0.1:9/"), Verdict.FAILED),
    "nothing known": (answered(418, [1, 2]), Verdict.FAILED),
    "errors of other shapes": (answered(400, {"error": "INVALID_ARGUMENT"}), Verdict.FAILED),
    "details of other shapes": (
        answered(400, {"error": {"status": 7, "details": {"@type": "x"}, "message": 5}}),
        Verdict.FAILED,
    ),
    "violations of other shapes": (
        answered(
            400,
            error(
                "INVALID_ARGUMENT",
                5,
                {"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": "message.token"},
                {"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": ["message.token"]},
            ),
        ),
        Verdict.REFUSED,
    ),
}


@each_row(("answer", "verdict"), list(REFUSALS.values()), ids=list(REFUSALS))
async def test_every_fcm_answer_has_its_outcome(answer: FcmAnswer, verdict: Verdict) -> None:
    async with opened_fcm() as fcm:
        fcm.service.otherwise = answer

        outcome = await fcm.push()

        assert outcome.verdict is verdict
        assert outcome.reason.startswith("FCM answered ")
        assert TOKEN not in outcome.reason


async def test_a_reason_names_the_code_and_what_to_do_but_not_what_the_service_wrote() -> None:
    async with opened_fcm() as fcm:
        fcm.service.script.extend(
            [
                answered(403, error("PERMISSION_DENIED", message="hush")),
                answered(400, error("hush; drop table", message="hush")),
            ]
        )

        denied, odd = await fcm.push(), await fcm.push()

        assert denied.reason == (
            "FCM answered 403 PERMISSION_DENIED: "
            "the service account may not send, or the project's FCM API is off"
        )
        assert odd.reason == "FCM answered 400"


async def test_a_message_that_is_too_large_does_not_kill_its_token() -> None:
    async with opened_fcm() as fcm:
        outcome = await fcm.push(notice=replace(NOTICE, data={"text": "x" * 5_000}))

        assert outcome == Outcome(Verdict.REFUSED, "FCM answered 400 INVALID_ARGUMENT", 400)


async def test_a_data_key_that_fcm_keeps_for_itself_does_not_kill_the_token() -> None:
    async with opened_fcm() as fcm:
        assert (await fcm.push(notice=replace(NOTICE, data={"from": "x"}))).verdict is Verdict.REFUSED


async def test_a_token_of_another_project_is_dead_once_the_account_has_proven_itself() -> None:
    async with opened_fcm() as fcm:
        fcm.service.by_token["foreign"] = refusal("SENDER_ID_MISMATCH")

        unproven = [await fcm.push("foreign") for _ in range(2)]
        await fcm.push()
        proven = await fcm.push("foreign")

        assert [outcome.verdict for outcome in unproven] == [Verdict.FAILED] * 2
        assert proven.verdict is Verdict.GONE
        assert proven.reason.endswith("SENDER_ID_MISMATCH: the token belongs to another Firebase project")


async def test_a_service_account_of_another_project_is_blocked() -> None:
    async with opened_fcm(project_id="another-project") as fcm:
        assert (await fcm.push()).verdict is Verdict.BLOCKED


@each_row(
    ("answer", "asked"),
    [
        (refusal("QUOTA_EXCEEDED", Retry_After="90"), 90.0),
        (refusal("QUOTA_EXCEEDED"), 60.0),
        (refusal("UNAVAILABLE", Retry_After="30"), 30.0),
        (refusal("INTERNAL", Retry_After="Fri, 15 Jan 2027 08:02:00 GMT"), 120.0),
        (refusal("UNAVAILABLE"), None),
        (refusal("UNREGISTERED", Retry_After="30"), None),
    ],
)
async def test_retry_after_of_fcm_is_kept(answer: FcmAnswer, asked: float | None) -> None:
    async with opened_fcm() as fcm:
        fcm.service.otherwise = answer

        assert (await fcm.push()).retry_after_seconds == asked


@each_row(
    ("answer", "about_all"),
    [
        (refusal("QUOTA_EXCEEDED"), True),
        (refusal("UNAVAILABLE"), True),
        (answered(429), True),
        (answered(503, Retry_After="30"), True),
        (refusal("INTERNAL", Retry_After="30"), False),
        (refusal("THIRD_PARTY_AUTH_ERROR"), False),
    ],
)
async def test_too_much_and_not_now_are_said_for_all_devices(answer: FcmAnswer, about_all: bool) -> None:
    async with opened_fcm() as fcm:
        fcm.service.otherwise = answer

        assert (await fcm.push()).about_lane is about_all


async def test_a_hang_is_given_up_in_time(pass_time: PassTime) -> None:
    async with opened_fcm(timeout_seconds=30) as fcm:
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
        assert (await fcm.push()).verdict is Verdict.DELIVERED


async def test_a_broken_connection_is_a_failure_and_the_next_attempt_gets_another() -> None:
    async with opened_fcm() as fcm:
        await fcm.push()
        fcm.service.script.append(reset)

        assert (await fcm.push()).verdict is Verdict.FAILED
        assert (await fcm.push()).verdict is Verdict.DELIVERED


async def test_a_service_that_is_down_is_a_failure() -> None:
    async with opened_fcm() as fcm:
        await fcm.push()
        async with running_fcm_service() as other:
            port = other.port
        fcm.provider._url = f"http://127.0.0.1:{port}/"

        assert (await fcm.push()).verdict is Verdict.FAILED


async def test_a_huge_answer_is_not_read_to_its_end() -> None:
    async with opened_fcm() as fcm:
        fcm.service.script.append(answered(200, "x" * 1_000_000))

        assert (await fcm.push()).verdict is Verdict.DELIVERED
        assert (await fcm.push()).verdict is Verdict.DELIVERED


async def test_a_notice_that_cannot_be_written_as_json_is_a_failure_and_no_error() -> None:
    async with opened_fcm() as fcm:
        outcome = await fcm.push(notice=replace(NOTICE, body="\ud800"))

        assert outcome.verdict is Verdict.FAILED
        assert fcm.service.received == []


@each_row("token", ["a", TOKEN, "x" * 4_096])
async def test_a_sound_token_is_taken_as_it_is(token: str) -> None:
    async with opened_fcm() as fcm:
        assert fcm.provider.checked_token(token) == token


@each_row("token", ["", "a b", "a\n", "ä", "x" * 4_097])
async def test_malformed_registration_token_is_refused(token: str) -> None:
    async with opened_fcm() as fcm:
        with pytest.raises(ValueError, match="1 to 4096 printable ASCII characters"):
            fcm.provider.checked_token(token)


async def test_a_service_says_what_it_took() -> None:
    async with opened_fcm() as fcm:
        fcm.service.otherwise = taken

        await fcm.push()

        assert [received.access_token for received in fcm.service.received] == ["ya29.local-1"]
