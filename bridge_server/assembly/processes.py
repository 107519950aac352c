"""The processes on one PostgreSQL database. A file belongs to one process alone."""

from collections.abc import Sequence
from importlib import import_module

from bridge_server.admin.neighbours import Neighbours
from bridge_server.assembly.foundation import Foundation
from bridge_server.assembly.room import Room
from bridge_server.settings.checks import secret_of
from bridge_server.storage.database import Database
from bridge_server.storage.process import Process

_POSTGRES = "bridge_server.assembly.postgres_processes"


def processes_room(foundation: Foundation) -> Room:
    """This process among the others; nothing where the database is a file."""
    if foundation.settings.database is None:
        return Room(name="processes")
    room: Room = import_module(_POSTGRES).postgres_processes_room(foundation)
    return room


def neighbours_of(foundation: Foundation) -> Neighbours | None:
    """The other processes on the database, to be asked for their figures; None where it is a file."""
    if foundation.settings.database is None:
        return None
    database, live = foundation.database, foundation.live
    return Neighbours(
        lambda: processes_on(database),
        import_module(_POSTGRES).number_in(database),
        lambda: secret_of(live.current.admin_token),
    )


async def processes_on(database: Database) -> Sequence[Process]:
    """The servers on a PostgreSQL database, oldest first."""
    found: Sequence[Process] = await import_module(_POSTGRES).processes_on(database)
    return found
