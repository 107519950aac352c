"""Fixtures of the client's tests."""

import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.clock import ManualClock
from tests.support.server import RunningServer, running_server


@pytest.fixture(params=["", "/compat/v0.7"], ids=["plain", "v0.7"])
def bridge_url(server: RunningServer, request: pytest.FixtureRequest) -> str:
    """The bridge in each of its two dialects."""
    path: str = request.param
    return server.url + path


@pytest.fixture
async def relay(tmp_path: Path) -> AsyncIterator[RunningServer]:
    """A server for clients over WebSockets. Its clock stands at the present, for it checks their tokens."""
    clock = ManualClock(time.time_ns() // 1_000_000)
    async with running_server(tmp_path, clock, allow_private_webhooks=True) as server:
        yield server
