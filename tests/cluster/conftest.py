"""Two processes on one database, which the tests of a module share."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.cluster.processes import UNBOUNDED, ClusterProcess, cluster_url, processes_over
from tests.support.figures import METRICS_TOKEN
from tests.support.postgres import PostgresServer


@pytest.fixture(scope="module")
def cluster_settings() -> dict[str, Any]:
    """The settings by name of the processes of a module, which may replace them."""
    return {}


@pytest.fixture(scope="module")
async def pair(
    postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory, cluster_settings: dict[str, Any]
) -> AsyncIterator[tuple[ClusterProcess, ClusterProcess]]:
    """Two processes; tests of the module do not depend on each other's rows."""
    folder, url = tmp_path_factory.mktemp("cluster"), await cluster_url(postgres)
    async with processes_over(
        url, folder, **{**UNBOUNDED, "metrics_token": METRICS_TOKEN, **cluster_settings}
    ) as (first, second):
        yield first, second
