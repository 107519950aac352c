"""Fixtures of the console's tests."""

from typing import Any

import pytest

from tests.support.console_client import ConsoleClient
from tests.support.server import RunningServer


@pytest.fixture(scope="module")
def server_settings() -> dict[str, Any]:
    """A server in test mode with its console on."""
    return {"console": True, "test": True}


@pytest.fixture
async def console(server: RunningServer) -> ConsoleClient:
    """A browser that is signed in."""
    return await ConsoleClient(server).sign_in()
