"""The database: opened before everything else, and closed last."""

from functools import partial

from bridge_server.assembly.engine import opened_for_a_server
from bridge_server.assembly.foundation import Foundation
from bridge_server.assembly.room import Room

_TOTALS = frozenset({"database_commits", "database_transactions"})


def storage_room(foundation: Foundation) -> Room:
    """The data directory and the database."""
    database = foundation.database

    def gauges() -> dict[str, float]:
        return {f"database_{name}": value for name, value in database.figures().items()}

    return Room(
        name="storage",
        running=(partial(opened_for_a_server, foundation.settings, database, foundation.events),),
        gauges=gauges,
        totals=_TOTALS if foundation.database_file is not None else _TOTALS | {"database_runs_again"},
        troubles=lambda: database.troubles,
    )
