"""Webhooks are counted to the client and the session that cause them, and none waits for another's."""

from pathlib import Path

import orjson
from aiohttp import web

from tests.support.asking import ask
from tests.support.bridge_client import BridgeClient
from tests.support.project import look
from tests.support.server import running_server
from tests.support.webhook_receiver import WebhookReceiver, hang, status

_COLUMNS = "client, subject, queue, url"


async def hang_or_answer(receiver: WebhookReceiver, request: web.BaseRequest) -> web.StreamResponse:
    return await (hang if request.path == "/hang" else status(200))(receiver, request)


async def test_twenty_calls_whose_webhook_hangs_delay_no_other_session_at_its_host(
    bridge: BridgeClient, receiver: WebhookReceiver
) -> None:
    receiver.otherwise = hang_or_answer
    stuck, honest = [await bridge.open_session() for _ in range(2)]
    for session_id, path in ((stuck, "/hang"), (honest, "/hook")):
        push = {"type": "fcm", "token": "token", "webhook": receiver.url(path)}
        assert (await bridge.update(session_id, push=push)).status == 200
    for _ in range(20):
        await bridge.request_call(stuck)
    await receiver.got(4)

    await bridge.request_call(honest)

    await receiver.got(5)
    assert orjson.loads(receiver.requests[4].body)["sessionId"] == honest


async def test_a_call_counts_to_its_client_and_to_its_session(tmp_path: Path) -> None:
    exempt = "192.0.2.77"
    async with running_server(tmp_path, trusted_proxies="127.0.0.1", quota_exempt=exempt) as server:
        session_id = await server.open_session()
        await BridgeClient(server).subscribe(session_id, "http://192.0.2.1:9/hook")
        call = orjson.dumps({"encryptionPayload": "x", "dappName": "Dapp"})
        for address in ("2001:db8:1:2:3::4", "198.51.100.7", "192.0.2.77"):
            path, headers = f"/session/{session_id}/call/new", {"X-Forwarded-For": address}
            assert (await ask(server, "POST", path, call, headers=headers)).status == 200

        whose = look(server, f"SELECT {_COLUMNS} FROM outbox ORDER BY id")

    assert [row[0] for row in whose] == ["2001:db8:1:2::/64", "198.51.100.7", None]
    assert {row[1:] for row in whose} == {(session_id, session_id, "http://192.0.2.1:9/hook")}
