"""Fixtures of the push server's tests."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.push.providers import Apns, Fcm, opened_apns, opened_fcm
from tests.support.admin_client import ADMIN_TOKEN
from tests.support.asking import METRICS_TOKEN
from tests.support.clock import ManualClock
from tests.support.inbox_client import InboxClient, sign_in
from tests.support.project import App, opened_app
from tests.support.push_client import PushClient
from tests.support.push_services import PushServices, running_push_services
from tests.support.server import RunningServer, running_server


@pytest.fixture(scope="module")
def server_settings() -> dict[str, Any]:
    """The settings of the folder's server by name."""
    return {"metrics_token": METRICS_TOKEN, "allow_private_webhooks": True}


@pytest.fixture
def push(server: RunningServer) -> PushClient:
    """A push server that reaches webhooks on this machine and the log."""
    return PushClient(server)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def services(
    tmp_path_factory: pytest.TempPathFactory, clock: ManualClock
) -> AsyncIterator[PushServices]:
    async with running_push_services(tmp_path_factory.mktemp("services"), clock) as services:
        yield services


@pytest.fixture
async def connected(tmp_path: Path, clock: ManualClock, services: PushServices) -> AsyncIterator[PushClient]:
    """A push server that pushes through all of them."""
    settings = {"metrics_token": METRICS_TOKEN, "admin_token": ADMIN_TOKEN, "push_timeout": 120}
    async with running_server(tmp_path / "data", clock, **settings, **services.settings) as server:
        yield PushClient(server)


@pytest.fixture
async def app(connected: PushClient) -> AsyncIterator[App]:
    async with opened_app(connected.server) as app:
        yield app


@pytest.fixture
async def subscriber(app: App) -> InboxClient:
    """An account that is subscribed to it."""
    inbox = await sign_in(app.server)
    assert (await inbox.subscribe(app.project_id)).status == 200
    return inbox


@pytest.fixture
async def apns() -> AsyncIterator[Apns]:
    async with opened_apns() as apns:
        yield apns


@pytest.fixture
async def fcm() -> AsyncIterator[Fcm]:
    async with opened_fcm() as fcm:
        yield fcm
