"""Every message says what it serves, and only that is forgotten when its receiver is gone."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson
import pytest

from bridge_server.storage.migrate import migrate, packaged_migrations
from tests.support.asking import METRICS_TOKEN, until_delivered
from tests.support.bridge_client import BridgeClient
from tests.support.inbox_client import sign_in
from tests.support.project import look, opened_app
from tests.support.push_client import PushClient
from tests.support.server import running_server
from tests.support.webhook_receiver import WebhookReceiver, status

OPEN: dict[str, Any] = {"metrics_token": METRICS_TOKEN, "allow_private_webhooks": True}
SERVED = "SELECT purpose, subject, device_id FROM outbox ORDER BY purpose"
_LATER = 9_000_000_000_000
_HELD = f"""
INSERT INTO accounts (id, account_key) VALUES (1, 'account');
INSERT INTO devices (account, device_id, channel, address, created_at_ms)
VALUES (1, 'dev', 'webhook', '{{url}}', 5), (1, 'other', 'webhook', '{{url}}?other', 5);
INSERT INTO sessions (session_id, push_type, push_token, push_webhook, expires_at_ms)
VALUES ('called', 'log', 'token', '{{url}}', {_LATER}), ('other', 'log', 'token', '{{url}}', {_LATER});
INSERT INTO topic_webhooks (topic, webhook, expires_at_ms)
VALUES ('topic', '{{url}}', {_LATER}), ('other', '{{url}}', {_LATER});
INSERT INTO push_registrations (topic, bridge, channel, url, lane, peer_name, language, expires_at_ms)
VALUES ('pushed', 'https://a.test', 'webhook', '{{url}}', NULL, 'Dapp', 'en', {_LATER}),
       ('other', 'https://a.test', 'webhook', '{{url}}', NULL, 'Dapp', 'en', {_LATER});
"""
_BODIES: dict[str, object] = {
    "call": {"sessionId": "called", "callId": "c", "pushType": "log", "pushToken": "t", "dappName": "Dapp"},
    "topic": {"topic": "topic"},
    "dev.7": {"event": "notification", "id": "7", "project_id": "app", "title": "Title", "body": "Body"},
    "push": {"event": "request", "title": "Dapp", "body": "New request", "topic": "pushed", "bridge": "b"},
    "event": {"event": "subscribed", "number": 1, "project_id": "app", "account": "a"},
    "nothing": {},
    "list": ["topic"],
}


async def test_each_purpose_forgets_its_registration(tmp_path: Path, receiver: WebhookReceiver) -> None:
    receiver.otherwise, url = status(410), receiver.url()
    async with running_server(tmp_path / "data", **OPEN) as server, opened_app(server) as app:
        bridge, inbox = BridgeClient(server), await sign_in(server)
        session_id = await bridge.open_session()
        await bridge.update(session_id, push={"type": "log", "token": "token", "webhook": url})
        await bridge.subscribe(session_id, url)
        await PushClient(server).register(topic=session_id, type="webhook", token=url)
        device = (await inbox.add_device("webhook", url)).json
        await app.operator.projects.set_webhook(app.project_id, url)
        await inbox.subscribe(app.project_id)
        await server.request_call(session_id)
        await app.notify([inbox.account])
        await until_delivered(server)

        assert look(server, SERVED) == [
            ("call-webhook", session_id, None),
            ("device", app.project_id, device["id"]),
            ("project-event", app.project_id, None),
            ("push", session_id, None),
            ("topic-webhook", session_id, None),
        ]
        assert look(server, "SELECT push_webhook FROM sessions") == [(None,)]
        for table in ("topic_webhooks", "devices", "push_registrations"):
            assert look(server, f"SELECT * FROM {table}") == [], table
        assert look(server, "SELECT webhook_url FROM projects") == [(url,)]


@pytest.mark.sqlite("it begins with a file of an older version")
async def test_older_rows_tell_what_they_serve(tmp_path: Path, receiver: WebhookReceiver) -> None:
    receiver.otherwise, url = status(410), receiver.url()
    data_dir = tmp_path / "data"
    await asyncio.to_thread(data_dir.mkdir, mode=0o700)
    file = data_dir / "bridge.sqlite3"
    migrate(file, packaged_migrations()[:8])
    bodies = {**{name: orjson.dumps(body) for name, body in _BODIES.items()}, "binary": b"\xff{"}
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.executescript(_HELD.format(url=url))
        rows = [(name, f"http://127.0.0.1:{receiver.port}", url, body) for name, body in bodies.items()]
        connection.executemany(
            "INSERT INTO outbox (message_id, destination, url, body, created_at_ms, next_attempt_at_ms)"
            " VALUES (?, ?, ?, ?, 5, 5)",
            rows,
        )

    async with running_server(data_dir, **OPEN) as server:
        await until_delivered(server)

        assert look(server, SERVED) == [
            ("call-webhook", "called", None),
            ("device", "app", "dev"),
            ("project-event", "app", None),
            ("push", "pushed", None),
            ("topic-webhook", "topic", None),
            *[("unknown", None, None)] * 3,
        ]
        kept = "SELECT session_id FROM sessions WHERE push_webhook IS NOT NULL"
        assert look(server, kept) == [("other",)]
        for table, column in (("topic_webhooks", "topic"), ("push_registrations", "topic")):
            assert look(server, f"SELECT {column} FROM {table}") == [("other",)], table
        assert look(server, "SELECT device_id FROM devices") == [("other",)]
