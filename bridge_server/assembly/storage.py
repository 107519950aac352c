"""The database: opened before everything else, and closed last."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import structlog

from bridge_server.assembly.foundation import Foundation
from bridge_server.assembly.room import Room
from bridge_server.storage.data_directory import held
from bridge_server.storage.migrate import migrate, packaged_migrations

log = structlog.get_logger()


def storage_room(foundation: Foundation) -> Room:
    """The data directory and the database in it."""
    database = foundation.database

    def gauges() -> dict[str, float]:
        return {f"database_{name}": value for name, value in database.figures().items()}

    def troubles() -> list[str]:
        return ["the database is full (database_limit): nothing is added"] if database.is_full else []

    return Room(
        name="storage",
        running=(partial(_opened, foundation),),
        gauges=gauges,
        totals=frozenset({"database_commits", "database_transactions"}),
        troubles=troubles,
    )


@asynccontextmanager
async def _opened(foundation: Foundation) -> AsyncIterator[None]:
    """The database is brought up to date, and no other server may use it."""
    data_dir, database = foundation.settings.data_dir, foundation.database
    with held(data_dir) as mode_before:
        if mode_before is not None:
            log.warning(
                "data_directory_made_private",
                directory=str(data_dir), mode="0700", mode_before=f"{mode_before:04o}",
            )  # fmt: skip
        saved = migrate(database.path, packaged_migrations())
        if saved is not None:
            log.info("schema_upgraded", backup=str(saved))
        async with database.opened():
            yield
