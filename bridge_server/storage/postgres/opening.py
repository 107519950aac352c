"""The opening of a PostgreSQL database, and its examination before that."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress

import asyncpg
import structlog

from bridge_server.storage.database_url import url_without_password
from bridge_server.storage.postgres.failures import WIRE_FAILURES
from bridge_server.storage.postgres.migrate import MigrationError, migrate, schema_state
from bridge_server.storage.postgres.refusals import refusals_told, require_usable
from bridge_server.storage.refusal import DatabaseRefusedError

_CONNECT_SECONDS = 10.0
_CLOSE_SECONDS = 5.0
_COMMAND_SECONDS = 20.0

log = structlog.get_logger()


@asynccontextmanager
async def opened(
    database: AbstractAsyncContextManager[object], url: str, *, may_create: bool
) -> AsyncIterator[None]:
    """Bring the database of the URL up to date, and enter the context that holds it open.

    One without any schema is refused unless `may_create`. Raises DatabaseRefusedError, NewerSchemaError.
    """
    async with examined(url) as connection:
        if not may_create and not (await schema_state(connection)).version:
            raise DatabaseRefusedError(
                f"the database {url_without_password(url)} has no tables: start the server, which makes them"
                ", or correct `database`"
            )
        await _bring_up_to_date(connection, url)
    async with AsyncExitStack() as stack:
        with refusals_told(url):
            await stack.enter_async_context(database)
        yield


async def _bring_up_to_date(connection: asyncpg.Connection, url: str) -> None:
    try:
        applied = await migrate(connection)
    except MigrationError as error:
        raise DatabaseRefusedError(f"the database {url_without_password(url)}: {error}") from error
    if applied:
        log.info("schema_upgraded", database=url_without_password(url), version=applied[-1])


@asynccontextmanager
async def examined(url: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection to a database that can be used, for the length of the block.

    Raises DatabaseRefusedError, also in place of the errors that the block raises.
    """
    with refusals_told(url):
        connection = await asyncpg.connect(
            url,
            timeout=_CONNECT_SECONDS,
            command_timeout=_COMMAND_SECONDS,
            statement_cache_size=0,
        )
        try:
            await require_usable(connection, url)
            yield connection
        finally:
            with suppress(*WIRE_FAILURES):
                await connection.close(timeout=_CLOSE_SECONDS)
