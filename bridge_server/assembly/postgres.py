"""The parts of the server that only PostgreSQL needs."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager

from bridge_server.assembly.carried_events import CARRIED
from bridge_server.assembly.postgres_overrides import HEAVY, OVERRIDES
from bridge_server.kernel.events import Events
from bridge_server.settings.checks import secret_of
from bridge_server.settings.settings import Settings
from bridge_server.storage.migrate import NewerSchemaError
from bridge_server.storage.postgres.crossing import opened_with_wake_ups
from bridge_server.storage.postgres.database import PostgresDatabase
from bridge_server.storage.postgres.migrate import packaged_migrations, require_known
from bridge_server.storage.postgres.opening import examined, opened
from bridge_server.storage.postgres.outside import OutsideCommits
from bridge_server.storage.refusal import DatabaseRefusedError

__all__ = ["database_fault", "opened_postgres", "outside_changes", "postgres_engine"]


def postgres_engine(settings: Settings, events: Events) -> PostgresDatabase:
    """The database that the settings name. Nothing is opened."""
    url = secret_of(settings.database)
    assert url is not None
    direct_url = secret_of(settings.database_direct)
    return PostgresDatabase(url, events, OVERRIDES, direct_url=direct_url, heavy=HEAVY)


def opened_postgres(
    database: PostgresDatabase, events: Events, url: str, *, may_create: bool, hears: bool
) -> AbstractAsyncContextManager[None]:
    """The database, brought up to date and open.

    Other processes are told of its commits; it `hears` of theirs if it waits for any. One without any schema
    is refused unless `may_create`. Raises DatabaseRefusedError, NewerSchemaError.
    """
    return opened(opened_with_wake_ups(database, events, CARRIED, hears=hears), url, may_create=may_create)


def outside_changes(database: PostgresDatabase) -> Callable[[], Awaitable[bool]]:
    """A function that tells whether another process has committed something since it was last called."""
    return OutsideCommits(database).have_come


def database_fault(settings: Settings) -> str | None:
    """Why a server with these settings could not use the database; None if it could."""
    try:
        asyncio.run(_examine(settings))
    except (DatabaseRefusedError, NewerSchemaError) as error:
        return str(error)
    return None


async def _examine(settings: Settings) -> None:
    for url in dict.fromkeys(filter(None, map(secret_of, (settings.database, settings.database_direct)))):
        async with examined(url) as connection:
            await require_known(connection, packaged_migrations()[-1].version)
