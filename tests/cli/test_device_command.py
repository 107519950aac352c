"""`device list`: the devices of an account and how deliveries to them go."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from bridge_server.storage.data_directory import held
from tests.cli.conftest import Invoke
from tests.cli.operating import Operating
from tests.support.admin_client import ETHEREUM
from tests.support.engines import database_of, settings_over
from tests.support.project import account
from tests.support.server import server_process

_ACCOUNT = (
    "INSERT INTO accounts (id, account_key) VALUES (1, 'eip155:0xab16a96d359ec26a11e2c2b3d8f8b8942d5bfcdb')"
)
_DEVICES = """
INSERT INTO devices
    (account, device_id, channel, address, created_at_ms, delivered_at_ms, failed_at_ms, last_error)
VALUES
    (1, 'first', 'fcm', 'fcm:secret-token', 1000, NULL, NULL, NULL),
    (1, 'second', 'apns', 'apns:secret-token', 2000, 5000, 4000, NULL),
    (1, 'third', 'webhook', 'https://secret-token.example', 3000, 5000, 6000, 'it answered 413'),
    (1, 'fourth', 'log', 'log:', 4000, NULL, 6000, 'it answered 503')
"""
_MESSAGE = """
INSERT INTO outbox
    (body, message_id, destination, url, created_at_ms, attempts, next_attempt_at_ms, device_id)
VALUES (?, ?, ?, ?, 5, ?, ?, ?)
"""
_LATER_MS = 9_000_000_000_000
_MESSAGES = [
    (b"{}", "a", "log", "log:", 0, _LATER_MS, "fourth"),
    (b"{}", "b", "log", "log:", 0, _LATER_MS, "fourth"),
    (b"{}", "c", "fcm", "fcm:secret-token", 0, _LATER_MS, None),
    (b"{}", "d", "https://secret-token.example:443", "https://x", 9, None, "third"),
]


@pytest.fixture
def operate(invoke: Invoke, tmp_path: Path) -> Operating:
    """On a database with four devices of one account."""
    operate = Operating(invoke, tmp_path / "data")
    operate.text("project", "create", "App")
    with database_of(settings_over(operate.data_dir)) as database:
        database.changed(_ACCOUNT)
        database.changed(_DEVICES)
        database.executemany(_MESSAGE, _MESSAGES)
    return operate


def test_every_device_has_a_line_and_none_an_address(operate: Operating) -> None:
    text = operate.text("device", "list", ETHEREUM)

    header, *lines, last = [line.split("  ") for line in text.splitlines()]
    assert [cell.strip() for cell in header if cell.strip()] == [
        "device", "channel", "state", "queued", "last delivered", "last error",
    ]  # fmt: skip
    assert [[cell.strip() for cell in line if cell.strip()] for line in lines] == [
        ["first", "fcm", "new", "0", "-", "-"],
        ["second", "apns", "delivered", "0", "1970-01-01T00:00:05.000Z", "-"],
        ["third", "webhook", "failed", "0", "1970-01-01T00:00:05.000Z", "it answered 413"],
        ["fourth", "log", "queued", "2", "-", "it answered 503"],
    ]
    assert last == [f"no server runs on {operate.data_dir}: queued messages wait for one"]
    assert "secret-token" not in text


def test_failing_provider_of_the_running_server_is_reported(operate: Operating) -> None:
    with server_process(operate.data_dir):
        quiet = operate.text("device", "list", account(1))
    with served("ready\nbut pushes by fcm have stopped: the key is revoked\n") as url, held(operate.data_dir):
        (operate.data_dir / "server.json").write_text(json.dumps({"url": url}))
        told = operate.text("device", "list", account(1))

    assert quiet == f"{account(1)} has no devices\n"
    assert told == f"{quiet}pushes by fcm have stopped: the key is revoked\n"


def test_silent_server_is_reported(operate: Operating) -> None:
    with held(operate.data_dir):
        (operate.data_dir / "server.json").write_text('{"url": "http://127.0.0.1:9"}')

        told = operate.text("device", "list", account(1))

    assert told.splitlines()[1:] == ["the server at http://127.0.0.1:9 does not answer"]


@contextmanager
def served(text: str) -> Iterator[str]:
    """Something that answers every request with this text; its URL."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_json_has_the_facts_of_the_admin_api(operate: Operating) -> None:
    devices = operate.json("device", "list", ETHEREUM.lower())["devices"]

    assert [(device["id"], device["state"], device["queued"]) for device in devices] == [
        ("first", "new", 0),
        ("second", "delivered", 0),
        ("third", "failed", 0),
        ("fourth", "queued", 2),
    ]
    assert devices[2] == {
        "id": "third",
        "channel": "webhook",
        "created_at": "1970-01-01T00:00:03.000Z",
        "state": "failed",
        "queued": 0,
        "delivered_at": "1970-01-01T00:00:05.000Z",
        "failed_at": "1970-01-01T00:00:06.000Z",
        "error": "it answered 413",
    }


def test_an_account_that_is_not_known_has_no_devices(operate: Operating) -> None:
    assert operate.json("device", "list", account(1)) == {"devices": []}
    assert operate.text("device", "list", account(1)) == f"{account(1)} has no devices\n"


def test_malformed_account_is_refused(operate: Operating) -> None:
    assert "nobody" not in operate.refusal("device", "list", "nobody")
