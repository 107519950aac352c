"""Fixtures of the client's tests."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from bridge_server.kit.client import Notifier
from tests.client.gate import gate_before
from tests.client.pairs import BRISK
from tests.headless.conftest import _shared_relay, generation, relay
from tests.support.asking import METRICS_TOKEN
from tests.support.project import App
from tests.support.server import RunningServer
from tests.support.webhook_receiver import WebhookReceiver

__all__ = ["_shared_relay", "generation", "relay"]


@pytest.fixture(scope="module")
def relay_settings() -> dict[str, Any]:
    """The settings of `relay` by name."""
    return {"allow_private_webhooks": True, "metrics_token": METRICS_TOKEN}


@pytest.fixture
async def notifier(app: App) -> AsyncIterator[Notifier]:
    """A notifier of the project."""
    async with Notifier(app.server.url, app.project_id, app.secret, pace=BRISK) as notifier:
        yield notifier


@pytest.fixture
async def gate(server: RunningServer) -> AsyncIterator[WebhookReceiver]:
    """A gate before the server, which answers in its place when a test says so."""
    async with gate_before(server.url) as gate:
        yield gate


@pytest.fixture
async def gated(app: App, gate: WebhookReceiver) -> AsyncIterator[Notifier]:
    """A notifier that speaks through the gate, whose URL ends with a slash."""
    async with Notifier(gate.url("/"), app.project_id, app.secret, pace=BRISK) as notifier:
        yield notifier
