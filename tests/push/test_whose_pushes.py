"""What is queued for devices says whom it is sent for."""

from pathlib import Path

import orjson

from tests.support.asking import ask
from tests.support.eventually import eventually
from tests.support.inbox_client import InboxClient
from tests.support.project import App, look
from tests.support.push_client import PushClient
from tests.support.push_services import FCM_TOKEN
from tests.support.server import RunningServer, running_server

NOWHERE = "http://192.0.2.1:9/hook"


async def whose_webhooks(server: RunningServer) -> list[tuple[object, ...]]:
    """Whom the webhooks are sent for, once there are some: that address takes none."""

    def found() -> list[tuple[object, ...]]:
        return look(server, "SELECT client, subject, queue FROM outbox WHERE url LIKE 'http:%' ORDER BY id")

    async def are_there() -> bool:
        return bool(found())

    await eventually(are_there)
    return found()


async def test_push_of_a_new_call_counts_for_its_caller(tmp_path: Path) -> None:
    exempt = "192.0.2.77"
    async with running_server(tmp_path, trusted_proxies="127.0.0.1", quota_exempt=exempt) as server:
        topic = await server.open_session()
        assert (await PushClient(server).register(topic=topic, type="webhook", token=NOWHERE)).status == 200
        call = orjson.dumps({"encryptionPayload": "x", "dappName": "Dapp"})
        headers = {"X-Forwarded-For": "198.51.100.7"}
        answer = await ask(server, "POST", f"/session/{topic}/call/new", call, headers=headers)
        assert answer.status == 200

        assert await whose_webhooks(server) == [("198.51.100.7", topic, topic)]


async def test_a_notification_counts_to_its_project_and_every_webhook_of_a_device_has_a_queue(
    app: App, subscriber: InboxClient
) -> None:
    devices = [(await subscriber.add_device("webhook", f"{NOWHERE}/{number}")).json for number in range(2)]
    server = app.server
    await subscriber.add_device("fcm", FCM_TOKEN)

    await app.notify([subscriber.account])

    (project_id,) = look(server, "SELECT project_id FROM projects")[0]
    assert await whose_webhooks(server) == [(None, project_id, device["id"]) for device in devices]
