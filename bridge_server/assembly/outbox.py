"""The outbox: what rooms have queued is delivered through the rooms' senders."""

import random
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from bridge_server.assembly.foundation import Foundation, noted
from bridge_server.assembly.room import Room
from bridge_server.assembly.system_routes import MEANINGS
from bridge_server.outbox.channels import PUBLIC_SCHEMES, Channels
from bridge_server.outbox.delivery import KEPT_MS, MOST_HOSTS, Delivery
from bridge_server.outbox.dispatcher import Dispatcher
from bridge_server.outbox.message_store import oldest_due_ms
from bridge_server.outbox.queues import Leases
from bridge_server.outbox.store import CountedStock, OutboxStore, StockOf
from bridge_server.web.metrics import Family

_STOCK = ("due", "dead")
"""Figures of the database: of several processes none has them in memory."""
_OLDEST = (
    "Seconds since the message that has been due the longest should have been sent; 0 when none is late. It "
    "grows when deliveries cannot keep up: alert on it."
)


def outbox_dispatcher(foundation: Foundation, rooms: Sequence[Room], leases: Leases) -> Dispatcher:
    """The dispatcher of the rooms' messages."""
    senders = {scheme: sender for room in rooms for scheme, sender in room.senders.items()}
    senders |= dict.fromkeys(PUBLIC_SCHEMES, foundation.public_sender)
    gone_handlers = {purpose: forget for room in rooms for purpose, forget in room.gone_handlers.items()}
    sender = noted(Channels(senders, otherwise=foundation.webhook_sender), foundation.observation)
    store, clock = OutboxStore(foundation.database), foundation.clock
    delivery = partial(Delivery, store, sender, clock, gone_handlers, random.random)
    return Dispatcher(store, delivery, foundation.events, clock, leases=leases)


def stock_of(foundation: Foundation, dispatcher: Dispatcher) -> StockOf:
    """Gives the numbers of pending messages and of dead letters: in memory, where there is one process."""
    if foundation.settings.database is None:
        return dispatcher.stock
    return CountedStock(OutboxStore(foundation.database).stock).now


def outbox_room(
    foundation: Foundation, rooms: Sequence[Room], leases: Leases, dispatcher: Dispatcher, stock: StockOf
) -> Room:
    """Delivery, and the dead letters that it leaves."""
    store = OutboxStore(foundation.database)
    dead_letters_kept_ms = foundation.settings.dead_letter_ttl * 1000

    async def sweep_dead_letters(now_ms: int) -> int:
        return await store.sweep(now_ms - dead_letters_kept_ms, now_ms - KEPT_MS, MOST_HOSTS)

    are_shared = foundation.settings.database is not None

    def gauges() -> dict[str, float]:
        left_out = _STOCK if are_shared else ()
        figures = dispatcher.figures().items()
        return {f"outbox_{name}": value for name, value in figures if name not in left_out}

    async def families() -> Sequence[Family]:
        now = await stock()
        due_at_ms = await oldest_due_ms(foundation.database) if now.due else None
        overdue_ms = 0 if due_at_ms is None else max(0, foundation.clock.now_ms() - due_at_ms)
        oldest = Family("outbox_oldest_due_seconds", _OLDEST, {(): overdue_ms / 1_000})
        counted = {"outbox_due": now.due, "outbox_dead": now.dead} if are_shared else {}
        return [*(Family(name, MEANINGS[name], {(): value}) for name, value in counted.items()), oldest]

    @asynccontextmanager
    async def delivery() -> AsyncIterator[None]:
        """The clients of all senders are open while the outbox delivers."""
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(foundation.webhooks)
            if foundation.public_webhooks is not foundation.webhooks:
                await stack.enter_async_context(foundation.public_webhooks)
            for client in (client for room in rooms for client in room.clients):
                await stack.enter_async_context(client())
            await stack.enter_async_context(leases.holding(dispatcher.destinations_in_use))
            await dispatcher.start()
            try:
                yield
            finally:
                await dispatcher.stop()

    return Room(
        name="outbox",
        running=(delivery,),
        stop=dispatcher.begin_nothing,
        emptied=(dispatcher.emptied,),
        catch_up=dispatcher.settle,
        sweeps=(sweep_dead_letters,),
        gauges=gauges,
        families=families,
        totals=frozenset({"outbox_delivered", "outbox_failed"}),
    )
