"""Commands that write to the database of a running server, which then notices their changes."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from time import perf_counter
from typing import TypeAlias

import structlog

from bridge_server.assembly.room import Room
from bridge_server.kernel.background import running
from bridge_server.kernel.events import Events
from bridge_server.outbox.dispatcher import Dispatcher
from bridge_server.storage.events import ChangedOutside
from bridge_server.wallet.approvals import Approvals
from bridge_server.wallet.events import ApprovalsChanged

_WATCH_SECONDS = 1.0
_WATCH_REST = 20
_EAGER_SECONDS = 0.1

log = structlog.get_logger()


_HasChanged: TypeAlias = Callable[[], Awaitable[bool]]


def commands_room(
    has_changed: _HasChanged, dispatcher: Dispatcher, approvals: Approvals, events: Events
) -> Room:
    """Messages that a command queues are sent soon after, and requests that it approves are signed.

    `has_changed` tells whether a command has committed something since it was last asked. What an operator
    approves at another server on the database is signed at once.
    """
    events.subscribe_elsewhere(ApprovalsChanged, lambda _: approvals.look_again())
    events.on_gap(approvals.look_again)
    return Room(
        name="commands",
        running=(lambda: running(_watch_forever(has_changed, dispatcher, approvals, events)),),
    )


async def _watch_forever(
    has_changed: _HasChanged, dispatcher: Dispatcher, approvals: Approvals, events: Events
) -> None:
    must_recount, rests_until = False, 0.0
    while True:
        await _pause(approvals)
        try:
            if await has_changed():
                approvals.look_again()
                events.publish(ChangedOutside())
                must_recount = True
            started = perf_counter()
            if must_recount and started >= rests_until:
                must_recount = False
                await dispatcher.recount()
                rests_until = perf_counter() + _WATCH_REST * (perf_counter() - started)
        except Exception as error:  # the next time may go better
            log.warning("outside_changes_not_seen", error=str(error))


async def _pause(approvals: Approvals) -> None:
    """Wait until it is time to look again: sooner when a request waits for a decision."""
    if approvals.waiting:
        await asyncio.sleep(_EAGER_SECONDS)
        return
    with suppress(TimeoutError):
        async with asyncio.timeout(_WATCH_SECONDS):
            await approvals.some_wait()
