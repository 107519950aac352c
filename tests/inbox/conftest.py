"""Fixtures of the inbox's tests."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.support.figures import METRICS_TOKEN
from tests.support.inbox_client import InboxClient, sign_in
from tests.support.project import App, opened_app
from tests.support.server import RunningServer


@pytest.fixture(scope="module")
def server_settings() -> dict[str, Any]:
    """The server tells its figures and calls webhooks on this machine."""
    return {"metrics_token": METRICS_TOKEN, "allow_private_webhooks": True, "account_burst": 100_000}


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
