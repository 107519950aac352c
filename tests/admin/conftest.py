"""Fixtures of the admin API's tests."""

from typing import Any

import pytest

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
