"""Rate limits and connections: token buckets are kept on disk, refusals are reported."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial

import structlog

from bridge_server.assembly.engine import shared_buckets_open
from bridge_server.assembly.foundation import Foundation
from bridge_server.assembly.room import Room, afterwards
from bridge_server.kernel.background import running
from bridge_server.kernel.errors import UnavailableError
from bridge_server.storage.database import Transaction
from bridge_server.web.bucket_store import BucketsSaved, BucketStore, save
from bridge_server.web.families import Family
from bridge_server.web.quotas import Quotas

_SAVE_SECONDS = 1.0

log = structlog.get_logger()


async def save_quotas(foundation: Foundation) -> None:
    """Commit, which saves the token buckets that have changed. Shared buckets are never unsaved."""
    quotas = foundation.quotas
    if isinstance(quotas, Quotas) and quotas.has_unsaved:
        await foundation.database.transaction(partial(save, []))


def limits_room(foundation: Foundation) -> Room:
    """Token buckets, connections, and the report of refused requests."""
    buckets = BucketStore(foundation.database)

    def gauges() -> dict[str, float]:
        return {**foundation.connections.figures(), "waiting_clients": foundation.signals.waiting}

    async def families() -> Sequence[Family]:
        rows: dict[tuple[str, ...], float] = {
            (limit,): count for limit, count in foundation.refusals.by_limit.items()
        }
        meaning = "Requests refused with 429, by the limit that refused them."
        return [Family("refused_requests", meaning, rows, ("limit",), is_total=True)]

    return Room(
        name="limits",
        running=(
            partial(_buckets_kept, foundation, buckets),
            lambda: running(foundation.refusals.report_forever()),
        ),
        emptied=(partial(afterwards, foundation.quotas.forget_all),),
        sweeps=(buckets.sweep,),
        gauges=gauges,
        families=families,
        totals=frozenset({"connections_cut", "connections_refused", "connections_silent"}),
    )


@asynccontextmanager
async def _buckets_kept(foundation: Foundation, buckets: BucketStore) -> AsyncIterator[None]:
    """Buckets are saved with every commit to a file, once a second when there is none, and at the end; or
    each charge is the database's.
    """
    quotas, file = foundation.quotas, foundation.database_file
    if not isinstance(quotas, Quotas) or file is None:
        async with shared_buckets_open(quotas):
            yield
        return
    quotas.restore(await buckets.load(foundation.clock.now_us()))

    def with_next_commit() -> Callable[[], Transaction[None]] | None:
        unsaved = quotas.take_unsaved()
        return partial(save, unsaved) if unsaved else None

    foundation.events.subscribe(BucketsSaved, lambda _: quotas.saved())
    file.add_commit_hook(with_next_commit)
    async with running(_save_forever(foundation)):
        yield
    quotas.forget_nothing()
    try:
        await save_quotas(foundation)
    except UnavailableError as error:
        log.warning("quotas_not_saved", reason=error.detail)


async def _save_forever(foundation: Foundation) -> None:
    while True:
        await asyncio.sleep(_SAVE_SECONDS)
        with suppress(UnavailableError):  # the next second tries again
            await save_quotas(foundation)
