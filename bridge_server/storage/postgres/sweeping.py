"""One process sweeps at a time: an advisory lock of the session that hears the other processes."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress

from bridge_server.kernel.errors import UnavailableError
from bridge_server.storage.database import Turn
from bridge_server.storage.postgres.database import PostgresDatabase
from bridge_server.storage.postgres.ear import Ear
from bridge_server.storage.postgres.turns import lock_key

_KEY = lock_key(Turn("sweeper"))
_TRY = "SELECT pg_try_advisory_lock($1)"
_LET_GO = "SELECT pg_advisory_unlock($1)"


def sweeper_hold(database: PostgresDatabase) -> Callable[[], AbstractAsyncContextManager[bool]]:
    """A function that gives the context of one sweep, and with it whether this process is to sweep.

    A process that does not hear the others does not sweep. The lock ends with the connection.
    """

    @asynccontextmanager
    async def hold() -> AsyncIterator[bool]:
        ear = database.ear
        if ear is None:
            yield False
            return
        wire = ear.wire
        is_held = await _asked(ear, _TRY)
        try:
            yield is_held
        finally:
            if is_held and ear.wire is wire:
                with suppress(UnavailableError):
                    await _asked(ear, _LET_GO)

    return hold


async def _asked(ear: Ear, statement: str) -> bool:
    """The answer. Without one nobody knows whether the session has the lock, and so the session is ended."""
    wire = ear.wire
    try:
        return bool(await ear.ask(statement, _KEY))
    except BaseException:
        if wire is not None:
            wire.terminate()
        raise
