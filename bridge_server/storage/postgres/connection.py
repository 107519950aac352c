"""A connection to PostgreSQL with the settings that all have here, opened again whenever it ends."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import asyncpg
import structlog

from bridge_server.kernel.background import running
from bridge_server.kernel.errors import UnavailableError
from bridge_server.storage.postgres import failures
from bridge_server.storage.postgres.statements import Statements, Texts

EXCHANGE_SECONDS = 20.0
"""The longest that an exchange may take; the server ends its own part earlier."""
_CONNECT_SECONDS = 10.0
_CLOSE_SECONDS = 5.0
_FIRST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 2.0
_CHECK_SECONDS = 0.5
_MOST_FORMER = 16
_FULL_SECONDS = 10.0
_PROBE_SECONDS = 10.0
_PROBE = "bridge_probe"

_SETTINGS = {
    "jit": "off",
    "lock_timeout": "2s",
    "statement_timeout": "15s",
    "idle_in_transaction_session_timeout": "10s",
    "tcp_user_timeout": "10s",
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "3",
    "tcp_keepalives_count": "3",
    "client_encoding": "utf-8",
}
READS_ONLY = {"default_transaction_read_only": "on"}
COMMITS_EARLY = {"synchronous_commit": "off"}
# The other process that holds a lock may be this one, whose former connection the server has not missed yet.
_END_FORMER = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE pid = ANY($1::int[]) AND application_name = $2
"""

log = structlog.get_logger()


async def connect(url: str, name: str, *, is_pooled: bool = False, **settings: str) -> Any:
    """A connection of asyncpg to a server that takes writes. The server lists it under `name`. A pooler
    refuses settings: with one they are the database role's. Raises what asyncpg raises, and OSError.
    """
    try:
        return await asyncpg.connect(
            url,
            timeout=_CONNECT_SECONDS,
            command_timeout=EXCHANGE_SECONDS,
            statement_cache_size=0,  # statements are prepared by hand
            target_session_attrs=None if "target_session_attrs" in url else "primary",
            server_settings={"application_name": name, **({} if is_pooled else {**_SETTINGS, **settings})},
        )
    except asyncpg.exceptions.TargetServerAttributeNotMatched as error:
        raise failures.StandbyError(str(error)) from error


class KeptConnection:
    """A connection for one purpose. When it ends, another one takes its place as soon as there can be one."""

    def __init__(
        self, name: str, texts: Texts, connect: Callable[[], Awaitable[Any]], *, is_pooled: bool = False
    ) -> None:
        self._name = name
        self._is_pooled = is_pooled
        self._texts = texts
        self._open = connect
        self._connection: Any = None
        self._pid = 0
        self._former_pids: deque[int] = deque(maxlen=_MOST_FORMER)
        self._ended = asyncio.Event()
        self.statements: Statements | None = None
        self.fault: str | None = None
        """Why there is no connection, and what an operator can do, if that is known."""
        self._refused_for_space_at = -_FULL_SECONDS

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Stay connected while inside."""
        try:
            async with running(self._stay_connected()):
                yield
        finally:
            await self._close()

    @property
    def is_open(self) -> bool:
        """Whether there is a connection at this moment. If it has ended, another one is opened: asyncpg calls
        no listener when an exchange begins between the server's last message and the end.
        """
        if self._connection is None:
            return False
        if self._connection.is_closed():
            self._ended.set()
            return False
        return True

    @property
    def wire(self) -> Any:
        """The connection of asyncpg. Raises LostConnectionError."""
        if not self.is_open:
            raise failures.LostConnectionError
        return self._connection

    def note(self, error: BaseException) -> None:
        """Note the error of a write."""
        if failures.sqlstate(error) == failures.DISK_FULL:
            self._refused_for_space_at = asyncio.get_running_loop().time()

    @property
    def is_short_of_space(self) -> bool:
        """Whether a write was refused a moment ago because the disk of the database is full. A later success
        proves nothing: it may have fit into an existing page.
        """
        return asyncio.get_running_loop().time() - self._refused_for_space_at < _FULL_SECONDS

    def drop(self) -> None:
        """End the connection, in whose state nobody can trust any more."""
        if self._connection is not None:
            if not self._is_pooled:
                self._former_pids.append(self._pid)
            self._connection.terminate()
        self._ended.set()

    async def end_former(self, wire: Any) -> None:
        """Have the server end the connections that were dropped, so that they hold no lock."""
        if former := list(self._former_pids):
            await wire.fetch(_END_FORMER, former, self._name)
            self._former_pids.clear()

    async def connect(self) -> None:
        """Open a connection. Raises what asyncpg raises, and OSError."""
        wire = await self._open()
        wire.add_termination_listener(self._on_end)
        if wire.is_closed():  # before there was a listener
            raise failures.LostConnectionError
        self._pid = wire.get_server_pid()
        self._ended.clear()
        self.fault = None
        self.statements = Statements(wire, self._texts)
        self._connection = wire

    def _on_end(self, wire: Any) -> None:
        if wire is self._connection:
            self._ended.set()

    async def _stay_connected(self) -> None:
        while True:
            # It is also checked, in case no listener was called.
            while not self._ended.is_set() and (self._connection is None or self.is_open):
                with suppress(TimeoutError):
                    async with asyncio.timeout(_CHECK_SECONDS):
                        await self._ended.wait()
            log.warning("database_connection_lost", connection=self._name)
            await self._connect_again()
            log.info("database_connection_restored", connection=self._name)

    async def _connect_again(self) -> None:
        pause = _FIRST_PAUSE_SECONDS
        while True:
            try:
                await self.connect()
                return
            except Exception as error:  # whatever it is, the next attempt may succeed
                self.fault = failures.what_to_do(error)
                if pause == _FIRST_PAUSE_SECONDS:
                    log.warning("database_connection_refused", connection=self._name, reason=str(error))
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    async def _close(self) -> None:
        if self._connection is None or self._connection.is_closed():
            return
        self._connection.remove_termination_listener(self._on_end)
        with suppress(*failures.WIRE_FAILURES):
            await self._connection.close(timeout=_CLOSE_SECONDS)


async def require_statements(one: Any, other: Any) -> None:
    """Find out whether two connections of asyncpg may each have a prepared statement of one name. A pooler of
    transactions that does not keep them apart has them run the other's. Raises what asyncpg raises;
    UnavailableError when the pooler does not give a session to each.
    """
    wires = (one, other)
    try:
        async with asyncio.timeout(_PROBE_SECONDS):
            await _execute(wires, "BEGIN")  # each has a session of the server for itself
            prepared = {
                wire: await wire.prepare(f"SELECT {number}", name=_PROBE) for number, wire in enumerate(wires)
            }
            for order in (wires, wires[::-1]):  # whichever session the pooler takes first
                await _execute(wires, "COMMIT")
                await _execute(order, "BEGIN")
                found = [await prepared[wire].fetchval() for wire in wires]
                if found != [0, 1]:
                    raise asyncpg.DuplicatePreparedStatementError("another's was run")
            await _execute(wires, "COMMIT")
    except TimeoutError as error:
        detail = "is behind a pooler that has no two free sessions: raise its default_pool_size"
        raise UnavailableError(detail) from error


async def _execute(wires: Sequence[Any], statement: str) -> None:
    for wire in wires:
        await wire.execute(statement)
