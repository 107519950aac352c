"""A process that writes until it is killed: `python -m tests.storage.postgres.writer URL`.

It prints the name of every note that it was answered for.
"""

import asyncio
import sys
from itertools import count

from bridge_server.kernel.events import Events
from bridge_server.storage.database import Turn, Turns
from bridge_server.storage.postgres.database import PostgresDatabase
from tests.storage.notes import put

_WRITERS = 16


async def main() -> None:
    """Write with several writers, each with a turn of its own."""
    database = PostgresDatabase(sys.argv[1], Events(), {})
    async with database.opened():
        await asyncio.gather(*(write_forever(database, number) for number in range(_WRITERS)))


async def write_forever(database: PostgresDatabase, writer: int) -> None:
    """Write one note after another."""
    turns = Turns((Turn("writer", str(writer)),))
    for number in count():
        name = f"{writer} {number}"
        await database.transaction(put(name, "x"), turns=turns)
        print(name, flush=True)  # noqa: T201 - its answer


if __name__ == "__main__":
    asyncio.run(main())
