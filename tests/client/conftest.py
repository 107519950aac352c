"""Fixtures of the client's tests."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from bridge_server.kit.client import Notifier
from tests.client.gate import gate_before
from tests.client.pairs import BRISK
from tests.headless.dapps import relay_at, to_the_present
from tests.support.asking import METRICS_TOKEN
from tests.support.project import App
from tests.support.server import RunningServer
from tests.support.webhook_receiver import WebhookReceiver


@pytest.fixture(scope="module")
async def _shared_relay(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningServer]:
    settings: dict[str, Any] = {"test": True, "allow_private_webhooks": True, "metrics_token": METRICS_TOKEN}
    folder = tmp_path_factory.mktemp("relay") / "data"
    async with relay_at(folder, **settings) as server:
        yield server


@pytest.fixture
async def relay(_shared_relay: RunningServer) -> AsyncIterator[RunningServer]:
    """A server for clients of all generations, empty and at the present: it checks their tokens."""
    to_the_present(_shared_relay)
    yield _shared_relay
    await _shared_relay.reset()


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
