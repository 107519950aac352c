"""A server that starts over the database of an older version: it keeps a copy, and serves what is there."""

import re
import sqlite3
from contextlib import AsyncExitStack, closing
from pathlib import Path
from typing import Any

from bridge_server.storage.migrate import migrate, packaged_migrations
from bridge_server.storage.postgres.migrate import migrate as migrate_postgres
from bridge_server.storage.postgres.migrate import packaged_migrations as packaged_for_postgres
from tests.storage.notes import ask
from tests.support.admin_client import ADMIN_TOKEN, AdminClient
from tests.support.asking import METRICS_TOKEN, until_delivered
from tests.support.asking import ask as ask_server
from tests.support.bridge_client import BridgeClient
from tests.support.clock import ManualClock
from tests.support.inbox_client import sign_in
from tests.support.postgres import PostgresServer, connected
from tests.support.project import account, look, opened_app
from tests.support.push_client import PushClient
from tests.support.rpc_client import Wallet
from tests.support.server import running_server
from tests.support.socket_client import Identity, IrnClient, irn_connected, topic_of
from tests.support.webhook_receiver import open_receiver

_LATER = 9_000_000_000_000
_SESSION = f"""
INSERT INTO sessions (id, session_id, payload, expires_at_ms) VALUES (1, 'session', x'226122', {_LATER});
INSERT INTO calls (id, call_id, session, payload, expires_at_ms) VALUES (7, 'call', 1, x'226222', {_LATER});
INSERT INTO pending_calls (session, call, expires_at_ms) VALUES (1, 7, {_LATER});
INSERT INTO outbox (message_id, destination, url, body, created_at_ms, next_attempt_at_ms)
VALUES ('message', 'http://127.0.0.1:9', 'http://127.0.0.1:9/', x'7b7d', 5, {_LATER});
INSERT INTO buckets (limit_name, key, full_at_us) VALUES ('requests', '192.0.2.1', {_LATER}000);
"""
_DEVICES = f"""
INSERT INTO accounts (id, account_key) VALUES (1, '{{account}}');
INSERT INTO devices (id, device_id, account, channel, address, created_at_ms)
VALUES (1, 'web', 1, 'webhook', '{{url}}', 5), (2, 'log', 1, 'log', 'log:inbox', 6);
INSERT INTO outbox (message_id, destination, url, body, created_at_ms, next_attempt_at_ms)
VALUES ('web.7', '{{origin}}', '{{url}}', x'7b7d', 5, 5),
       ('log.7', 'unreadable', 'log:inbox', x'7b7d', 5, 5),
       ('dead', '{{origin}}', '{{url}}', x'7b7d', 5, NULL);
UPDATE outbox SET died_at_ms = 1800000000000, last_error = 'late' WHERE message_id = 'dead';
INSERT INTO topic_webhooks (topic, webhook, expires_at_ms) VALUES ('t', '{{url}}', {_LATER});
"""
_CALLS = f"""
INSERT INTO sessions (id, session_id, payload, push_type, push_token, push_webhook, expires_at_ms)
VALUES (1, 'open', NULL, NULL, NULL, NULL, {_LATER}),
       (4, 'paired', x'226122', 'log', 'token', 'https://example.org/hook', {_LATER + 4}),
       (5, 'ended', NULL, NULL, NULL, NULL, 0),
       (9, 'expired', x'226222', NULL, NULL, NULL, 5);
INSERT INTO calls (id, call_id, session, payload, expires_at_ms)
VALUES (3, 'second', 4, x'226322', {_LATER}), (2, 'first', 4, x'226422', {_LATER}),
       (6, 'answered', 4, x'226522', {_LATER}), (7, 'of-ended', 5, x'226622', {_LATER}),
       (8, 'lapsed', 4, x'226722', 5), (11, 'of-expired', 9, x'226822', {_LATER});
INSERT INTO pending_calls (session, call, expires_at_ms)
VALUES (4, 2, {_LATER}), (4, 3, {_LATER}), (4, 8, 5), (9, 11, {_LATER});
INSERT INTO call_statuses (call, payload, expires_at_ms)
VALUES (6, x'226922', {_LATER}), (7, x'226a22', {_LATER});
INSERT INTO topic_webhooks (topic, webhook, expires_at_ms)
VALUES ('paired', 'https://example.org/', {_LATER});
"""
_NOTIFICATIONS = """
INSERT INTO projects (id, project_id, name, created_at_ms, read_through) VALUES (1, 'app', 'App', 1, 2);
INSERT INTO notification_types (id, project, type_id, name, created_at_ms) VALUES (1, 1, 'news', 'News', 1);
INSERT INTO accounts (id, account_key) VALUES (1, 'test:chain:1'), (2, 'test:chain:2'), (3, 'test:chain:3');
INSERT INTO notifications (id, project, type, idempotency_key, title, body) VALUES
    (1, 1, 1, 'walk', 'Title', 'Body'), (2, 1, 1, NULL, 'Title', 'Body'), (3, 1, 1, 'gone', 'Title', 'Body');
INSERT INTO sendings (id, project, type, notification, sent_at_ms) VALUES
    (1, 1, 1, 1, 1800000000000), (2, 1, 1, 2, 1800000000001), (3, 1, 1, 1, 1800000000002);
INSERT INTO deliveries (account, sending, read_at_ms) VALUES
    (1, 1, 1800000000000), (2, 1, NULL), (3, 3, NULL), (1, 2, NULL);
INSERT INTO covered_accounts (notification, account) VALUES (1, 1), (1, 2), (1, 3), (3, 1);
"""


def make_older(tmp_path: Path, version: int, script: str) -> Path:
    """The data directory of a server whose schema has this version, with what the script writes into it."""
    data_dir = tmp_path / "data"
    data_dir.mkdir(mode=0o700)
    migrate(data_dir / "bridge.sqlite3", packaged_migrations()[:version])
    with closing(sqlite3.connect(data_dir / "bridge.sqlite3")) as connection:
        connection.executescript(script)
    return data_dir


async def test_sessions_of_the_first_version_are_served_and_a_project_publishes(tmp_path: Path) -> None:
    data_dir = make_older(tmp_path, 1, _SESSION)
    file = data_dir / "bridge.sqlite3"

    async with running_server(data_dir) as server, opened_app(server) as app:
        calls = (await ask_server(server, "GET", "/session/session/calls")).json
        await app.subscribe(account(1))
        sent = (await app.notify([account(1)])).json["sent"]

    assert calls == {"call": {"encryptionPayload": "b"}}
    assert sent == [account(1)]
    assert ask(file, "SELECT message_id, signing_secret FROM outbox") == [("message", None)]
    assert ask(file, "SELECT key FROM buckets WHERE limit_name = 'requests'") == [("192.0.2.1",)]
    assert ask(file, "PRAGMA foreign_key_check") == []
    assert (data_dir / "bridge.sqlite3.before-upgrade-from-1").exists()


async def test_devices_and_what_is_owed_to_them_are_kept_and_served(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"metrics_token": METRICS_TOKEN, "allow_private_webhooks": True}
    async with open_receiver() as receiver:
        held = _DEVICES.format(
            account=Wallet(1).account.replace("eip155:1:", "eip155:").lower(),
            url=receiver.url(),
            origin=f"http://127.0.0.1:{receiver.port}",
        )
        data_dir = make_older(tmp_path, 2, held)
        async with running_server(data_dir, **settings) as server, opened_app(server) as app:
            await until_delivered(server)
            inbox = await sign_in(server)
            await inbox.subscribe(app.project_id)
            log_again = (await inbox.add_device("log")).json
            await app.notify([inbox.account], title="after")
            await until_delivered(server)
            registered = await PushClient(server).register()
            devices = await inbox.devices()
            kept = look(server, "SELECT message_id, last_error, device_id FROM outbox")
            reached = look(server, "SELECT device_id, delivered_at_ms IS NOT NULL, lane FROM devices")

    delivered = [request.headers["webhook-id"].partition(".")[0] for request in receiver.requests]
    assert delivered == ["web", "web"]
    assert [(device["id"], device["channel"]) for device in devices] == [("web", "webhook"), ("log", "log")]
    assert log_again == devices[1]
    assert kept == [("dead", "late", None)]
    assert reached == [("web", 1, None), ("log", 1, "log")]
    assert registered.status == 200


async def test_stored_calls_are_served_answered_and_swept(tmp_path: Path) -> None:
    data_dir = make_older(tmp_path, 5, _CALLS)

    async with running_server(data_dir, clock=ManualClock()) as server:
        bridge = BridgeClient(server)
        sessions = [(await bridge.session(session_id)).status for session_id in ("open", "ended", "expired")]
        gone = [(await bridge.status(call_id)).status for call_id in ("of-ended", "of-expired", "lapsed")]
        payloads = [
            (await bridge.session("paired")).json["encryptionPayload"],
            (await bridge.call("paired", "first")).json["encryptionPayload"],
            (await bridge.status("answered")).json["encryptionPayload"],
        ]
        pending = await bridge.pending("paired")
        await bridge.answer("first")
        left = await bridge.pending("paired")

    assert sessions == [204, 404, 404]
    assert gone == [404, 404, 404]
    assert payloads == ["a", "d", "i"]
    assert (pending, left) == (["first", "second"], ["second"])


async def test_earlier_notifications_have_figures_and_outcomes(tmp_path: Path) -> None:
    data_dir = make_older(tmp_path, 10, _NOTIFICATIONS)

    async with running_server(data_dir, admin_token=ADMIN_TOKEN) as server:
        admin = AdminClient(server)
        listed = (await admin.get("/admin/projects/app/notifications")).json["notifications"]
        shown = (await admin.get("/admin/projects/app/notifications/1")).json

    assert [
        (one["number"], one["sent_at"], *(one["figures"][name] for name in ("sent", "read", "bulk_marked")))
        for one in listed
    ] == [
        (3, None, 0, 0, 0),
        (2, "2027-01-15T08:00:00.001Z", 1, 0, 1),
        (1, "2027-01-15T08:00:00.000Z", 3, 1, 1),
    ]
    assert [entry["outcome"] for entry in shown["accounts"]] == ["read", "bulk_marked", "sent"]


# Messages of generation 2.x from before subscriptions had places, in a file and in PostgreSQL

_BEFORE_PLACES = 13
TOPIC, OTHER, LEFT = topic_of("topic"), topic_of("other"), topic_of("left")
DAPP, ONE, TWO = Identity(), Identity(), Identity()


def key(identity: Identity) -> str:
    return identity.did.removeprefix("did:key:")


def message(number: int, topic: str, text: str, is_open: int = 0, expires_at_ms: int = _LATER) -> str:
    data = f'{{"topic":"{topic}","message":"{text}","publishedAt":1,"tag":0}}'
    blob = f"x'{data.encode().hex()}'"
    return f"({number}, '{topic}', {blob}, {len(data)}, '{key(DAPP)}', NULL, {is_open}, {expires_at_ms})"


_MESSAGES = f"""
INSERT INTO irn_subscriptions (client, topic, expires_at_ms)
VALUES ('{key(ONE)}', '{TOPIC}', {_LATER}), ('{key(TWO)}', '{TOPIC}', {_LATER});
INSERT INTO irn_messages (number, topic, data, size_bytes, sender, address, is_open, expires_at_ms)
VALUES {message(1, TOPIC, "for both")}, {message(2, TOPIC, "for two")}, {message(3, TOPIC, "for one")},
       {message(4, OTHER, "for the next", is_open=1)}, {message(5, TOPIC, "expired", expires_at_ms=5)},
       {message(6, LEFT, "for a client that has left")};
INSERT INTO irn_deliveries (client, number)
VALUES ('{key(ONE)}', 1), ('{key(TWO)}', 1), ('{key(TWO)}', 2), ('{key(ONE)}', 3), ('{key(ONE)}', 5),
       ('{key(TWO)}', 6);
"""


async def each_is_delivered(data_dir: Path, **settings: Any) -> None:
    async with running_server(data_dir, **settings) as server, AsyncExitStack() as stack:

        async def join(identity: Identity) -> IrnClient:
            return await stack.enter_async_context(irn_connected(server.client, server.url, identity))

        one, two, dapp, three = [await join(identity) for identity in (ONE, TWO, DAPP, Identity())]
        await one.subscribe(TOPIC)
        await two.subscribe(TOPIC)
        assert await one.messages(2) == ["for both", "for one"]
        assert await two.messages(2) == ["for both", "for two"]
        await three.subscribe(TOPIC, OTHER, LEFT)
        assert await three.messages(1) == ["for the next"]

        await dapp.publish(TOPIC, "for all three")
        for client in (one, two, three):
            assert await client.messages(1) == ["for all three"]
            await client.settled()
        again = await join(ONE)
        await again.subscribe(TOPIC)
        await again.nothing()


async def test_messages_that_wait_in_a_file_are_delivered(tmp_path: Path) -> None:
    await each_is_delivered(make_older(tmp_path, _BEFORE_PLACES, _MESSAGES))


async def test_messages_that_wait_in_postgres_are_delivered(tmp_path: Path, postgres: PostgresServer) -> None:
    url = await postgres.bare_database("places")
    async with connected(url) as connection:
        known = [each for each in packaged_for_postgres() if each.version <= _BEFORE_PLACES]
        await migrate_postgres(connection, known)
        await connection.execute(re.sub(r"\bx'", r"'\\x", _MESSAGES))
        await connection.execute(
            "SELECT setval('irn_message_numbers', 6);"
            "UPDATE irn_deliveries SET is_received = 1 WHERE number = 6;"
            f"INSERT INTO irn_deliveries (client, number, is_received) VALUES ('{key(ONE)}', 2, 1);"
        )
        await migrate_postgres(connection)
    await each_is_delivered(tmp_path / "data", database=url)
