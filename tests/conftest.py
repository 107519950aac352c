"""Fixtures that every room's tests use."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from bridge_server.outbox import dispatcher
from bridge_server.wallet.transactions import broadcasting
from tests.support.server import RunningServer, running_server


@pytest.fixture(autouse=True, scope="session")
def short_ticks() -> Iterator[None]:
    """The outbox and the wallet look at the clock often: tests move it and wait for what comes of that."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dispatcher, "_TICK_SECONDS", 0.02)
        patch.setattr(broadcasting, "_TICK_SECONDS", 0.02)
        yield


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RunningServer]:
    """A server with default settings, and a clock that stands still."""
    async with running_server(tmp_path / "data") as running:
        yield running
