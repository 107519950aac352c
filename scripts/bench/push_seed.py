"""Pushes that wait in the outbox, as notifications to many devices would have left them there."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import orjson
from Crypto.PublicKey import ECC, RSA
from seed import database_file, insert_many, sync

from bridge_server.kernel import base64url
from bridge_server.notify.device_notices import DEVICE
from bridge_server.outbox.models import OutgoingMessage
from bridge_server.push.keys import raw_public_key
from bridge_server.storage.migrate import migrate, packaged_migrations

FCM_PROJECT = "demo-wallet"
_SUBSCRIBED_KEYS = 16  # making one takes a millisecond, and what they are used for costs the same with all


def notices(count: int, urls: Sequence[str], lane: str | None, for_devices: bool) -> list[OutgoingMessage]:
    """Notifications to so many devices, each at one of the URLs."""
    return [
        OutgoingMessage(
            f"5e7d1c02-88f1-4a6e-9c3b-{number:012x}",
            urls[number % len(urls)],
            _notice(number),
            DEVICE,
            lane=lane,
            device_id=f"d0a1b2c3-88f1-4a6e-9c3b-{number:012x}" if for_devices else None,
        )
        for number in range(count)
    ]


def _notice(number: int) -> bytes:
    return orjson.dumps(
        {
            "event": "notification",
            "title": "Order filled",
            "body": "Your order to buy 0.25 ETH was filled at 3,112.40 USDC.",
            "url": f"https://app.example.com/orders/{number:012x}",
            "type": "c7a1e0c4-3f41-4f4c-9a39-6a5c0ad7ad5f",
            "account": "eip155:1:0x71C7656EC7ab88b098defB751B7401B5f6d8976F",
        }
    )


def fcm_urls(count: int) -> list[str]:
    """Registration tokens as FCM hands them out, about as long."""
    return [f"fcm:{number:022x}:APA91b{'Kx7_qZ' * 22}" for number in range(count)]


def webpush_urls(service: str) -> list[str]:
    """Subscriptions at that service, in the spelling in which they are kept."""
    return [f"webpush:{_subscription(service, number)}" for number in range(_SUBSCRIBED_KEYS)]


def _subscription(service: str, number: int) -> str:
    key = raw_public_key(ECC.generate(curve="P-256"))
    keys = {"auth": base64url.encode(bytes([number]) * 16), "p256dh": base64url.encode(key)}
    return orjson.dumps({"endpoint": f"{service}/push/{number:032x}", "keys": keys}).decode()


def write_service_account(file: Path, token_url: str) -> None:
    """A key file as the Firebase console hands it out."""
    account = {
        "type": "service_account",
        "project_id": FCM_PROJECT,
        "private_key_id": "0123456789abcdef0123456789abcdef01234567",
        "private_key": RSA.generate(2_048).export_key(pkcs=8).decode(),
        "client_email": f"pusher@{FCM_PROJECT}.iam.gserviceaccount.com",
        "token_uri": token_url,
    }
    file.write_bytes(orjson.dumps(account))


def fill_outbox(folder: Path, messages: Sequence[OutgoingMessage], due_at_ms: int) -> None:
    """Create the database of a data directory if there is none; the messages are due at that time."""
    migrate(database_file(folder), packaged_migrations())
    with closing(sqlite3.connect(database_file(folder), isolation_level=None)) as connection:
        connection.executescript("PRAGMA synchronous = OFF")
        connection.execute("BEGIN")
        connection.execute(
            "INSERT INTO accounts (id, account_key) VALUES (1, 'bench') ON CONFLICT DO NOTHING"
        )
        insert_many(connection, _INSERT_DEVICE, (_device(one) for one in messages if one.device_id))
        insert_many(connection, _INSERT_MESSAGE, (_row(message, due_at_ms) for message in messages))
        connection.execute("COMMIT")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    sync(database_file(folder))


def owed(folder: Path) -> int:
    """How many messages the outbox of a data directory holds."""
    file = database_file(folder)
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True, timeout=5)) as connection:
        ((count,),) = connection.execute("SELECT count(*) FROM outbox")
    return int(count)


_INSERT_DEVICE = (
    "INSERT INTO devices (device_id, account, channel, address, created_at_ms) VALUES (?, 1, ?, ?, 0)"
)
_INSERT_MESSAGE = """
INSERT INTO outbox (message_id, destination, url, body, device_id, created_at_ms, next_attempt_at_ms)
VALUES (?, ?, ?, ?, ?, ?, ?)
"""


def _device(message: OutgoingMessage) -> tuple[object, ...]:
    return message.device_id, message.channel, f"{message.url} {message.device_id}"


def _row(message: OutgoingMessage, due_at_ms: int) -> tuple[object, ...]:
    sent = message.message_id, message.destination, message.url, message.body, message.device_id
    return *sent, due_at_ms, due_at_ms
