"""A server in test mode, and the client of its control routes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest

from bridge_server.kit.testing.server import Control
from tests.support.asking import METRICS_TOKEN, Answer, ask, until_waiting
from tests.support.clock import ManualClock
from tests.support.push_client import PushClient
from tests.support.server import RunningServer, running_server
from tests.support.webhook_receiver import WebhookReceiver


@dataclass(frozen=True, slots=True)
class Controlled:
    """A server in test mode."""

    server: RunningServer
    control: Control

    @property
    def push(self) -> PushClient:
        """A wallet that registers for pushes."""
        return PushClient(self.server)

    async def get(self, path: str) -> Answer:
        return await ask(self.server, "GET", path)

    async def send(self, method: str, path: str, body: bytes | None = None, **headers: str) -> Answer:
        """A request to a control route, with the token unless another is named."""
        sent = {"Authorization": f"Bearer {self.server.test_token}", **headers}
        return await ask(self.server, method, path, body, sent)


@asynccontextmanager
async def controlling(data_dir: Path, **settings: Any) -> AsyncIterator[Controlled]:
    """A server in test mode with these settings; webhooks may lead to this machine.

    Nothing that looks at its clock again and again does so within a test: what becomes due must be woken.
    """
    clock = ManualClock()
    clock.tick_seconds = 3_600.0
    usual = {"test": True, "allow_private_webhooks": True, "metrics_token": METRICS_TOKEN}
    async with (
        running_server(data_dir, clock, **usual, **settings) as server,
        Control(server.url, server.test_token or "") as control,
    ):
        yield Controlled(server, control)


@pytest.fixture(scope="module")
async def _shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Controlled]:
    async with controlling(tmp_path_factory.mktemp("server") / "data") as running:
        yield running


@pytest.fixture
async def controlled(_shared: Controlled) -> AsyncIterator[Controlled]:
    """A server in test mode with default settings: a module shares it, and its reset empties it."""
    yield _shared
    await _shared.server.reset()


async def webhook_for(controlled: Controlled, receiver: WebhookReceiver) -> str:
    """A session whose new calls are announced to the receiver."""
    session_id = await controlled.server.open_session()
    fields = orjson.dumps({"topic": session_id, "webhook": receiver.url()})
    assert (await controlled.send("POST", "/subscribe", fields)).status == 200
    return session_id


@asynccontextmanager
async def parked(controlled: Controlled, path: str) -> AsyncIterator["asyncio.Task[Answer]"]:
    """A request that waits at the server, as long as the block lasts at most."""
    task = asyncio.create_task(controlled.get(path))
    try:
        await until_waiting(controlled.server, 1)
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
