"""Fixtures of the bridge's tests."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.relay.polls import POLLS, V07_PATH, Poll
from tests.support.asking import METRICS_TOKEN
from tests.support.bridge_client import BridgeClient
from tests.support.server import RunningServer, running_server


@pytest.fixture(scope="module")
def server_settings() -> dict[str, Any]:
    return {"metrics_token": METRICS_TOKEN, "allow_private_webhooks": True}


@pytest.fixture
def bridge(server: RunningServer) -> BridgeClient:
    """A bridge that tells its figures and calls webhooks on this machine; the clock stands still."""
    return BridgeClient(server)


@pytest.fixture
def v07(bridge: BridgeClient) -> BridgeClient:
    """The bridge at the path for clients of generation 0.7."""
    return BridgeClient(bridge.server, V07_PATH)


@pytest.fixture
async def session_id(bridge: BridgeClient) -> str:
    return await bridge.open_session()


@pytest.fixture
async def tight_bridge(tmp_path: Path) -> AsyncIterator[BridgeClient]:
    """A bridge that keeps three calls without a status, and no more."""
    async with running_server(tmp_path / "tight", max_pending_calls=3) as server:
        yield BridgeClient(server)


@pytest.fixture(params=list(POLLS.values()), ids=list(POLLS))
async def poll(bridge: BridgeClient, request: pytest.FixtureRequest) -> Poll:
    """Each of the three reads in turn."""
    made: Poll = await request.param(bridge)
    return made
