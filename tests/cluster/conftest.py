"""Two processes on one database, which the tests of a module share, and sockets to them."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any, TypeAlias

import pytest

from tests.cluster.processes import (
    UNBOUNDED,
    ClusterProcess,
    Pair,
    irn_socket,
    known_to_each_other,
    processes_over,
)
from tests.support.asking import METRICS_TOKEN
from tests.support.postgres import PostgresServer, connected
from tests.support.socket_client import Identity, IrnClient, SocketClient
from tests.support.socket_client import connected as socket_connected
from tests.support.webhook_receiver import WebhookReceiver, open_receiver

Client: TypeAlias = SocketClient | IrnClient
Connect: TypeAlias = Callable[[ClusterProcess], Awaitable[SocketClient]]
Join: TypeAlias = Callable[..., Awaitable[IrnClient]]
Enter: TypeAlias = Callable[[ClusterProcess], Awaitable[Client]]


async def heard(client: Client, number: int) -> list[str]:
    """The next messages, and no more than these have come."""
    return await (client.payloads(number) if isinstance(client, SocketClient) else client.messages(number))


@pytest.fixture(scope="module")
def cluster_settings() -> dict[str, Any]:
    """The settings by name of the processes of a module, which may replace them."""
    return {}


@pytest.fixture(scope="module")
async def pair(
    postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory, cluster_settings: dict[str, Any]
) -> AsyncIterator[tuple[ClusterProcess, ClusterProcess]]:
    """Two processes; tests of the module do not depend on each other's rows."""
    settings = {**UNBOUNDED, "metrics_token": METRICS_TOKEN, **cluster_settings}
    folder, url = tmp_path_factory.mktemp("cluster"), await postgres.database("cluster")
    async with processes_over(url, folder, **settings) as (first, second):
        yield first, second


@pytest.fixture
async def numbers(pair: Pair) -> list[int]:
    """The numbers of both processes, which know of each other."""
    return await known_to_each_other(pair)


@pytest.fixture
async def url(postgres: PostgresServer) -> str:
    """An empty database for a test's own processes."""
    return await postgres.database("own")


@pytest.fixture
async def wire(url: str) -> AsyncIterator[Any]:
    """A connection to the database of a test's own processes."""
    async with connected(url) as wire:
        yield wire


@pytest.fixture
async def receiver() -> AsyncIterator[WebhookReceiver]:
    async with open_receiver() as receiver:
        yield receiver


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


@pytest.fixture
def connect(stack: AsyncExitStack) -> Connect:
    """Opens a socket of generation 1.x to a process."""

    async def open_socket(to: ClusterProcess) -> SocketClient:
        return await stack.enter_async_context(socket_connected(to.server.client, to.url))

    return open_socket


@pytest.fixture
def join(stack: AsyncExitStack) -> Join:
    """Opens a socket of generation 2.x to a process, for a new client or for one that is known."""

    async def open_socket(to: ClusterProcess, identity: Identity | None = None) -> IrnClient:
        return await stack.enter_async_context(irn_socket(to, identity))

    return open_socket


@pytest.fixture(params=["1.x", "2.x"])
def enter(request: pytest.FixtureRequest, connect: Connect, join: Join) -> Enter:
    """Opens a socket of each generation in turn."""
    return connect if request.param == "1.x" else join
