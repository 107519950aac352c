"""`/livez` and `/readyz`."""

from collections.abc import Sequence
from functools import partial

from bridge_server.assembly.foundation import Foundation
from bridge_server.assembly.room import Room
from bridge_server.web.bucket_store import save
from bridge_server.web.charges import SavedBucket
from bridge_server.web.health import health_routes


def health_room(foundation: Foundation, rooms: Sequence[Room]) -> Room:
    """Whether the server can do its work, and what troubles these rooms."""
    return Room(
        name="health", routes=health_routes(partial(check_work, foundation), partial(troubles_of, rooms))
    )


async def check_work(foundation: Foundation) -> None:
    """Raise UnavailableError when the database file is gone, or cannot be read, or cannot be written after a
    write that failed.
    """
    database, clock = foundation.database, foundation.clock
    database.require_presence()
    await database.read("SELECT 1")
    if database.last_commit_failed:
        await database.transaction(partial(save, [SavedBucket("probe", "", clock.now_us(), None)]))


def troubles_of(rooms: Sequence[Room]) -> list[str]:
    """The faults of these rooms that last until an operator mends them."""
    return [trouble for room in rooms for trouble in room.troubles()]
