"""What the tests of sockets start from."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any, TypeAlias

import pytest

from tests.support.figures import METRICS_TOKEN
from tests.support.server import RunningServer
from tests.support.socket_client import SocketClient, connected

Connect: TypeAlias = Callable[..., Awaitable[SocketClient]]


@pytest.fixture(scope="module")
def server_settings() -> dict[str, Any]:
    """The server tells its figures and calls webhooks on this machine."""
    return {"metrics_token": METRICS_TOKEN, "allow_private_webhooks": True}


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
