"""Fixtures of the admin API's tests."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.admin.observed import Observed, observing
from tests.support.admin_client import ADMIN_TOKEN, AdminClient
from tests.support.server import RunningServer


@pytest.fixture(scope="module")
def server_settings() -> dict[str, Any]:
    """The server calls webhooks on this machine, and sweeps often."""
    return {"admin_token": ADMIN_TOKEN, "allow_private_webhooks": True, "sweep_interval": 0.02}


@pytest.fixture
def admin(server: RunningServer) -> AdminClient:
    """The operator of the server; the clock stands still."""
    return AdminClient(server)


@pytest.fixture
async def observed(tmp_path: Path) -> AsyncIterator[Observed]:
    """A server in production that keeps its record of requests."""
    async with observing(tmp_path / "data") as running:
        yield running
