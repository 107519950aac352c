"""A private PostgreSQL server with durable commits, for rows that measure writes."""

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from processes import MeasurementError


@contextmanager
def durable_cluster() -> Iterator[Any]:
    """The running server of the tests' support, which is removed at the end."""
    sys.path.insert(0, str(Path(__file__).parents[2]))
    from tests.support.postgres_cluster import PostgresCluster, programs  # noqa: PLC0415 - not a script's path

    if programs() is None:
        raise MeasurementError("needs PostgreSQL's server programs: `scripts/system-packages` installs them")
    cluster = PostgresCluster.made(os.getpid(), is_durable=True)
    try:
        cluster.start()
        yield cluster
    finally:
        if cluster.is_running:
            cluster.stop("immediate")
        shutil.rmtree(cluster.folder, ignore_errors=True)
