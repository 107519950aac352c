"""Fixtures of the web layer's tests."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.asking import METRICS_TOKEN
from tests.support.server import RunningServer, running_server


@pytest.fixture(scope="module")
def server_settings() -> dict[str, Any]:
    """The server has `/metrics` on the same port, and logs no request because it took long."""
    return {"metrics_token": METRICS_TOKEN, "slow_request_seconds": 3_600}


@pytest.fixture
async def other_server(tmp_path: Path) -> AsyncIterator[RunningServer]:
    """A second server, over data of its own."""
    async with running_server(tmp_path / "other") as server:
        yield server
