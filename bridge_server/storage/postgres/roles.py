"""A role: work that one process does at a time, such as the wallet's.

An advisory lock on the connection of the ear says whose the role is. It ends with the connection, which
other processes end when it asks nothing for seconds, as that of a frozen process. Its holder may not have
noticed yet: it does not count on a connection that was silent. And each holder has an epoch, and its writes
begin with the fence: a statement that finds the epoch of the present holder only, and that keeps the next
one from taking over until the write is committed.
"""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any

import structlog

from bridge_server.kernel.errors import UnavailableError
from bridge_server.storage.database import Statement, Transaction
from bridge_server.storage.postgres.database import PostgresDatabase

_LOCKS_OF_ROLES = 1_919_904_869
_LOCK = "SELECT pg_try_advisory_lock($1, hashtext($2))"
_MAKE = "INSERT INTO roles (name, epoch) VALUES ($1, 0) ON CONFLICT (name) DO NOTHING"
# The ear does not wait for a write of the former holder: it looks again.
_TAKE = """
UPDATE roles SET epoch = epoch + 1, owner = $2, url = $3
WHERE name IN (SELECT name FROM roles WHERE name = $1 FOR UPDATE SKIP LOCKED) RETURNING epoch
"""
_SET_URL = "UPDATE roles SET url = $3 WHERE name = $1 AND epoch = $2"
_GIVE_UP = "UPDATE roles SET owner = NULL, url = NULL WHERE name = ? AND epoch = ?"
_HOLDER = "SELECT url FROM roles WHERE name = ? AND owner <> ?"
_FENCE = "SELECT 1 AS one FROM roles WHERE name = ? AND epoch = ? FOR SHARE"

_FIRST_LOOK_SECONDS = 3.0
_PAUSE_SECONDS = 1.0
_TRY_AGAIN_SECONDS = 2

log = structlog.get_logger()


class Role:
    """The role of a name, as one process has it or waits for it."""

    def __init__(self, name: str, database: PostgresDatabase, *, is_wanted: bool) -> None:
        self._name = name
        self._database = database
        self._is_wanted = is_wanted
        self._url: str | None = None
        self._epoch: int | None = None
        self._told_url: str | None = None
        self._has_lock = self._is_open = False
        self._has_looked = asyncio.Event()
        self._changed = asyncio.Event()

    @property
    def is_held(self) -> bool:
        """Whether this process has the role, and no other one can have taken it over."""
        ear = self._database.ear
        return self._epoch is not None and ear is not None and ear.keeps_locks

    @property
    def is_served(self) -> bool:
        """Whether this process holds the role, and its resources are open."""
        return self._is_open and self.is_held

    async def holder_url(self) -> str | None:
        """The URL of the process that holds the role, if another one does. Raises UnavailableError."""
        rows = await self._database.read(_HOLDER, (self._name, self._database.number))
        return rows[0][0] if rows else None

    def announce(self, url: str) -> None:
        """Other processes reach this one at the URL."""
        self._url = url
        if self._database.ear is not None:
            self._database.ear.look_now()

    def fence(self) -> Transaction[None]:
        """The first step of a transaction of the holder. Raises UnavailableError for a former one."""
        if self._epoch is None or not (yield Statement(_FENCE, (self._name, self._epoch))):
            raise UnavailableError(
                f"Nothing was stored: another process has taken over the {self._name}.", _TRY_AGAIN_SECONDS
            )

    async def serve_forever(self, resources: Callable[[], AbstractAsyncContextManager[None]]) -> None:
        """Keep the resources open whenever this process holds the role, until cancelled."""
        assert self._database.ear is not None
        self._database.ear.use(self._on_look, self._on_lost)
        try:
            while True:
                while self._epoch is None:
                    await self._until_changed()
                try:
                    await self._serve(resources)
                except Exception:
                    log.exception("role_not_served", role=self._name)
                    await asyncio.sleep(_PAUSE_SECONDS)
        finally:
            await self._give_up()

    async def first_look(self) -> None:
        """Return once it is known whether this process holds the role, or after a few seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_FIRST_LOOK_SECONDS):
                await self._has_looked.wait()

    async def _serve(self, resources: Callable[[], AbstractAsyncContextManager[None]]) -> None:
        epoch = self._epoch
        async with resources():
            try:
                self._is_open = self._epoch == epoch
                self._has_looked.set()
                while self._epoch == epoch:
                    await self._until_changed()
            finally:
                self._is_open = False

    async def _until_changed(self) -> None:
        await self._changed.wait()
        self._changed.clear()

    async def _on_look(self, wire: Any) -> None:
        ear = self._database.ear
        assert ear is not None
        if self._epoch is not None:
            await self._tell_url(wire)
        elif self._is_wanted and not ear.is_deaf and not ear.has_session:
            pass  # a pooler of transactions gives the lock to every process: wait for the echo
        elif self._is_wanted and ear.has_session and await self._is_locked(wire):
            await self._take(wire)
        else:
            self._has_looked.set()

    async def _tell_url(self, wire: Any) -> None:
        url = self._url
        if url != self._told_url:
            await wire.execute(_SET_URL, self._name, self._epoch, url)
            self._told_url = url

    async def _is_locked(self, wire: Any) -> bool:
        if not self._has_lock:
            self._has_lock = await wire.fetchval(_LOCK, _LOCKS_OF_ROLES, self._name)
        return self._has_lock

    async def _take(self, wire: Any) -> None:
        url = self._url
        await wire.execute(_MAKE, self._name)
        epoch = await wire.fetchval(_TAKE, self._name, self._database.number, url)
        if epoch is not None and self._is_wanted:
            log.info("role_taken", role=self._name, epoch=epoch)
            self._epoch, self._told_url = epoch, url
            self._changed.set()

    def _on_lost(self) -> None:
        """The connection has ended, and the lock with it."""
        self._has_lock = False
        if self._epoch is not None:
            log.warning("role_lost", role=self._name, epoch=self._epoch)
            self._epoch, self._is_open = None, False
            self._changed.set()

    async def _give_up(self) -> None:
        """Let others know at once; the lock ends with the connection."""
        epoch, self._epoch, self._is_wanted = self._epoch, None, False
        if epoch is None:
            return

        def work() -> Transaction[None]:
            yield Statement(_GIVE_UP, (self._name, epoch))

        with suppress(UnavailableError):
            await self._database.transaction(work)
