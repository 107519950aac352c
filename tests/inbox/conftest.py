"""Fixtures of the inbox's tests."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.figures import METRICS_TOKEN
from tests.support.inbox_client import InboxClient, sign_in
from tests.support.project import App, opened_app
from tests.support.server import RunningServer, running_server


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RunningServer]:
    """A server that tells its figures and calls webhooks on this machine; the clock stands still."""
    async with running_server(
        tmp_path / "data", metrics_token=METRICS_TOKEN, allow_private_webhooks=True, account_burst=100_000
    ) as server:
        yield server


@pytest.fixture
async def app(server: RunningServer) -> AsyncIterator[App]:
    """A project with two types, news and offers, that publishes."""
    async with opened_app(server) as app:
        yield app


@pytest.fixture
async def inbox(server: RunningServer) -> InboxClient:
    """An account that is signed in."""
    return await sign_in(server)


@pytest.fixture
async def other_inbox(server: RunningServer) -> InboxClient:
    """Another account."""
    return await sign_in(server, 2)


@pytest.fixture
async def subscriber(app: App, inbox: InboxClient) -> InboxClient:
    """The first account, subscribed to all that the project has."""
    assert (await inbox.subscribe(app.project_id)).status == 200
    return inbox
