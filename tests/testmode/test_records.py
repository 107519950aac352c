"""The records of test mode: messages that left the server, and requests that it answered."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path

from standardwebhooks import Webhook

from bridge_server.kit.testing.server import RecordedRequest
from tests.support.asking import until_waiting
from tests.support.inbox_client import sign_in
from tests.support.project import opened_app
from tests.support.rpc_client import DEVELOPMENT_ADDRESS, RpcClient
from tests.support.webhook_receiver import open_receiver, status
from tests.testmode.conftest import Controlled, controlling, parked, webhook_for

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


async def registered(controlled: Controlled, channel: str, token: str) -> str:
    """A session whose calls are pushed through the channel."""
    session_id = await controlled.server.open_session()
    answer = await controlled.push.register(type=channel, topic=session_id, token=token)
    assert answer.status == 200, answer
    return session_id


async def test_a_webhook_is_kept_with_its_signature_as_a_request_of_the_bridge(tmp_path: Path) -> None:
    async with (
        controlling(tmp_path / "data", webhook_secret=SECRET) as controlled,
        open_receiver() as receiver,
    ):
        receiver.script.append(status(503))
        session_id = await webhook_for(controlled, receiver)
        await controlled.server.request_call(session_id)

        (sent,) = await controlled.control.sent(channel="webhook", topic=session_id, wait=20)

        (received,) = receiver.requests
        assert (sent.url, sent.payload, sent.outcome) == (receiver.url(), {"topic": session_id}, "failed")
        assert dict(sent.headers).items() <= dict(received.headers).items()
        moment = datetime.fromtimestamp(int(sent.headers["webhook-timestamp"]), UTC)
        signature = Webhook(SECRET).sign(sent.id, moment, received.body.decode())
        assert sent.headers["webhook-signature"] == signature
        asked = next(each for each in await recorded(controlled) if each.who == "bridge")
        assert (asked.path, asked.status, asked.route) == (receiver.url(), 503, "webhook")
        assert asked.summary == "the receiver answered 503"


async def test_a_push_by_fcm_is_the_message_that_google_would_have(controlled: Controlled) -> None:
    session_id = await registered(controlled, "fcm", "tokén of any form {}")
    waiting = asyncio.create_task(controlled.control.sent(channel="fcm", topic=session_id, wait=20))
    await until_waiting(controlled.server, 1)
    await controlled.server.request_call(session_id, dapp_name="Example")
    (sent,) = await waiting
    assert await controlled.control.forget_sent() == 1
    assert await controlled.control.sent() == []
    message = sent.payload["message"]
    assert (sent.token, message["token"]) == ("tokén of any form {}", "tokén of any form {}")
    assert (sent.title, sent.body) == (message["notification"]["title"], message["notification"]["body"])
    assert (sent.topic, sent.outcome) == (session_id, "delivered")


async def test_other_pushes_are_what_their_receivers_would_read(controlled: Controlled) -> None:
    async with open_receiver() as receiver:
        sent = {}
        for name, channel in (("apn", "apns"), ("webpush", "webpush"), ("webhook", "webhook-push")):
            token = receiver.url() if name == "webhook" else "no subscription at all"
            session_id = await registered(controlled, name, token)
            await controlled.server.request_call(session_id)
            [sent[name]] = await controlled.control.sent(channel=channel, topic=session_id, wait=20)

        apns, web = sent["apn"], sent["webpush"]
        assert apns.headers["apns-push-type"] == "alert"
        assert apns.payload["aps"]["alert"] == {"title": apns.title, "body": apns.body}
        assert (web.payload["title"], web.payload["data"]["topic"]) == (web.title, web.topic)
        assert sent["webhook"].url == receiver.url()
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


async def recorded(controlled: Controlled) -> list[RecordedRequest]:
    """The recorded requests, but for those of the metrics that tests read."""
    requests = (await controlled.control.traffic()).requests
    return [each for each in requests if each.route != "metrics"]


async def test_requests_are_recorded_in_order_with_headers_and_bodies(controlled: Controlled) -> None:
    session_id = await controlled.server.open_session()
    call_id = await controlled.server.request_call(session_id)

    first, second = await recorded(controlled)

    assert (first.number, second.number) == (1, 2)
    assert (first.who, first.method, first.route, first.status) == ("dapp", "POST", "open-session", 200)
    path = f"/session/{session_id}"
    assert second.path == f"{path}/call/new"
    assert second.request["body"] == '{"encryptionPayload": "call", "dappName": "Dapp"}'
    assert second.request["headers"]["Content-Type"] == "application/json"
    assert second.answer["body"] == f'{{"callId":"{call_id}"}}'
    assert second.summary == f"call {call_id[:8]} · Dapp · payload 49 B"
    assert second.milliseconds >= 0
    body = b'{"encryptionPayload":"x","push":{"type":"fcm","token":"t","webhook":"https://push.example"}}'
    await controlled.send("PUT", path, body)
    await controlled.send("POST", f"{path}/call/new", b'{"encryptionPayload": "x"}')
    await controlled.get("/nowhere")
    put, refused, unrouted = (await recorded(controlled))[2:]
    assert (put.who, put.summary) == ("wallet", f"payload {len(body)} B · push fcm")
    assert (refused.status, refused.summary.split()[0]) == (400, "#/dappName")
    assert (unrouted.status, unrouted.route) == (404, "unrouted")


async def test_a_record_has_the_wait_no_secrets_and_a_cut_body(controlled: Controlled) -> None:
    session_id = await controlled.server.open_session()
    body, path = b'{"encryptionPayload": "%s"}' % (b"x" * 20_000), f"/session/{session_id}"
    async with parked(controlled, f"{path}?wait=20") as poll:
        await controlled.send("PUT", path, body, Authorization="Bearer secret", Cookie="secret")
        await poll
    found = {each.route: each for each in await recorded(controlled)}
    assert found["session"].waited > 0
    assert [found[route].waited for route in ("open-session", "update-session")] == [0, 0]
    sent = found["update-session"].request
    assert (sent["headers"]["Authorization"], sent["headers"]["Cookie"]) == ("…", "…")
    assert (len(sent["body"]), sent["bytes"]) == (16 * 1024, len(body))


async def test_calls_of_the_wallet_are_known_by_their_methods(tmp_path: Path) -> None:
    async with controlling(tmp_path / "data", dev_accounts=True) as controlled:
        rpc = RpcClient(controlled.server)
        await rpc.call("personal_sign", "0x68", DEVELOPMENT_ADDRESS)
        await rpc.error("eth_sign", DEVELOPMENT_ADDRESS)
        await controlled.send("POST", "/rpc", b"{}", Origin="https://evil.example")
        signed, refused, page = await recorded(controlled)
        assert (signed.who, signed.summary) == ("rpc", "personal_sign")
        assert refused.summary.startswith("eth_sign · -32602 ")
        assert (page.who, page.status) == ("page", 403)
        assert "https://evil.example" in page.summary


async def test_control_routes_are_not_recorded_and_a_wait_gets_what_comes(controlled: Controlled) -> None:
    queries = ["sent?channel=fmc", "sent?wait=soon", "sent?wait=-1", "traffic?after=x", "traffic?wait=x"]
    for query in queries:
        assert (await controlled.send("GET", f"/_test/{query}")).problem(400)["detail"], query
    assert (await controlled.control.traffic()).requests == []
    waiting = asyncio.create_task(controlled.control.traffic(wait=20))
    await controlled.get("/hello")
    assert [each.route for each in (await waiting).requests] == ["hello"]
