"""What left the server: webhooks with their headers, and pushes as the services would have had them."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import orjson
from standardwebhooks import Webhook

from tests.support.figures import until_waiting
from tests.support.inbox_client import sign_in
from tests.support.project import opened_app
from tests.support.rows import each_row
from tests.support.webhook_receiver import open_receiver
from tests.testmode.conftest import Controlled, controlling
from tests.testmode.test_clock import webhook_for

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


async def registered(controlled: Controlled, channel: str, token: str = "any token") -> str:
    """A session whose calls are pushed through the channel."""
    session_id = await controlled.server.open_session()
    answer = await controlled.push.register(type=channel, topic=session_id, token=token)
    assert answer.status == 200, answer
    return session_id


async def test_a_webhook_is_kept_with_headers_and_signature(tmp_path: Path) -> None:
    async with (
        controlling(tmp_path / "data", webhook_secret=SECRET) as controlled,
        open_receiver() as receiver,
    ):
        session_id = await webhook_for(controlled, receiver)
        await controlled.server.request_call(session_id)

        (sent,) = await controlled.control.sent(channel="webhook", topic=session_id, wait=20)

        (received,) = receiver.requests
        assert (sent.url, sent.payload, sent.outcome) == (receiver.url(), {"topic": session_id}, "delivered")
        assert dict(sent.headers).items() <= dict(received.headers).items()
        moment = datetime.fromtimestamp(int(sent.headers["webhook-timestamp"]), UTC)
        signature = Webhook(SECRET).sign(sent.id, moment, received.body.decode())
        assert sent.headers["webhook-signature"] == signature


async def test_a_push_by_fcm_is_the_message_that_google_would_have(controlled: Controlled) -> None:
    session_id = await registered(controlled, "fcm", "tokén of any form {}")
    await controlled.server.request_call(session_id, dapp_name="Example")

    (sent,) = await controlled.control.sent(channel="fcm", wait=20)

    message = sent.payload["message"]
    assert (sent.token, message["token"]) == ("tokén of any form {}", "tokén of any form {}")
    assert (sent.title, sent.body) == (message["notification"]["title"], message["notification"]["body"])
    assert (sent.topic, sent.outcome) == (session_id, "delivered")


async def test_a_push_by_apns_has_its_headers_and_payload(controlled: Controlled) -> None:
    session_id = await registered(controlled, "apn")
    await controlled.server.request_call(session_id)

    (sent,) = await controlled.control.sent(channel="apns", wait=20)

    assert sent.headers["apns-push-type"] == "alert"
    assert sent.payload["aps"]["alert"] == {"title": sent.title, "body": sent.body}


async def test_a_web_push_is_what_the_service_worker_would_read(controlled: Controlled) -> None:
    session_id = await registered(controlled, "webpush", "no subscription at all")
    await controlled.server.request_call(session_id)

    (sent,) = await controlled.control.sent(channel="webpush", wait=20)

    assert (sent.payload["title"], sent.payload["data"]["topic"]) == (sent.title, session_id)


async def test_a_webhook_that_stands_for_a_device_has_a_channel_of_its_own(controlled: Controlled) -> None:
    async with open_receiver() as receiver:
        session_id = await registered(controlled, "webhook", receiver.url())
        await controlled.server.request_call(session_id)

        (sent,) = await controlled.control.sent(channel="webhook-push", wait=20)

        assert sent.url == receiver.url()
        assert await controlled.control.sent(channel="webhook") == []


async def test_a_notification_to_a_device_is_found_by_its_account(tmp_path: Path) -> None:
    async with controlling(tmp_path / "data") as controlled, opened_app(controlled.server) as app:
        reader = await sign_in(controlled.server)
        await reader.add_device("fcm", "the device")
        await reader.subscribe(app.project_id)
        await app.notify([reader.account])

        (sent,) = await controlled.control.sent(account=reader.account, wait=20)

        assert (sent.channel, sent.token, sent.title) == ("fcm", "the device", "Title")
        assert await controlled.control.sent(account=reader.account.rpartition(":")[2].upper()) == [sent]
        assert await controlled.control.sent(account="0x00") == []


async def test_a_waiting_request_is_answered_with_the_first_match(controlled: Controlled) -> None:
    session_id = await registered(controlled, "fcm")
    waiting = asyncio.create_task(controlled.control.sent(channel="fcm", topic=session_id, wait=20))
    await until_waiting(controlled.server, 1)

    await controlled.server.request_call(session_id)

    assert [each.topic for each in await waiting] == [session_id]


async def test_nothing_is_there_when_the_wait_is_over(controlled: Controlled) -> None:
    assert await controlled.control.sent(channel="apns", wait=0.05) == []


async def test_sent_messages_are_forgotten_on_demand(controlled: Controlled) -> None:
    session_id = await registered(controlled, "fcm")
    await controlled.server.request_call(session_id)
    await controlled.control.sent(wait=20)

    assert await controlled.control.forget_sent() == 1
    assert await controlled.control.sent() == []


@each_row("query", ["channel=fmc", "wait=soon", "wait=-1", "wait=", "channel="])
async def test_a_query_that_cannot_be_read_is_refused(controlled: Controlled, query: str) -> None:
    answer = await controlled.send("GET", f"/_test/sent?{query}")

    assert answer.problem(400)["detail"]


async def test_unknown_members_of_the_answer_do_not_break_the_client(controlled: Controlled) -> None:
    session_id = await registered(controlled, "fcm")
    await controlled.server.request_call(session_id)
    await controlled.control.sent(wait=20)

    (raw,) = orjson.loads((await controlled.send("GET", "/_test/sent")).body)["sent"]

    assert raw.keys() >= {"id", "channel", "at", "outcome", "topic", "token", "title", "body", "payload"}
