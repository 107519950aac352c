"""A server in test mode, and the client of its control routes."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from bridge_server.testing.control import Control
from tests.support.server import RunningServer, running_server


@dataclass(frozen=True, slots=True)
class Controlled:
    """A server in test mode."""

    server: RunningServer
    control: Control

    @property
    def url(self) -> str:
        return self.server.url


@pytest.fixture
async def controlled(tmp_path: Path) -> AsyncIterator[Controlled]:
    """A server with default settings in test mode; webhooks may lead to this machine."""
    async with (
        running_server(tmp_path / "data", test=True, allow_private_webhooks=True) as server,
        Control(server.url, server.test_token or "") as control,
    ):
        yield Controlled(server, control)
