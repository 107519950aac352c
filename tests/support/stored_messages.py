"""The messages that wait on disk, as another program sees them."""

import asyncio

from bridge_server.settings.settings import Settings
from tests.support.engines import database_of
from tests.support.eventually import eventually


def count_stored(settings: Settings) -> int:
    """How many there are in the database of a server with these settings. Settled ones do not count, which
    stay in PostgreSQL for some seconds.
    """
    with database_of(settings) as database:
        ((count,),) = database.execute("SELECT count(*) FROM topic_messages WHERE expires_at_ms > 0")
    assert isinstance(count, int)
    return count


async def until_stored(settings: Settings, messages: int) -> None:
    """Return once there are so many."""

    async def reached() -> bool:
        return await asyncio.to_thread(count_stored, settings) == messages

    await eventually(reached)
