"""Fixtures of the inbox's tests."""

from typing import Any

import pytest

from tests.support.asking import METRICS_TOKEN
from tests.support.inbox_client import InboxClient, sign_in
from tests.support.project import App
from tests.support.server import RunningServer


@pytest.fixture(scope="module")
def server_settings() -> dict[str, Any]:
    """The server tells its figures and calls webhooks on this machine."""
    return {"metrics_token": METRICS_TOKEN, "allow_private_webhooks": True, "account_burst": 100_000}


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


async def send(app: App, reader: InboxClient, *titles: str) -> None:
    """Notify the account of each."""
    for title in titles:
        app.server.clock.advance(0.5)  # the project may call so often
        assert (await app.notify([reader.account], title=title)).json["sent"] == [reader.account]


def titles_from(first: int, last: int) -> list[str]:
    """Titles by number, in the order in which they are sent."""
    return [f"n{number}" for number in range(first, last + 1)]


def newest_first(first: int, last: int) -> list[str]:
    """The titles of notifications `first` to `last` in the order of a listing: newest first."""
    return titles_from(first, last)[::-1]


async def send_numbered(app: App, reader: InboxClient, first: int, last: int) -> list[str]:
    """Notify the account so often; returns the titles in order."""
    titles = titles_from(first, last)
    await send(app, reader, *titles)
    return titles
