"""What the tests of generation 2.x start from."""

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any, TypeAlias

import pytest

from tests.support.irn_client import Identity, IrnClient, irn_connected
from tests.support.server import RunningServer

Join: TypeAlias = Callable[..., Awaitable[IrnClient]]


@pytest.fixture
def join(server: RunningServer, stack: AsyncExitStack) -> Join:
    """Opens a socket to the server, or to another, for a new client or for one that is known."""

    async def open_socket(
        identity: Identity | None = None, to: RunningServer = server, **options: Any
    ) -> IrnClient:
        return await stack.enter_async_context(
            irn_connected(to.client, to.url, identity or Identity(), **options)
        )

    return open_socket
