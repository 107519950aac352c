"""Fixtures that every room's tests use."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.server import RunningServer, running_server


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RunningServer]:
    """A server with default settings, and a clock that stands still."""
    async with running_server(tmp_path / "data") as running:
        yield running
