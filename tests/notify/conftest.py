"""Fixtures of the notification service's tests."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.figures import METRICS_TOKEN
from tests.support.project import App, create_app, opened_app
from tests.support.server import RunningServer, running_server


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RunningServer]:
    """A server that tells its figures and calls webhooks on this machine; the clock stands still."""
    async with running_server(
        tmp_path / "data", metrics_token=METRICS_TOKEN, allow_private_webhooks=True
    ) as server:
        yield server


@pytest.fixture
async def app(server: RunningServer) -> AsyncIterator[App]:
    async with opened_app(server) as app:
        yield app


@pytest.fixture
async def other_app(app: App) -> App:
    """Another project on the same server."""
    return await create_app(app.server, app.operator, "Other")
