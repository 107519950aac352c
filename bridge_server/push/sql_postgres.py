"""PostgreSQL's form of some statements of push registrations."""

from collections.abc import Mapping

from bridge_server.push import store
from bridge_server.storage.postgres.sweeps import swept

OVERRIDES: Mapping[str, str] = {store.SWEEP: swept(store.SWEEP)}
"""PostgreSQL's forms by the room's statements."""
