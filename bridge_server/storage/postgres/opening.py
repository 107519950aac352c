"""The opening of a PostgreSQL database, and its examination before that."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import asyncpg

from bridge_server.storage.database import Engine
from bridge_server.storage.postgres.migrate import migrate, schema_version
from bridge_server.storage.postgres.refusals import refusals_told, require_usable
from bridge_server.storage.refusal import DatabaseRefusedError

_CONNECT_SECONDS = 10.0
_COMMAND_SECONDS = 600.0  # a migration may rewrite a table


@asynccontextmanager
async def opened(database: Engine, url: str, *, may_create: bool) -> AsyncIterator[None]:
    """The database, brought up to date and open.

    One without any schema is refused unless `may_create`. Raises DatabaseRefusedError, NewerSchemaError.
    """
    async with examined(url) as connection:
        if not may_create and not await schema_version(connection):
            raise DatabaseRefusedError(
                "the database has no tables: start the server, which makes them, or correct `database`"
            )
        await migrate(connection)
    async with AsyncExitStack() as stack:
        with refusals_told(url):
            await stack.enter_async_context(database.opened())
        yield


@asynccontextmanager
async def examined(url: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection to a database that can be used, for the length of the block.

    Raises DatabaseRefusedError, also in place of the errors that the block raises.
    """
    with refusals_told(url):
        connection = await asyncpg.connect(url, timeout=_CONNECT_SECONDS, command_timeout=_COMMAND_SECONDS)
        try:
            await require_usable(connection, url)
            yield connection
        finally:
            await connection.close(timeout=_CONNECT_SECONDS)
