"""What the tests of sockets start from."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.support.figures import METRICS_TOKEN
from tests.support.server import RunningServer, running_server
from tests.support.socket_client import SocketClient, connected

Connect: TypeAlias = Callable[..., Awaitable[SocketClient]]


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RunningServer]:
    """A server that tells its figures and calls webhooks on this machine; the clock stands still."""
    async with running_server(
        tmp_path / "data", metrics_token=METRICS_TOKEN, allow_private_webhooks=True
    ) as server:
        yield server


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


@pytest.fixture
def connect(server: RunningServer, stack: AsyncExitStack) -> Connect:
    """Opens a socket to the server, or to another."""

    async def open_socket(path: str = "/", to: RunningServer = server) -> SocketClient:
        return await stack.enter_async_context(connected(to.client, to.url, path))

    return open_socket
