"""Each process on a PostgreSQL database has its row there, and ends when an upgrade leaves it behind."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

import structlog

from bridge_server.assembly.foundation import Foundation
from bridge_server.assembly.room import Room
from bridge_server.kernel.background import running
from bridge_server.kernel.errors import UnavailableError
from bridge_server.kernel.own_url import OwnUrl
from bridge_server.kernel.stopping import Stopping
from bridge_server.storage.postgres.database import PostgresDatabase
from bridge_server.storage.postgres.migrate import packaged_migrations
from bridge_server.storage.postgres.processes import Processes
from bridge_server.storage.process import Process

_LOOK_SECONDS = 2.0

log = structlog.get_logger()


def postgres_processes_room(foundation: Foundation) -> Room:
    """The row of this process, and the removal of rows that other processes have left."""
    assert isinstance(foundation.database, PostgresDatabase)
    processes, newest_known = Processes(foundation.database), packaged_migrations()[-1].version
    keep = partial(_keep_row, processes, foundation.own_url, foundation.stopping, newest_known)
    return Room(name="processes", running=(lambda: running(keep()),), sweeps=(processes.sweep,))


def number_in(database: PostgresDatabase) -> Callable[[], int]:
    """Gives the number of this process, once the database is open."""
    return lambda: database.number


async def processes_on(database: PostgresDatabase) -> Sequence[Process]:
    """The servers on the database, oldest first."""
    return await Processes(database).all()


async def _keep_row(processes: Processes, own_url: OwnUrl, stopping: Stopping, newest_known: int) -> None:
    """Keep the URL in the row, and end the process when it may not use the database any more."""
    url = await own_url.known()
    while True:
        try:
            oldest_program, written = await processes.look()
            if oldest_program > newest_known:
                stopping.want(
                    f"the database was upgraded, and a program must know version {oldest_program} of its "
                    f"schema; this one knows versions up to {newest_known}: start the newer program"
                )
                return
            if written != url:
                await processes.announce(url)
        except UnavailableError as error:
            log.info("processes_not_seen", reason=error.detail)
        await asyncio.sleep(_LOOK_SECONDS)
