"""What was answered is stored, however the process ends, and nothing of it keeps others waiting."""

import asyncio
import sys
from pathlib import Path

from bridge_server.kernel.events import Events
from bridge_server.storage.database import Turn, Turns
from bridge_server.storage.postgres.database import PostgresDatabase
from tests.storage.notes import names, put
from tests.support.postgres import needs_postgres

pytestmark = needs_postgres

_ROOT = Path(__file__).parents[3]
_ANSWERS = 400


async def test_answered_transactions_of_a_killed_process_are_stored(url: str, events: Events) -> None:
    writer = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.storage.postgres.writer", url, stdout=asyncio.subprocess.PIPE, cwd=_ROOT
    )
    assert writer.stdout is not None
    answered = [(await writer.stdout.readline()).decode().strip() for _ in range(_ANSWERS)]
    writer.kill()
    answered += (await writer.stdout.read()).decode().splitlines()[:-1]  # the last line may be cut off
    await writer.wait()

    database = PostgresDatabase(url, events, {})
    async with database.opened():
        for number in range(16):
            await database.transaction(
                put(f"after {number}", "x"), turns=Turns((Turn("writer", str(number)),))
            )
        stored = set(await names(database))

    assert len(answered) >= _ANSWERS
    assert set(answered) <= stored
