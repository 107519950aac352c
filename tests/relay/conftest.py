"""What the bridge's tests start from."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.bridge_client import BridgeClient
from tests.support.figures import METRICS_TOKEN
from tests.support.server import running_server
from tests.support.webhook_receiver import WebhookReceiver, open_receiver


@pytest.fixture
async def bridge(tmp_path: Path) -> AsyncIterator[BridgeClient]:
    """A bridge that tells its figures and calls webhooks on this machine; the clock stands still."""
    async with running_server(
        tmp_path / "data", metrics_token=METRICS_TOKEN, allow_private_webhooks=True
    ) as server:
        yield BridgeClient(server)


@pytest.fixture
async def session_id(bridge: BridgeClient) -> str:
    return await bridge.open_session()


@pytest.fixture
async def receiver() -> AsyncIterator[WebhookReceiver]:
    async with open_receiver() as receiver:
        yield receiver
