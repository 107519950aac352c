"""Devices of those who are sent to: told once each, from the outbox, and nobody else's.

White-box: no client can make the outbox fail at this moment.
"""

import asyncio
import sqlite3

import orjson
import pytest

from bridge_server.notify import store
from tests.support.asking import until_delivered
from tests.support.project import NEWS, OFFERS, App, accounts, execute, look
from tests.support.webhook_receiver import WebhookReceiver

A, B, C = accounts(3)


def add_device(app: App, spelled: str, device_id: str, address: str) -> None:
    execute(
        app.server,
        """
        INSERT INTO devices (device_id, account, channel, address, created_at_ms)
        VALUES (?, (SELECT id FROM accounts WHERE account_key = ?), 'webhook', ?, 0)
        """,
        device_id,
        spelled.replace("eip155:1:", "eip155:"),
        address,
    )


async def told(app: App, receiver: WebhookReceiver) -> list[tuple[str, str]]:
    """Path and account of each notice, once no message is pending."""
    await until_delivered(app.server)
    return sorted((request.path, orjson.loads(request.body)["account"]) for request in receiver.requests)


async def test_a_device_gets_every_field_of_a_notification(app: App, receiver: WebhookReceiver) -> None:
    spelled = A.replace("eip155:1:", "eip155:137:")
    await app.subscribe(spelled)
    add_device(app, A, "device-1", receiver.url("/a"))

    await app.notify([A], title="a\nb", body="“body”", url="https://example.org/")
    await until_delivered(app.server)

    (request,) = receiver.requests
    (number,) = look(app.server, "SELECT id FROM sendings")[0]
    assert request.path == "/a"
    assert request.headers["webhook-id"] == f"device-1.{number}"
    assert orjson.loads(request.body) == {
        "event": "notification",
        "id": str(number),
        "project_id": app.project_id,
        "project_name": "App",
        "account": spelled,
        "type": NEWS,
        "title": "a b",
        "body": "“body”",
        "url": "https://example.org/",
        "sent_at": "2027-01-15T08:00:00.000Z",
    }


async def test_every_device_of_a_recipient_gets_one_push(app: App, receiver: WebhookReceiver) -> None:
    await app.subscribe(A, B)
    for path, spelled in (("/a1", A), ("/a2", A), ("/b", B)):
        add_device(app, spelled, f"device{path}", receiver.url(path))

    await app.notify([A, A], "x", title="first")
    await app.notify([A, B], "x", title="second")

    assert await told(app, receiver) == [("/a1", A), ("/a2", A), ("/b", B)]
    assert {orjson.loads(request.body)["title"] for request in receiver.requests} == {"first"}
    assert len({request.headers["webhook-id"] for request in receiver.requests}) == 3


async def test_other_accounts_get_no_push(app: App, other_app: App, receiver: WebhookReceiver) -> None:
    limited, without_type, left, stranger = accounts(4)
    await app.operator.projects.limit_accounts(app.project_id, 1, 1)
    await app.subscribe(limited, left)
    await app.notify([limited])
    await app.subscribe(without_type, types=[OFFERS])
    await app.unsubscribe(left)
    await other_app.subscribe(stranger)
    for spelled in (limited, without_type, left, stranger):
        add_device(app, spelled, f"device {spelled}", receiver.url())

    await app.notify([limited, without_type, left, stranger])

    assert await told(app, receiver) == []


async def test_notification_and_messages_are_stored_as_one(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    await app.subscribe(A, B)
    add_device(app, A, "device", "http://127.0.0.1:9/")

    def break_down(*_: object) -> None:
        raise sqlite3.IntegrityError("the disk is no more")

    with monkeypatch.context() as patch:
        patch.setattr(store, "enqueue_all", break_down)
        (await app.notify([A, B], "x")).problem(500)

    for table in ("notifications", "sendings", "deliveries", "covered_accounts", "account_buckets", "outbox"):
        assert look(app.server, f"SELECT count(*) FROM {table}") == [(0,)], table
    assert (await app.notify([A, B], "x")).json["sent"] == [A, B]


async def test_each_of_500_accounts_with_devices_is_told(app: App, receiver: WebhookReceiver) -> None:
    everybody = accounts(500)
    await app.subscribe(*everybody)
    for number, spelled in enumerate(everybody[::5]):
        add_device(app, spelled, f"device {number}", receiver.url(f"/{number}"))

    await asyncio.gather(*(app.notify(everybody) for _ in range(2)))

    assert len(await told(app, receiver)) == 200
    assert len({request.headers["webhook-id"] for request in receiver.requests}) == 200
