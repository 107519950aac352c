"""Fixtures of the client's tests."""

import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bridge_server.kit.client import Notifier
from tests.client.gate import gate_before
from tests.client.pairs import BRISK
from tests.support.clock import ManualClock
from tests.support.project import App, opened_app
from tests.support.server import RunningServer, running_server
from tests.support.webhook_receiver import WebhookReceiver


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


@pytest.fixture
async def app(server: RunningServer) -> AsyncIterator[App]:
    """A project of the server, with its secret."""
    async with opened_app(server) as app:
        yield app


@pytest.fixture
async def notifier(app: App) -> AsyncIterator[Notifier]:
    """A notifier of the project."""
    async with Notifier(app.server.url, app.project_id, app.secret, pace=BRISK) as notifier:
        yield notifier


@pytest.fixture
async def gate(app: App) -> AsyncIterator[WebhookReceiver]:
    """A gate before the server, which answers in its place when a test says so."""
    async with gate_before(app.server.url) as gate:
        yield gate


@pytest.fixture
async def gated(app: App, gate: WebhookReceiver) -> AsyncIterator[Notifier]:
    """A notifier that speaks through the gate, whose URL ends with a slash."""
    async with Notifier(gate.url("/"), app.project_id, app.secret, pace=BRISK) as notifier:
        yield notifier
