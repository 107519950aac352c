"""Events cross between the processes on one database, in both directions."""

from collections.abc import AsyncIterator, Coroutine, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

from bridge_server.kernel.event_texts import EventTexts
from bridge_server.kernel.events import DomainEvent, Events
from bridge_server.storage.postgres.bell import Bell
from bridge_server.storage.postgres.connection import COMMITS_EARLY, connect
from bridge_server.storage.postgres.database import PostgresDatabase
from bridge_server.storage.postgres.ear import Ear


@asynccontextmanager
async def opened_with_wake_ups(
    database: PostgresDatabase, events: Events, carried: Iterable[type[DomainEvent]], *, hears: bool = True
) -> AsyncIterator[Ear | None]:
    """The database, open, with a bell for its commits; and with an ear, unless the process waits for nothing.

    The last ring follows the last commit. Raises what `database.opened` raises.
    """
    texts = EventTexts(carried)

    def wire(**settings: str) -> Coroutine[Any, Any, Any]:
        name = f"bridge-server/{database.number}"
        return connect(database.direct_url, name, is_pooled=False, **settings)

    bell = Bell(lambda: database.number, texts, partial(wire, **COMMITS_EARLY))
    database.add_commit_listener(bell.on_commit)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(bell.ringing())
        await stack.enter_async_context(database.opened())
        ear = None
        if hears:
            ear = database.ear = Ear(database.number, texts, events, bell, wire)
            await stack.enter_async_context(ear.listening())
        yield ear
