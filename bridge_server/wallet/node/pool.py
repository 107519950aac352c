"""The checked connections to a node, each for one user at a time, and the node's last failure."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar

from bridge_server.wallet.errors import NoNodeError
from bridge_server.wallet.node.connections import CheckedConnection

Asked = TypeVar("Asked")

_CONNECTIONS = 16


@dataclass(frozen=True, slots=True)
class Attempt:
    """A send, or another piece of work with several calls. `began_at` is in seconds of the event loop."""

    began_at: float


def new_attempt() -> Attempt:
    """An attempt that begins now."""
    return Attempt(asyncio.get_running_loop().time())


class ConnectionPool:
    """Lends connections, which `connect` makes when none is idle."""

    def __init__(self, connect: Callable[[], CheckedConnection]) -> None:
        self._connect = connect
        self._connections: list[CheckedConnection] = []
        self._idle: list[CheckedConnection] = []
        self._places = asyncio.Semaphore(_CONNECTIONS)
        self._failed_at: float | None = None
        self._failure = ""

    async def close(self) -> None:
        """Close the connections."""
        for connection in self._connections:
            await connection.close()
        self._connections.clear()
        self._idle.clear()

    async def run(self, work: Callable[[CheckedConnection], Awaitable[Asked]], attempt: Attempt) -> Asked:
        """Do the work with a connection, and raise what it raises.

        Raises NoNodeError at once when the node has failed since the attempt began, and has not answered
        since.
        """
        async with self._lent(attempt) as connection:
            try:
                result = await work(connection)
            except NoNodeError as error:
                self._failed_at, self._failure = new_attempt().began_at, error.detail
                raise
            self._failed_at = None
            return result

    @asynccontextmanager
    async def _lent(self, attempt: Attempt) -> AsyncIterator[CheckedConnection]:
        async with self._places:
            if self._failed_at is not None and self._failed_at >= attempt.began_at:
                raise NoNodeError(self._failure)
            if not self._idle:
                connection = self._connect()
                self._connections.append(connection)
                self._idle.append(connection)
            connection = self._idle.pop()
            try:
                yield connection
            finally:
                self._idle.append(connection)
