"""The messages that wait on disk, as another program sees them."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

from tests.support.eventually import eventually


def count_stored(file: Path) -> int:
    """How many there are in the database."""
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as database:
        count: int = database.execute("SELECT count(*) FROM topic_messages").fetchone()[0]
        return count


async def until_stored(file: Path, messages: int) -> None:
    """Return once there are so many."""

    async def reached() -> bool:
        return await asyncio.to_thread(count_stored, file) == messages

    await eventually(reached)
