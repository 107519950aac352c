"""PostgreSQL's form of some statements of the saved token buckets."""

from collections.abc import Mapping

from bridge_server.storage.postgres.sweeps import swept
from bridge_server.web import bucket_store

OVERRIDES: Mapping[str, str] = {bucket_store.SWEEP: swept(bucket_store.SWEEP)}
"""PostgreSQL's forms by the statements of `web`."""
