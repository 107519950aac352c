"""Writes of the relay's store by 64 at once, on PostgreSQL and on SQLite, in a process of their own.

The figures are this process's CPU time per transaction. PostgreSQL is a private server with durable commits,
whose processes' own time is not in it.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median

from durable_postgres import durable_cluster
from machine import new_event_loop
from plan import Plan
from report import Row, row
from seed import PAYLOAD_BYTES

from bridge_server.kernel.events import Events
from bridge_server.kernel.secrets import IdMaker
from bridge_server.relay.models import CallId, Payload, SessionId, SessionUpdate, StoredCall
from bridge_server.relay.store import RelayStore
from bridge_server.storage.migrate import migrate, packaged_migrations
from bridge_server.storage.sqlite import SqliteDatabase

_WRITERS = 64
_NOW_MS, _END_MS = 0, 2**50
_PAYLOAD = Payload(b'{"data":"' + b"5a" * (PAYLOAD_BYTES // 2) + b'"}')
_ENGINES = ("sqlite", "postgres")


class _Writes:
    """The four writes of a conversation, each on ids that the one before it has made."""

    def __init__(self, store: RelayStore) -> None:
        self._store = store
        self._ids = IdMaker()
        self._sessions: list[SessionId] = []
        self._calls: list[CallId] = []

    async def session_new(self, number: int) -> None:
        session = SessionId(self._ids.ordered_uuid(number))
        await self._store.create_session(session, _END_MS)
        self._sessions.append(session)

    async def session_put(self, number: int) -> None:
        session = self._sessions[number % len(self._sessions)]
        await self._store.update_session(session, SessionUpdate(_PAYLOAD, None), _NOW_MS, _END_MS)

    async def call_new(self, number: int) -> None:
        session = self._sessions[number % len(self._sessions)]
        call = CallId(self._ids.ordered_uuid(number))
        stored = StoredCall(call, session, _PAYLOAD, _END_MS, _END_MS, 0)
        await self._store.add_call(stored, _NOW_MS, 1_000, lambda _: ())
        self._calls.append(call)

    async def status_new(self, number: int) -> None:
        call = self._calls[number % len(self._calls)]
        await self._store.set_status(call, _PAYLOAD, _NOW_MS, _END_MS)


_KINDS: dict[str, Callable[[_Writes, int], Awaitable[None]]] = {
    "session/new": _Writes.session_new,
    "session PUT": _Writes.session_put,
    "call/new": _Writes.call_new,
    "status/new": _Writes.status_new,
}


def measure_postgres_writes(plan: Plan) -> Iterator[Row]:
    """A row for each kind of write."""
    with (
        durable_cluster() as cluster,
        plan.folder() as folder,
        asyncio.Runner(loop_factory=new_event_loop) as runner,
    ):
        yield from runner.run(_measured(plan, folder, cluster.url()))


async def _measured(plan: Plan, folder: Path, url: str) -> list[Row]:
    count = plan.sized(4_000, 20_000)
    async with _sqlite_store(folder) as sqlite, _postgres_store(url) as postgres:
        writes = dict(zip(_ENGINES, (_Writes(sqlite), _Writes(postgres)), strict=True))
        rows = []
        for name, write in _KINDS.items():
            rounds: dict[str, list[tuple[float, float]]] = {engine: [] for engine in _ENGINES}
            for number in range(plan.rounds + 1):  # the first pays for preparations, and is not counted
                for engine in _ENGINES:
                    spent = await _spent(write, writes[engine], count)
                    rounds[engine] += [spent] if number else []
            rows.append(_row(name, count, rounds))
        return rows


def _row(name: str, count: int, rounds: dict[str, list[tuple[float, float]]]) -> Row:
    figures: dict[str, float] = {}
    for engine in _ENGINES:
        figures[f"{engine}_us"] = median(cpu for cpu, _ in rounds[engine]) / count * 1e6
        figures[f"{engine}_per_second"] = count / median(wall for _, wall in rounds[engine])
    pairs = zip(*(rounds[engine] for engine in _ENGINES), strict=True)
    figures["times"] = median(postgres[0] / sqlite[0] for sqlite, postgres in pairs)
    return row(f"store, {name}", figures)


async def _spent(
    write: Callable[[_Writes, int], Awaitable[None]], writes: _Writes, count: int
) -> tuple[float, float]:
    """Seconds of CPU time and of time for so many writes."""

    async def writer(place: int) -> None:
        for number in range(place, count, _WRITERS):
            await write(writes, number)

    cpu, wall = time.process_time(), time.perf_counter()
    await asyncio.gather(*(writer(place) for place in range(_WRITERS)))
    return time.process_time() - cpu, time.perf_counter() - wall


@asynccontextmanager
async def _sqlite_store(folder: Path) -> AsyncIterator[RelayStore]:
    file = folder / "bridge.sqlite3"
    migrate(file, packaged_migrations())
    database = SqliteDatabase(file, Events())
    async with database.opened():
        yield RelayStore(database)


@asynccontextmanager
async def _postgres_store(url: str) -> AsyncIterator[RelayStore]:
    from bridge_server.assembly.postgres_overrides import OVERRIDES  # noqa: PLC0415 - asyncpg is optional
    from bridge_server.storage.postgres import connection, migrate  # noqa: PLC0415
    from bridge_server.storage.postgres.database import PostgresDatabase  # noqa: PLC0415

    wire = await connection.connect(url, "bench")
    await migrate.migrate(wire)
    await wire.close()
    database = PostgresDatabase(url, Events(), OVERRIDES)
    async with database.opened():
        yield RelayStore(database)
