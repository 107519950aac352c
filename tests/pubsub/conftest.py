"""Fixtures of the tests of sockets."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tests.support.asking import METRICS_TOKEN, figure
from tests.support.clock import ManualClock
from tests.support.server import RunningServer, running_server
from tests.support.socket_client import (
    Identity,
    IrnClient,
    RelayError,
    SocketClient,
    connected,
    irn_connected,
)
from tests.support.waiting import eventually

Connect: TypeAlias = Callable[..., Awaitable[SocketClient]]
Join: TypeAlias = Callable[..., Awaitable[IrnClient]]


@asynccontextmanager
async def opened(
    data_dir: Path, clients: int | Sequence[str], clock: ManualClock | None = None, **settings: Any
) -> AsyncIterator[tuple[RunningServer, list[SocketClient]]]:
    """A server with settings of its own, and sockets of generation 1.x: so many, or from these addresses."""
    headers: list[dict[str, str]] = [{}] * clients if isinstance(clients, int) else [*map(origin, clients)]
    if not isinstance(clients, int):
        settings = {"trusted_proxies": "127.0.0.1", "quota_exempt": "", **settings}
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(running_server(data_dir, clock, **settings))
        sockets = [connected(server.client, server.url, headers=each) for each in headers]
        yield server, [await stack.enter_async_context(each) for each in sockets]


def origin(address: str) -> dict[str, str]:
    """The header by which a trusted proxy names the address of a client."""
    return {"X-Forwarded-For": address}


async def error_of(call: Awaitable[Any]) -> RelayError:
    """The error with which the call is answered."""
    with pytest.raises(RelayError) as refused:
        await call
    return refused.value


@asynccontextmanager
async def irn_opened(
    data_dir: Path, clients: int | Sequence[Identity], clock: ManualClock | None = None, **settings: Any
) -> AsyncIterator[tuple[RunningServer, list[IrnClient]]]:
    """A server with settings of its own, and sockets of generation 2.x to it: of new clients, or of these."""
    who = [Identity() for _ in range(clients)] if isinstance(clients, int) else clients
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(running_server(data_dir, clock, **settings))
        sockets = []
        for each in who:
            sockets.append(await stack.enter_async_context(irn_connected(server.client, server.url, each)))
            if "messages_burst" in settings:  # a socket in debt is not heard when it closes
                stack.callback(server.clock.advance, 3_600)
        yield server, sockets


async def until_open(server: RunningServer, sockets: int, topics: int = 0) -> None:
    """Return once so many sockets are open, and so many topics remembered."""

    async def reached() -> bool:
        return (await figure(server, "sockets"), await figure(server, "socket_topics")) == (sockets, topics)

    await eventually(reached)


@pytest.fixture(scope="module")
def server_settings() -> dict[str, Any]:
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
