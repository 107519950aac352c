"""What the web layer's tests start from."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.figures import METRICS_TOKEN
from tests.support.server import RunningServer, running_server


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RunningServer]:
    """A server with default settings and `/metrics` on the same port."""
    async with running_server(tmp_path / "data", metrics_token=METRICS_TOKEN) as server:
        yield server


@pytest.fixture
async def other_server(tmp_path: Path) -> AsyncIterator[RunningServer]:
    """A second server, over data of its own."""
    async with running_server(tmp_path / "other") as server:
        yield server
