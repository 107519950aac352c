"""PostgreSQL's form of some statements of approvals."""

from collections.abc import Mapping

from bridge_server.storage.postgres.sweeps import swept
from bridge_server.wallet import approval_store

OVERRIDES: Mapping[str, str] = {approval_store.SWEEP: swept(approval_store.SWEEP)}
"""PostgreSQL's forms by the room's statements."""
