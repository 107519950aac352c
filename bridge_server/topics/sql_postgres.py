"""PostgreSQL's form of some statements of topics."""

from collections.abc import Mapping

from bridge_server.storage.postgres.sweeps import swept
from bridge_server.topics import sql

OVERRIDES: Mapping[str, str] = {sql.SWEEP: swept(sql.SWEEP)}
"""PostgreSQL's forms by the statements of `topics`."""
