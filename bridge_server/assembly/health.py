"""`/livez` and `/readyz`."""

from collections.abc import Sequence
from functools import partial

from bridge_server.assembly.foundation import Foundation
from bridge_server.assembly.room import Room
from bridge_server.kernel.errors import UnavailableError
from bridge_server.web.bucket_store import save
from bridge_server.web.charges import SavedBucket
from bridge_server.web.health import Readiness, health_routes

_PROBE = "SELECT 1"
_RETRY_AFTER_SECONDS = 2


def readiness_of(foundation: Foundation, rooms: Sequence[Room]) -> Readiness:
    """Whether the server can do its work, and what troubles these rooms."""
    database, file, clock, stopping = (
        foundation.database, foundation.database_file, foundation.clock, foundation.stopping,
    )  # fmt: skip

    async def check_work() -> None:
        """Raise UnavailableError when the server stops soon, or when the database is gone, or cannot be read,
        or cannot be written after a write that failed.
        """
        if stopping.is_announced:
            raise UnavailableError("The server stops: send requests to another.", _RETRY_AFTER_SECONDS)
        if file is not None:
            file.require_presence()
        if database.missing:
            said = "; ".join(database.missing)
            raise UnavailableError(f"{said[0].upper()}{said[1:]}.", _RETRY_AFTER_SECONDS)
        await database.read(_PROBE)
        if database.last_commit_failed:
            await database.transaction(partial(save, [SavedBucket("probe", "", clock.now_us(), None)]))

    def troubles() -> list[str]:
        return [trouble for room in rooms for trouble in room.troubles()]

    return Readiness(check_work, troubles)


def health_room(readiness: Readiness) -> Room:
    """The two endpoints."""
    return Room(name="health", routes=health_routes(readiness))
