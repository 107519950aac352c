"""What the server needs of a pooler between it and PostgreSQL."""

import asyncio
from collections.abc import Sequence
from typing import Any

import asyncpg

from bridge_server.kernel.errors import UnavailableError

_NAME = "bridge_probe"
_PATIENCE_SECONDS = 10.0


async def require_statements(one: Any, other: Any) -> None:
    """Find out whether two connections of asyncpg may each have a prepared statement of one name.

    A pooler of transactions that does not keep them apart has them run the other's. Raises what asyncpg
    raises; UnavailableError when the pooler does not give a session to each.
    """
    wires = (one, other)
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            await _in_transactions(wires)
            prepared = {
                wire: await wire.prepare(f"SELECT {number}", name=_NAME) for number, wire in enumerate(wires)
            }
            for order in (wires, wires[::-1]):  # whichever session the pooler takes first
                await _committed(wires)
                await _in_transactions(order)
                found = [await prepared[wire].fetchval() for wire in wires]
                if found != [0, 1]:
                    raise asyncpg.DuplicatePreparedStatementError("another's was run")
            await _committed(wires)
    except TimeoutError as error:
        detail = "is behind a pooler that has no two free sessions: raise its default_pool_size"
        raise UnavailableError(detail) from error


async def _in_transactions(wires: Sequence[Any]) -> None:
    """Each has a session of the server for itself."""
    for wire in wires:
        await wire.execute("BEGIN")


async def _committed(wires: Sequence[Any]) -> None:
    for wire in wires:
        await wire.execute("COMMIT")
