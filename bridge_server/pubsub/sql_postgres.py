"""What PostgreSQL gets instead of some statements of the store of topics."""

from collections.abc import Mapping

from bridge_server.pubsub import sql
from bridge_server.storage.postgres.rewriting import numbers
from bridge_server.storage.postgres.sweeps import swept

OVERRIDES: Mapping[str, str] = {sql.DELETE: numbers(sql.DELETE), sql.SWEEP: swept(sql.SWEEP)}
"""By the statement that is written in `sql`."""
