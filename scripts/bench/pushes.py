"""Queued pushes, by a bare aiohttp client that posts the same bodies to the same local push service.

As many requests at once on both sides. The pushes are in the database before the server starts, and become
due together once it has come to rest, so that neither its start nor theirs is counted. A rate is that of the
receiver, from the first push to the last; a CPU time is all of the process until the outbox is empty and its
log checkpointed.
"""

import asyncio
import gc
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import aiohttp
import orjson
from clients import fetch, run
from Crypto.PublicKey import RSA
from load import in_turns
from machine import keep_on_first_core, on_core
from plan import Plan
from processes import MeasurementError, Running, started_ceiling, started_server
from report import Figures, Row, row
from seed import count_rows, filling

from bridge_server.notify.service import DEVICE
from bridge_server.outbox.models import OutgoingMessage
from bridge_server.push.notices import read_notice
from bridge_server.push.providers.messages import fcm_message

_PUSHES = 10_000
_AT_ONCE = 64  # as many as the server sends to one service
_LEAD_SECONDS = 6.0
_SETTLE_SECONDS = 1.3
_LIMIT_SECONDS = 120.0
_PROJECT = "demo-wallet"
_MESSAGE_ID = "5e7d1c02-88f1-4a6e-9c3b-{:012x}"
_TOKEN = "{:022x}:APA91b" + "Kx7_qZ" * 22  # about as long as those that FCM hands out
_NOTICE = orjson.dumps(
    {
        "event": "notification",
        "title": "Order filled",
        "body": "Your order to buy 0.25 ETH was filled at 3,112.40 USDC.",
        "url": "https://app.example.com/orders/0001",
        "type": "c7a1e0c4-3f41-4f4c-9a39-6a5c0ad7ad5f",
        "account": "eip155:1:0x71C7656EC7ab88b098defB751B7401B5f6d8976F",
    }
)
_INSERT = """
INSERT INTO outbox (message_id, destination, url, body, purpose, created_at_ms, next_attempt_at_ms)
VALUES (?, 'fcm', ?, ?, 'device', ?, ?)
"""


def measure_pushes(plan: Plan) -> Iterator[Row]:
    """Alternate the server and the bare client, each with a fresh receiver."""
    figures = in_turns(plan.rounds, "rate", server=partial(_served, plan), client=partial(_bare, plan))
    if figures["server_body_bytes"] != figures["client_body_bytes"]:
        raise MeasurementError(f"not as much was sent by both: {figures}")
    yield row("pushes-fcm", figures)


@contextmanager
def _started_receiver(plan: Plan) -> Iterator[Running]:
    """The push service, on the core of the load."""
    with plan.folder() as folder, on_core(-1), started_ceiling(folder, "receive") as receiver:
        yield receiver


def _received(receiver: Running) -> Figures:
    """How many pushes have come with how many bytes in their bodies, and how many a second."""
    seen: dict[str, float] = orjson.loads(fetch(receiver.url, "GET", "/received").body)
    first_at, last_at = seen.pop("first_at"), seen.pop("last_at")
    return {**seen, "rate": (seen["count"] - 1) / (last_at - first_at) if last_at > first_at else 0.0}


def _bare(plan: Plan) -> Figures:
    with _started_receiver(plan) as receiver:
        url, now_ms = f"{receiver.url}/v1/projects/{_PROJECT}/messages:send", time.time_ns() // 1_000_000
        notice = read_notice(OutgoingMessage(_MESSAGE_ID.format(0), "fcm:any", _NOTICE, DEVICE, lane="fcm"))
        bodies = [
            orjson.dumps(fcm_message(_TOKEN.format(number), notice, now_ms)) for number in range(_PUSHES)
        ]
        with on_core(0):
            started = time.process_time_ns()
            run(_post_all(url, bodies, {"Authorization": "Bearer x", "Content-Type": "application/json"}))
            cpu_us = (time.process_time_ns() - started) / 1e3 / len(bodies)
        return {"us": cpu_us, **_received(receiver)}


async def _post_all(url: str, bodies: Sequence[bytes], headers: dict[str, str]) -> None:
    gc.enable()  # as in the server
    left = iter(bodies)

    async def post_in_turn(session: aiohttp.ClientSession) -> None:
        for body in left:
            async with session.post(url, data=body, headers=headers) as response:
                await response.read()
                response.raise_for_status()

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        await asyncio.gather(*(post_in_turn(session) for _ in range(_AT_ONCE)))


def _service_account(token_url: str) -> bytes:
    """The key file of a service account, as Google's console writes it."""
    return orjson.dumps(
        {
            "type": "service_account",
            "project_id": _PROJECT,
            "private_key_id": "0123456789abcdef0123456789abcdef01234567",
            "private_key": RSA.generate(2_048).export_key(pkcs=8).decode(),
            "client_email": f"pusher@{_PROJECT}.iam.gserviceaccount.com",
            "token_uri": token_url,
        }
    )


def _served(plan: Plan) -> Figures:
    with _started_receiver(plan) as receiver, plan.folder() as folder:
        account, due_at = folder / "bench-account.json", time.time() + _LEAD_SECONDS
        account.write_bytes(_service_account(f"{receiver.url}/token"))
        _fill_outbox(folder, round(due_at * 1e3))
        environment = {"BRIDGE_FCM_CREDENTIALS": str(account), "BRIDGE_FCM_ENDPOINT": receiver.url}
        with started_server(folder, environment) as server:
            keep_on_first_core(server.pid)
            server.wait_until_idle()
            if _received(receiver)["count"] or time.time() > due_at:
                raise MeasurementError("the server took too long to start")
            time.sleep(max(0.0, due_at - 0.2 - time.time()))
            cpu = server.cpu_ns()
            _wait_until_sent(folder)
            time.sleep(_SETTLE_SECONDS)
            cpu_us = (server.cpu_ns() - cpu) / 1e3 / _PUSHES
            return {"us": cpu_us, **_received(receiver)}


def _fill_outbox(folder: Path, due_at_ms: int) -> None:
    with filling(folder) as connection:
        rows = (
            (_MESSAGE_ID.format(number), f"fcm:{_TOKEN.format(number)}", _NOTICE, due_at_ms, due_at_ms)
            for number in range(_PUSHES)
        )
        connection.executemany(_INSERT, rows)


def _wait_until_sent(folder: Path) -> None:
    """Return once every message has been taken off the outbox."""
    deadline = time.monotonic() + _LIMIT_SECONDS
    while left := count_rows(folder, "SELECT count(*) FROM outbox"):
        if time.monotonic() > deadline:
            raise MeasurementError(f"of {_PUSHES:,} pushes {left:,} are not sent yet")
        time.sleep(0.1)
