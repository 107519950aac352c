"""Fixtures of the admin API's tests."""

from typing import Any

import pytest

from tests.support.admin_client import ADMIN_TOKEN, AdminClient
from tests.support.server import RunningServer


@pytest.fixture(scope="module")
def server_settings() -> dict[str, Any]:
    """The settings of the folder's server by name."""
    return {"admin_token": ADMIN_TOKEN, "allow_private_webhooks": True, "sweep_interval": 0.02}


@pytest.fixture
def admin(server: RunningServer) -> AdminClient:
    """The operator of a server that calls webhooks on this machine; the clock stands still."""
    return AdminClient(server)
