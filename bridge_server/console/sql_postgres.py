"""PostgreSQL's form of some statements of the console's store."""

from collections.abc import Mapping

from bridge_server.console import sql
from bridge_server.storage.postgres.sweeps import swept

OVERRIDES: Mapping[str, str] = {statement: swept(statement) for statement in sql.SWEEPS}
"""PostgreSQL's forms by the room's statements."""
