"""Events cross between the processes on one database, in both directions."""

from collections.abc import AsyncIterator, Coroutine, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from bridge_server.kernel.event_texts import EventTexts
from bridge_server.kernel.events import DomainEvent, Events
from bridge_server.storage.postgres.bell import Bell
from bridge_server.storage.postgres.connection import COMMITS_EARLY, connect
from bridge_server.storage.postgres.database import PostgresDatabase
from bridge_server.storage.postgres.ear import Ear
from bridge_server.storage.postgres.silent_sessions import name_of_ear


@asynccontextmanager
async def opened_with_wake_ups(
    database: PostgresDatabase, events: Events, carried: Iterable[type[DomainEvent]], *, hears: bool = True
) -> AsyncIterator[Ear | None]:
    """The database, open, with a bell for its commits; and with an ear, unless the process waits for nothing.

    The last ring follows the last commit. Raises what `database.opened` raises.
    """
    texts = EventTexts(carried)

    def of_bell() -> Coroutine[Any, Any, Any]:
        return connect(database.direct_url, database.name, is_pooled=False, **COMMITS_EARLY)

    def of_ear() -> Coroutine[Any, Any, Any]:
        return connect(database.direct_url, name_of_ear(database.name))

    bell = Bell(lambda: database.number, texts, of_bell)
    database.add_commit_listener(bell.on_commit)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(bell.ringing())
        await stack.enter_async_context(database.opened())
        ear = None
        if hears:
            ear = database.ear = Ear(database.number, texts, events, bell, of_ear)
            await stack.enter_async_context(ear.listening())
        yield ear
