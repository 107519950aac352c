"""Pushes that wait in the outbox, as notifications to many devices would have left them there."""

import itertools
import time
from collections.abc import Sequence
from pathlib import Path

import orjson
from Crypto.PublicKey import ECC, RSA
from processes import MeasurementError
from seed import count_rows, filling

from bridge_server.kernel import base64url
from bridge_server.notify.device_notices import DEVICE
from bridge_server.outbox.models import OutgoingMessage
from bridge_server.push.keys import raw_public_key

FCM_PROJECT = "demo-wallet"
_SUBSCRIBED_KEYS = 16  # making one takes a millisecond, and with any of them a message costs as much
_LIMIT_SECONDS = 30.0
_NOTICE = {
    "event": "notification",
    "title": "Order filled",
    "body": "Your order to buy 0.25 ETH was filled at 3,112.40 USDC.",
    "url": "https://app.example.com/orders/0001",
    "type": "c7a1e0c4-3f41-4f4c-9a39-6a5c0ad7ad5f",
    "account": "eip155:1:0x71C7656EC7ab88b098defB751B7401B5f6d8976F",
}
_INSERT = """
INSERT INTO outbox (message_id, destination, url, body, purpose, created_at_ms, next_attempt_at_ms)
VALUES (?, ?, ?, ?, 'device', ?, ?)
"""


def notices(count: int, urls: Sequence[str], lane: str | None) -> list[OutgoingMessage]:
    """Notifications to so many devices, each at one of the URLs."""
    return [
        OutgoingMessage(
            f"5e7d1c02-88f1-4a6e-9c3b-{number:012x}", url, orjson.dumps(_NOTICE), DEVICE, lane=lane
        )
        for number, url in zip(range(count), itertools.cycle(urls), strict=False)
    ]


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
    """Put the messages, due at that time, into the database of a data directory."""
    with filling(folder) as connection:
        connection.executemany(
            _INSERT,
            [
                (each.message_id, each.destination, each.url, each.body, due_at_ms, due_at_ms)
                for each in messages
            ],
        )


def wait_until_empty(folder: Path) -> None:
    """Return once every message has been taken off the outbox."""
    deadline = time.monotonic() + _LIMIT_SECONDS
    while left := count_rows(folder, "SELECT count(*) FROM outbox"):
        if time.monotonic() > deadline:
            raise MeasurementError(f"{left:,} messages that were taken are still owed")
        time.sleep(0.1)
