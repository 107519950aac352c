"""What one address does to everybody else with messages to many receivers of generation 2.x.

Its clients connect from 127.0.0.2, which no exemption covers, with the default quotas. An honest client
writes a session's payload meanwhile, again and again. Some loads are without limits: they show what the store
does with them.
"""

import asyncio
import http.client
import itertools
import os
import select
import signal
import sqlite3
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import aiohttp
import orjson
from clients import address
from cluster import with_cluster
from machine import new_event_loop
from plan import Plan
from processes import started_server
from report import Row, row

from bridge_server.kit.client.v2_session import ClientId

_ATTACKER = "127.0.0.2"
_EXEMPT = {"quota_exempt": "127.0.0.1/32"}
_UNLIMITED = {"max_topic_clients": "5000", "messages_burst": "1000000", "requests_burst": "1000000"}
_LOAD_SECONDS = 40.0
_REFILL_SECONDS = 11
_STOP_SECONDS = 90.0
_PUT_PAUSE_SECONDS = 0.02
_AT_ONCE = 50
_FOR_STOP = 10_000
_TABLES = ("irn_messages", "irn_subscriptions", "irn_calls")
_numbers = itertools.count(int(time.time() * 1_000_000))


class _Load(NamedTuple):
    """What is done to the server: `prepare` connects clients, `attack` is measured."""

    name: str
    prepare: Callable[["_Attack"], Awaitable[None]]
    attack: Callable[["_Attack"], Awaitable[None]]
    settings: dict[str, str] = {}


class _Attack:
    """The sockets of one address."""

    def __init__(self, urls: Sequence[str], session: aiohttp.ClientSession, stack: AsyncExitStack) -> None:
        self.urls = urls
        self.session = session
        self.stack = stack
        self.publishers: list[_Client] = []
        self.first_topic = 0
        self.answered = 0
        self.refused = 0

    async def join(self, url: str | None = None) -> "_Client":
        """A socket of a new client, which stays open."""
        token = ClientId().token("ws://bench", int(time.time()))
        socket = await self.session.ws_connect(f"{url or self.urls[0]}/?auth={token}", max_msg_size=0)
        client = _Client(socket, self)
        listening = asyncio.create_task(client.listen())
        self.stack.push_async_callback(_ended, listening, socket)
        return client


class _Client:
    """A socket. What `acknowledge` returns for a batch of ids of requests is acknowledged, in that order."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse, attack: _Attack) -> None:
        self.socket = socket
        self.attack = attack
        self.hold: int = 1
        self.held: list[int] = []
        self.acknowledges = False
        self._answers: dict[int, asyncio.Future[bool]] = {}

    def ask(self, method: str, params: Any) -> "asyncio.Future[bool]":
        """Send a call; the result says whether it was taken."""
        number = next(_numbers)
        self._answers[number] = done = asyncio.get_running_loop().create_future()
        frame = {"id": number, "jsonrpc": "2.0", "method": method, "params": params}
        sending = asyncio.ensure_future(self.socket.send_str(orjson.dumps(frame).decode()))
        sending.add_done_callback(lambda task: task.cancelled() or task.exception())
        return done

    async def listen(self) -> None:
        async for message in self.socket:
            frame = orjson.loads(message.data)
            if "method" not in frame:
                self._heard(frame)
            elif self.acknowledges:
                self.held.append(frame["id"])
                if len(self.held) >= self.hold:
                    for number in reversed(self.held):
                        await self.socket.send_str(f'{{"id":{number},"jsonrpc":"2.0","result":true}}')
                    self.held = []

    def _heard(self, answer: dict[str, Any]) -> None:
        done = self._answers.pop(answer["id"], None)
        is_taken = "error" not in answer
        self.attack.answered += is_taken
        self.attack.refused += not is_taken
        if done is not None and not done.done():
            done.set_result(is_taken)


async def _ended(listening: asyncio.Task[None], socket: aiohttp.ClientWebSocketResponse) -> None:
    listening.cancel()
    with suppress(asyncio.CancelledError, Exception):
        await listening
    response = socket._response
    if response.connection is not None and response.connection.transport is not None:
        response.connection.transport.abort()


def _topic(number: int) -> str:
    return f"{number:064x}"


def _both(number: int) -> list[str]:
    """A topic for the load, and one for the load in the middle of which the server is stopped."""
    return [_topic(number), _topic(number + _FOR_STOP)]


def _publication(topic: str) -> dict[str, Any]:
    return {"topic": topic, "message": "ping", "ttl": 300, "tag": 1108}


def _absent_receivers(keys: int, topics: int = 1) -> Callable[[_Attack], Awaitable[None]]:
    """Subscribe so many clients to each topic, and have them leave."""

    async def prepare(attack: _Attack) -> None:
        async def one(number: int) -> None:
            async with AsyncExitStack() as stack:
                alone = _Attack(attack.urls, attack.session, stack)
                client = await alone.join()
                await client.ask("irn_batchSubscribe", {"topics": _both(number % topics)})

        for first in range(0, keys * topics, _AT_ONCE):
            await _patiently(one, range(first, first + _AT_ONCE))

    return prepare


async def _patiently(work: Callable[[int], Awaitable[None]], numbers: Sequence[int]) -> None:
    """Do it for each number, also where a quota refuses a handshake for a while."""
    left = list(numbers)
    while left:
        outcomes = await asyncio.gather(*map(work, left), return_exceptions=True)
        left = [number for number, error in zip(left, outcomes, strict=True) if error is not None]
        if left:
            await asyncio.sleep(1)


def _present_receivers(keys: int, hold: int) -> Callable[[_Attack], Awaitable[None]]:
    """Subscribe so many clients that acknowledge `hold` messages at a time, the newest first."""

    async def prepare(attack: _Attack) -> None:
        async def one(number: int) -> None:
            client = await attack.join(attack.urls[number % len(attack.urls)])
            client.acknowledges, client.hold = True, hold
            await client.ask("irn_batchSubscribe", {"topics": _both(0)})

        await _patiently(one, range(keys))

    return prepare


def _publish(messages: int, topics: int = 1) -> Callable[[_Attack], Awaitable[None]]:
    async def attack(attacked: _Attack) -> None:
        if not attacked.publishers:
            attacked.publishers = [await attacked.join(url) for url in attacked.urls]
        asked = [
            attacked.publishers[number % len(attacked.publishers)].ask(
                "irn_publish", _publication(_topic(attacked.first_topic + number % topics))
            )
            for number in range(messages)
        ]
        await asyncio.wait(asked, timeout=_LOAD_SECONDS)

    return attack


def _subscribe_again(sockets: int, topics: int, rounds: int) -> Callable[[_Attack], Awaitable[None]]:
    async def attack(attacked: _Attack) -> None:
        while len(attacked.publishers) < sockets:
            attacked.publishers.append(await attacked.join())
        names = [_topic(attacked.first_topic + number) for number in range(topics)]
        asked = [
            client.ask("irn_batchSubscribe", {"topics": names})
            for _ in range(rounds)
            for client in attacked.publishers
        ]
        await asyncio.wait(asked, timeout=_LOAD_SECONDS)

    return attack


async def _nothing(_: _Attack) -> None:
    """Connect nobody before."""


def _loads(plan: Plan) -> Iterator[_Load]:
    """Three that were found, two that were invented, and two without limits."""
    most, many, few = plan.sized(60, 2_000), plan.sized(20, 200), plan.sized(5, 50)
    messages, topics, rounds = plan.sized(50, 1_000), plan.sized(50, 500), plan.sized(3, 100)
    some, held = plan.sized(3, 20), plan.sized(10, 200)
    sent = f"{messages:,} messages"
    yield _Load(f"{most:,} keys, {sent}", _absent_receivers(most), _publish(messages))
    yield _Load(f"{many:,} keys, {sent}", _absent_receivers(many), _publish(messages))
    yield _Load(
        f"{topics:,} topics over 8 sockets, {rounds} times", _nothing, _subscribe_again(8, topics, rounds)
    )
    yield _Load(
        f"{few} keys on each of {some} topics, {sent}", _absent_receivers(few, some), _publish(messages, some)
    )
    backwards = f"{few} keys that acknowledge backwards, {sent}"
    yield _Load(backwards, _present_receivers(few, held), _publish(messages))
    yield _Load(f"{backwards}, no limits", _present_receivers(few, held), _publish(messages), _UNLIMITED)
    yield _Load(f"{most:,} keys, {sent}, no limits", _absent_receivers(most), _publish(messages), _UNLIMITED)


def measure_fan_out(plan: Plan) -> Iterator[Row]:
    """What rows they cost, how long an honest client waits, and how long the server takes to stop."""
    for load in _loads(plan):
        with plan.folder() as folder:
            environment = _environment({**_EXEMPT, **load.settings})
            with (
                started_server(folder, environment) as server,
                asyncio.Runner(loop_factory=new_event_loop) as runner,
            ):
                figures = runner.run(_measured(load, plan, [server.url], server.pid, _rows_of_file(folder)))
            yield row(f"{load.name}, SQLite", figures)
        yield from with_cluster(plan, _on_postgres(load))


def _environment(settings: dict[str, str]) -> dict[str, str]:
    return {f"BRIDGE_{name.upper()}": value for name, value in settings.items()}


def _on_postgres(load: _Load) -> Any:
    async def measured(plan: Plan, folder: Path, cluster: Any) -> list[Row]:
        from tests.cluster.processes import processes_over  # noqa: PLC0415 - not a script's path

        settings: dict[str, Any] = {**_EXEMPT, **load.settings}
        async with processes_over(cluster.url(), folder, **settings) as pair:
            urls = [each.url for each in pair]
            figures = await _measured(load, plan, urls, pair[0].pid, _rows_of_cluster(cluster.url()))
            for each in pair:  # what it would still do is not measured
                each.process.kill()
        return [row(f"{load.name}, PostgreSQL with two processes", figures)]

    return measured


async def _measured(
    load: _Load, plan: Plan, urls: Sequence[str], pid: int, rows: Callable[[], Awaitable[dict[str, float]]]
) -> dict[str, float]:
    refill_seconds = plan.sized(1, _REFILL_SECONDS)
    connector = aiohttp.TCPConnector(limit=0, local_addr=(_ATTACKER, 0))
    async with (
        aiohttp.ClientSession(connector=connector) as session,
        AsyncExitStack() as stack,
    ):
        attack = _Attack(urls, session, stack)
        await load.prepare(attack)
        await asyncio.sleep(refill_seconds)
        figures: dict[str, float] = {}
        async with _honest(urls) as waits:
            began = time.perf_counter()
            await load.attack(attack)
            figures["seconds"] = time.perf_counter() - began
        figures |= {"taken": float(attack.answered), "refused": float(attack.refused)}
        figures |= {"put_median_ms": median(waits), "put_most_ms": max(waits), **await rows()}
        await asyncio.sleep(refill_seconds)
        attack.first_topic = _FOR_STOP
        attacking = asyncio.ensure_future(load.attack(attack))
        await asyncio.sleep(0.5)
        figures["stop_seconds"] = await _stopped(pid)
        attacking.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await attacking
    return figures


@asynccontextmanager
async def _honest(urls: Sequence[str]) -> AsyncIterator[list[float]]:
    """Milliseconds of each write of an exempt client at every process, once the block is left.

    The client is a process of its own, so that it does not wait for the load's.
    """
    waits: list[float] = []
    writers = [
        await asyncio.create_subprocess_exec(
            sys.executable, __file__, url, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        for url in urls
    ]
    for writer in writers:
        assert writer.stdout is not None
        await writer.stdout.readline()  # its first write is done
    try:
        yield waits
    finally:
        for writer in writers:
            said, _ = await writer.communicate(b"")  # which ends its input
            waits += orjson.loads(said)


def _write_until_told(url: str) -> None:
    """Write a session's payload again and again until the input ends; print how long each write took."""
    connection = http.client.HTTPConnection(*address(url), timeout=120)
    connection.request("POST", "/session/new")
    path = f"/session/{orjson.loads(connection.getresponse().read())['sessionId']}"
    body = orjson.dumps({"encryptionPayload": "sealed"})

    def write() -> float:
        began = time.perf_counter()
        connection.request("PUT", path, body, {"Content-Type": "application/json"})
        connection.getresponse().read()
        return (time.perf_counter() - began) * 1e3

    write()
    print("writes", flush=True)
    waits, is_over = [], False
    while not is_over:
        is_over = bool(select.select([sys.stdin], [], [], _PUT_PAUSE_SECONDS)[0])
        waits.append(write())
    print(orjson.dumps(waits).decode())


async def _stopped(pid: int) -> float:
    """Seconds from SIGTERM to the end of the process, which is somebody's child here."""
    began = time.perf_counter()
    os.kill(pid, signal.SIGTERM)
    while time.perf_counter() - began < _STOP_SECONDS and _is_running(pid):  # noqa: ASYNC110 - no child
        await asyncio.sleep(0.02)
    return time.perf_counter() - began


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def _rows_of_file(folder: Path) -> Callable[[], Awaitable[dict[str, float]]]:
    async def rows() -> dict[str, float]:
        file = folder / "bridge.sqlite3"
        with sqlite3.connect(f"file:{file}?mode=ro", uri=True) as connection:
            known = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
            counts = [
                connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
                for table in _TABLES
                if table in known
            ]
        log = folder / "bridge.sqlite3-wal"
        return {
            "rows": float(sum(counts)),
            "database_mib": file.stat().st_size / 2**20,
            "log_mib": log.stat().st_size / 2**20,
        }

    return rows


def _rows_of_cluster(url: str) -> Callable[[], Awaitable[dict[str, float]]]:
    async def rows() -> dict[str, float]:
        from tests.support.postgres import connected  # noqa: PLC0415 - not a script's path

        async with connected(url) as wire:
            counts = [
                await wire.fetchval(f"SELECT count(*) FROM {table}")
                for table in _TABLES
                if await wire.fetchval("SELECT to_regclass($1)::text", table)
            ]
            size = await wire.fetchval("SELECT pg_database_size(current_database())")
            log = await wire.fetchval("SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint")
        return {"rows": float(sum(counts)), "database_mib": size / 2**20, "log_mib": log / 2**20}

    return rows


if __name__ == "__main__":
    _write_until_told(sys.argv[1])
