"""Ten thousand queued pushes, by a bare aiohttp client that posts the same bodies to the same local server.

As many requests at once on both sides. The pushes are in the database before the server starts, and become
due together once it has come to rest, so that neither its start nor theirs is counted. A rate is that of the
receiving server, from the first push to the last; a CPU time is all of the process until the outbox is empty
and its log checkpointed. `cpu_ratio` is the client's CPU time divided by the server's.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import orjson
from bare_pushes import post_all
from cores import keep_on_first_core
from plan import Plan
from processes import MeasurementError, started_server
from push_receiver import Received, started_receiver
from push_seed import FCM_PROJECT, fcm_urls, fill_outbox, notices, owed, write_service_account
from report import Figures, Result, Target, spread

from bridge_server.outbox.models import OutgoingMessage
from bridge_server.push.notices import read_notice
from bridge_server.push.providers.fcm_message import message

PUSHES = 10_000
_LEAD_SECONDS = 6.0
_SETTLE_SECONDS = 1.3
_LIMIT_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Channel:
    """What is queued for a receiver, how the server finds it, and what comes out, where it is posted to."""

    name: str
    at_once: int
    queued: Callable[[str], list[OutgoingMessage]]
    environment: Callable[[str, Path], dict[str, str]]
    path: str
    headers: Callable[[OutgoingMessage], dict[str, str]]
    body: Callable[[OutgoingMessage], bytes]


def _fcm_environment(url: str, folder: Path) -> dict[str, str]:
    account = folder / "bench-account.json"
    write_service_account(account, f"{url}/token")
    return {"BRIDGE_FCM_CREDENTIALS": str(account), "BRIDGE_FCM_ENDPOINT": url}


def _fcm_body(queued: OutgoingMessage) -> bytes:
    token = queued.url.partition(":")[2]
    return orjson.dumps(message(token, read_notice(queued), time.time_ns() // 1_000_000))


def _fcm(name: str, for_devices: bool) -> Channel:
    return Channel(
        name,
        64,
        lambda _: notices(PUSHES, fcm_urls(PUSHES), "fcm", for_devices),
        _fcm_environment,
        f"/v1/projects/{FCM_PROJECT}/messages:send",
        lambda _: {"Authorization": "Bearer ya29.local", "Content-Type": "application/json"},
        _fcm_body,
    )


CHANNELS = (
    _fcm("pushes-fcm", for_devices=False),
    _fcm("pushes-fcm-devices", for_devices=True),
    Channel(
        "pushes-webhook",
        4,
        lambda url: notices(PUSHES, [f"{url}/hook"], None, for_devices=False),
        lambda url, _: {"BRIDGE_ALLOW_PRIVATE_WEBHOOKS": "true"},
        "/hook",
        lambda queued: {
            "Content-Type": "application/json",
            "webhook-id": queued.message_id,
            "webhook-timestamp": str(time.time_ns() // 1_000_000_000),
        },
        lambda queued: queued.body,
    ),
)


@dataclass(frozen=True, slots=True)
class _Turn:
    """What one side has shown."""

    cpu_us: float
    received: Received
    grown_mib: float = 0.0
    written_bytes: float = 0.0


def measure_pushes(channel: Channel, plan: Plan) -> list[Result]:
    """Alternate the bare client and the server, each with a fresh receiver."""
    rounds = [(_bare(channel, plan), _server(channel, plan)) for _ in range(plan.rounds)]
    for bare, served in rounds:
        if bare.received.body_bytes != served.received.body_bytes:
            raise MeasurementError(f"not the same was sent: {bare.received} and {served.received}")
    memory: Figures = {
        "grown_mib": median(served.grown_mib for _, served in rounds),
        "least": min(served.grown_mib for _, served in rounds),
        "greatest": max(served.grown_mib for _, served in rounds),
    }
    return [
        Result(channel.name, _figures(rounds), Target("ratio", 0.6, at_least=True)),
        Result(f"{channel.name}: memory at its peak", memory, Target("grown_mib", 24)),
    ]


def _bare(channel: Channel, plan: Plan) -> _Turn:
    with started_receiver(plan) as receiver, plan.folder() as folder:
        queued = channel.queued(receiver.url)
        bodies = [channel.body(one) for one in queued]
        url, headers = receiver.url + channel.path, channel.headers(queued[0])
        cpu_us = post_all(folder, url, channel.at_once, bodies, headers)
        return _Turn(cpu_us, receiver.received())


def _server(channel: Channel, plan: Plan) -> _Turn:
    with started_receiver(plan) as receiver, plan.folder() as folder:
        environment = channel.environment(receiver.url, folder)
        queued = channel.queued(receiver.url)
        due_at = time.time() + _LEAD_SECONDS
        fill_outbox(folder, queued, round(due_at * 1e3))
        with started_server(folder, environment) as server:
            keep_on_first_core(server.pid)
            server.wait_until_idle()
            server.forget_peak()
            before = server.resident_bytes()
            if receiver.received().count or time.time() > due_at:
                raise MeasurementError("the server took too long to start")
            time.sleep(max(0.0, due_at - 0.2 - time.time()))
            cpu, written = server.cpu_ns(), server.written_bytes()
            receiver.wait_for(len(queued))
            wait_until_empty(folder)
            time.sleep(_SETTLE_SECONDS)
            return _Turn(
                (server.cpu_ns() - cpu) / 1e3 / len(queued),
                receiver.received(),
                (server.peak_resident_bytes() - before) / 2**20,
                (server.written_bytes() - written) / len(queued),
            )


def wait_until_empty(folder: Path) -> None:
    """Return once every message has been taken off the outbox."""
    deadline = time.monotonic() + _LIMIT_SECONDS
    while left := owed(folder):
        if time.monotonic() > deadline:
            raise MeasurementError(f"{left:,} messages that were taken are still owed")
        time.sleep(0.1)


def _figures(rounds: Sequence[tuple[_Turn, _Turn]]) -> Figures:
    bare, served = [pair[0] for pair in rounds], [pair[1] for pair in rounds]
    return {
        "client_us": median(turn.cpu_us for turn in bare),
        "server_us": median(turn.cpu_us for turn in served),
        "cpu_ratio": median(client.cpu_us / server.cpu_us for client, server in rounds),
        "client_rate": median(turn.received.rate for turn in bare),
        "server_rate": median(turn.received.rate for turn in served),
        **spread([server.received.rate / client.received.rate for client, server in rounds]),
        "written_bytes": median(turn.written_bytes for turn in served),
    }
