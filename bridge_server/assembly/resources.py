"""What is open while the server runs, and closed on every path: the database, and work beside requests."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from time import perf_counter
from typing import TypeAlias

import structlog

from bridge_server.assembly.parts import Parts
from bridge_server.kernel.background import running
from bridge_server.kernel.errors import UnavailableError
from bridge_server.kernel.signals import Key
from bridge_server.storage.data_directory import held
from bridge_server.storage.database import Transaction
from bridge_server.storage.migrate import migrate, packaged_migrations
from bridge_server.wallet.approvals import Approvals
from bridge_server.web.bucket_store import BUCKETS_SAVED, saving

_QUOTA_SAVE_SECONDS = 1.0
_WATCH_SECONDS = 1.0
_WATCH_REST = 20
_EAGER_SECONDS = 0.1

log = structlog.get_logger()

Resource: TypeAlias = Callable[[Parts], AbstractAsyncContextManager[None]]
"""Opens something of the server's parts, and closes it on leaving."""


@asynccontextmanager
async def storage(parts: Parts) -> AsyncIterator[None]:
    """The database, brought up to date and kept from other servers."""
    with held(parts.settings.data_dir) as mode_before:
        if mode_before is not None:
            log.warning(
                "data_directory_made_private",
                directory=str(parts.settings.data_dir), mode="0700", mode_before=f"{mode_before:04o}",
            )  # fmt: skip
        saved = migrate(parts.database.path, packaged_migrations())
        if saved is not None:
            log.info("schema_upgraded", backup=str(saved))
        async with parts.database.opened():
            yield


@asynccontextmanager
async def quota_keeping(parts: Parts) -> AsyncIterator[None]:
    """Buckets are saved with the commits that go by, and once a second when none does; at the end, all."""
    parts.quotas.restore(await parts.buckets.load(parts.clock.now_us()))

    def with_next_commit() -> Callable[[], Transaction[None]] | None:
        unsaved = parts.quotas.take_unsaved()
        return saving(unsaved) if unsaved else None

    async def save_forever() -> None:
        while True:
            await asyncio.sleep(_QUOTA_SAVE_SECONDS)
            with suppress(UnavailableError):  # the next second tries again
                await parts.save_quotas()

    def notice(key: Key) -> None:
        if key == BUCKETS_SAVED:
            parts.quotas.saved()

    parts.signals.listen(notice)
    parts.database.ride_along(with_next_commit)
    async with running(save_forever()):
        yield
    parts.quotas.forget_nothing()
    try:
        await parts.save_quotas()
    except UnavailableError as error:
        log.warning("quotas_not_saved", reason=error.detail)


@asynccontextmanager
async def delivery(parts: Parts) -> AsyncIterator[None]:
    """The outbox is emptied."""
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(parts.sender)
        await stack.enter_async_context(parts.bridges)
        for provider in parts.push_channels.providers.values():
            await stack.enter_async_context(provider)
        await parts.dispatcher.start()
        try:
            yield
        finally:
            await parts.dispatcher.stop()


@asynccontextmanager
async def watching(parts: Parts) -> AsyncIterator[None]:
    """Commands write to the same database: what they put into the outbox is sent soon after, and what they
    approve is signed.
    """
    approvals = parts.wallet.approvals

    async def watch_forever() -> None:
        must_recount, rests_until = False, 0.0
        while True:
            await _pause(approvals)
            try:
                if await parts.database.has_changed_outside():
                    approvals.look_again()
                    must_recount = True
                started = perf_counter()
                if must_recount and started >= rests_until:
                    must_recount = False
                    await parts.dispatcher.recount()
                    rests_until = perf_counter() + _WATCH_REST * (perf_counter() - started)
            except Exception as error:  # the next time may go better
                log.warning("outside_changes_not_seen", error=str(error))

    async with running(watch_forever()):
        yield


async def _pause(approvals: Approvals) -> None:
    """Until it is time to look again: sooner when a decision is waited for."""
    if approvals.waiting:
        await asyncio.sleep(_EAGER_SECONDS)
        return
    with suppress(TimeoutError):
        async with asyncio.timeout(_WATCH_SECONDS):
            await approvals.some_wait()


@asynccontextmanager
async def streaming(parts: Parts) -> AsyncIterator[None]:
    """What comes into inboxes goes to the streams that are open."""
    streams = parts.inbox.streams
    async with running(streams.deliver_forever()), running(streams.keep_alive_forever()):
        yield


@asynccontextmanager
async def sockets(parts: Parts) -> AsyncIterator[None]:
    """What is published over sockets is stored, and dead sockets are found."""
    async with parts.pubsub.running(), parts.irn.running():
        yield


@asynccontextmanager
async def sweeping(parts: Parts) -> AsyncIterator[None]:
    """What has expired is deleted."""
    async with running(parts.sweeper.run_forever()):
        yield


@asynccontextmanager
async def reporting(parts: Parts) -> AsyncIterator[None]:
    """Who is refused for asking too often is told in the log."""
    async with running(parts.refusals.report_forever()):
        yield


@asynccontextmanager
async def signing(parts: Parts) -> AsyncIterator[None]:
    """The wallet signs, and what it was asked to send goes to the node."""
    wallet = parts.wallet
    await wallet.approvals.forget_waiting()
    async with wallet.audit.opened(), wallet.node, running(wallet.broadcaster.run_forever()):
        yield
        await wallet.approvals.withdrawn()


RESOURCES: tuple[Resource, ...] = (
    storage,
    quota_keeping,
    delivery,
    signing,
    watching,
    streaming,
    sockets,
    sweeping,
    reporting,
)
"""In the order in which they are opened."""
