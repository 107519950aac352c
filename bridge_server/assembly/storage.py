"""The database's own rooms: opened and closed, swept, with token buckets, and shared with commands."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from time import perf_counter
from typing import TypeAlias

import structlog

from bridge_server.assembly.foundation import Foundation
from bridge_server.assembly.room import Room, afterwards
from bridge_server.kernel.background import running
from bridge_server.kernel.errors import UnavailableError
from bridge_server.kernel.events import Events
from bridge_server.kernel.sweeper import Sweeper
from bridge_server.outbox.dispatcher import Dispatcher
from bridge_server.storage.data_directory import held
from bridge_server.storage.database import ChangedOutside, Transaction
from bridge_server.wallet.approvals import Approvals, ApprovalsChanged
from bridge_server.web.limits import BucketsSaved, BucketStore, Quotas, save
from bridge_server.web.metrics import Family

log = structlog.get_logger()

_TOTALS = frozenset({"database_commits", "database_transactions"})


def storage_room(foundation: Foundation) -> Room:
    """The data directory and the database."""
    database = foundation.database
    return Room(
        name="storage",
        running=(partial(_opened, foundation),),
        gauges=lambda: {f"database_{name}": value for name, value in database.figures().items()},
        totals=_TOTALS if foundation.database_file is not None else _TOTALS | {"database_runs_again"},
        troubles=lambda: database.troubles,
    )


@asynccontextmanager
async def _opened(foundation: Foundation) -> AsyncIterator[None]:
    """The database is open, and no other server uses the data directory. Raises DataDirectoryError,
    DatabaseRefusedError, NewerSchemaError, sqlite3.Error.
    """
    data_dir = foundation.settings.data_dir
    with held(data_dir) as mode_before:
        if mode_before is not None:
            modes = {"mode": "0700", "mode_before": f"{mode_before:04o}"}
            log.warning("data_directory_made_private", directory=str(data_dir), **modes)
        async with foundation.backend.opened_for_server():
            yield


def sweeper_of(foundation: Foundation, rooms: Sequence[Room]) -> Sweeper:
    """The sweeps of these rooms, one after the other. A clock that tests move may jump."""
    sweeps = tuple(sweep for room in rooms for sweep in room.sweeps)
    settings, hold = foundation.settings, foundation.backend.sweeper_hold()
    return Sweeper(
        sweeps, foundation.clock, settings.sweep_interval, minds_jumps=not settings.test, hold=hold
    )


# Rate limits and connections: token buckets are kept on disk, refusals are reported.

_SAVE_SECONDS = 1.0


async def save_quotas(foundation: Foundation) -> None:
    """Commit, which saves the token buckets that have changed. Shared buckets are never unsaved."""
    quotas = foundation.quotas
    if isinstance(quotas, Quotas) and quotas.has_unsaved:
        await foundation.database.transaction(partial(save, []))


def limits_room(foundation: Foundation) -> Room:
    """Token buckets, connections, and the report of refused requests."""
    buckets, connections = BucketStore(foundation.database), foundation.connections

    async def families() -> Sequence[Family]:
        counts = foundation.refusals.by_limit.items()
        rows: dict[tuple[str, ...], float] = {(limit,): count for limit, count in counts}
        meaning = "Requests refused with 429, by the limit that refused them."
        return [Family("refused_requests", meaning, rows, ("limit",), is_total=True)]

    async def sweep(now_ms: int) -> int:
        if isinstance(foundation.quotas, Quotas):
            foundation.quotas.forget_full()
        return await buckets.sweep(now_ms)

    kept = partial(_buckets_kept, foundation, buckets)
    return Room(
        name="limits",
        running=(kept, lambda: running(foundation.refusals.report_forever())),
        emptied=(partial(afterwards, foundation.quotas.forget_all),),
        sweeps=(sweep,),
        gauges=lambda: {**connections.figures(), "waiting_clients": foundation.signals.waiting},
        families=families,
        totals=frozenset({"connections_cut", "connections_refused", "connections_silent"}),
    )


@asynccontextmanager
async def _buckets_kept(foundation: Foundation, buckets: BucketStore) -> AsyncIterator[None]:
    """Buckets of a file are saved with every commit, or once a second, and at the end."""
    quotas, file = foundation.quotas, foundation.database_file
    if not isinstance(quotas, Quotas) or file is None:
        async with foundation.backend.buckets_opened():
            yield
        return
    quotas.restore(await buckets.load(foundation.clock.now_us()))

    def with_next_commit() -> Callable[[], Transaction[None]] | None:
        unsaved = quotas.take_unsaved()
        return partial(save, unsaved) if unsaved else None

    foundation.events.subscribe(BucketsSaved, lambda _: quotas.saved())
    file.add_commit_hook(with_next_commit)

    async def save_forever() -> None:
        while True:
            await asyncio.sleep(_SAVE_SECONDS)
            with suppress(UnavailableError):  # the next second tries again
                await save_quotas(foundation)

    async with running(save_forever()):
        yield
    quotas.forget_nothing()
    try:
        await save_quotas(foundation)
    except UnavailableError as error:
        log.warning("quotas_not_saved", reason=error.detail)


_WATCH_SECONDS = 1.0
_WATCH_REST = 20
_EAGER_SECONDS = 0.1

_HasChanged: TypeAlias = Callable[[], Awaitable[bool]]


def commands_room(
    has_changed: _HasChanged, dispatcher: Dispatcher, approvals: Approvals, events: Events
) -> Room:
    """Sends what a command has queued, and signs what it has approved, once `has_changed` tells of it."""
    events.subscribe_elsewhere(ApprovalsChanged, lambda _: approvals.read_again())
    events.on_gap(approvals.read_again)
    watch = partial(_watch_forever, has_changed, dispatcher, approvals, events)
    return Room(name="commands", running=(lambda: running(watch()),))


async def _watch_forever(
    has_changed: _HasChanged, dispatcher: Dispatcher, approvals: Approvals, events: Events
) -> None:
    must_recount, rests_until = False, 0.0
    while True:
        if approvals.waiting:  # sooner when a request waits for a decision
            await asyncio.sleep(_EAGER_SECONDS)
        else:
            with suppress(TimeoutError):
                async with asyncio.timeout(_WATCH_SECONDS):
                    await approvals.some_wait()
        try:
            if await has_changed():
                approvals.read_again()
                events.publish(ChangedOutside())
                must_recount = True
            started = perf_counter()
            if must_recount and started >= rests_until:
                must_recount = False
                await dispatcher.recount()
                rests_until = perf_counter() + _WATCH_REST * (perf_counter() - started)
        except Exception as error:  # the next time may go better
            log.warning("outside_changes_not_seen", error=str(error))
