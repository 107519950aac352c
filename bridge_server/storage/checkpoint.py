"""Moves the write-ahead log into the database file, on a connection of its own, outside the write path.

Often and a little at a time: a commit that meets the flush of a long log waits for all of it. The connection
waits for no lock: a step that needs a lock of others is tried later, so that a reader in another process,
such as a backup's, is never waited for with the writer's lock held.
"""

import asyncio
import sqlite3
from typing import NamedTuple

import aiosqlite
import structlog

from bridge_server.storage.connection import run
from bridge_server.storage.log_file import LogFile, LogState
from bridge_server.storage.size_limit import SizeLimit

_INTERVAL_SECONDS = 0.25
_WORTHWHILE_BYTES = 2**20
_QUIET_SECONDS = 5.0
_TICK_SECONDS = 0.02  # two writes that are closer leave the file with one time: the later is not noticed

# A log that grows for so long is written faster than it is copied, or another process reads an old state.
_ALARMING_BYTES = 256 * 2**20
_HURRIED_INTERVAL_SECONDS = 0.02
_HURRIED_TRIES = 20
_FEW_PAGES = 256

log = structlog.get_logger()


class _Progress(NamedTuple):
    """A checkpoint's result: whether it was hindered, the log's pages, the pages copied so far."""

    is_blocked: int
    pages: int
    copied: int

    @property
    def is_complete(self) -> bool:
        return not self.is_blocked and self.pages == self.copied

    @property
    def pages_left(self) -> int:
        return self.pages - self.copied

    def is_unlike(self, before: "_Progress") -> bool:
        """Whether there is more to do, and something was done: else a reader is in the way."""
        return not self.is_complete and self.copied != before.copied


class Checkpointer:
    """Watches the log, copies it back before it grows long, and cuts it off in a pause of the writer."""

    def __init__(self, log_file: LogFile, size_limit: SizeLimit) -> None:
        self._log_file = log_file
        self._size_limit = size_limit
        self._copied: LogState | None = None
        self._seen = LogState(0, 0)
        self._seen_at = 0.0
        self._progress = _Progress(0, 0, 0)
        self._is_behind = False

    async def run_forever(self, connection: aiosqlite.Connection) -> None:
        """Checkpoint whenever it is worthwhile; a failure is logged and tried again."""
        while True:
            await asyncio.sleep(_HURRIED_INTERVAL_SECONDS if self._is_behind else _INTERVAL_SECONDS)
            try:
                await self._tend(connection)
            except Exception as error:  # the next time may go better
                log.warning("checkpoint_failed", error=str(error), next_try_seconds=_INTERVAL_SECONDS)

    async def _tend(self, connection: aiosqlite.Connection) -> None:
        self._is_behind = False
        if self._size_limit.is_limited:
            await run(connection, self._size_limit.measure)
        state, now = self._log_file.state, asyncio.get_running_loop().time()
        if state != self._seen:
            self._seen, self._seen_at = state, now
        is_quiet = self._size_limit.is_full or now - self._seen_at >= _QUIET_SECONDS
        if not state.size_bytes or not (is_quiet or state.size_bytes >= _WORTHWHILE_BYTES):
            return
        if state != self._copied:
            tries = _HURRIED_TRIES if state.size_bytes > _ALARMING_BYTES else 0
            progress = await run(connection, lambda raw: _copy(raw, tries))
            self._is_behind = tries > 0 and progress.is_unlike(self._progress)
            self._progress = progress
            if progress.is_complete and now - self._seen_at > _TICK_SECONDS:
                self._copied = state
        if is_quiet and state == self._copied:
            self._seen_at = now  # if a reader is in the way, it has as long again
            await run(connection, lambda raw: _checkpoint(raw, "TRUNCATE"))


def _copy(connection: sqlite3.Connection, tries: int) -> _Progress:
    """Copy what can be copied.

    While more comes than is copied, the log is tried to be ended so often: once little is left, between two
    commits, so that the next begins at its start.
    """
    before, progress = _Progress(0, 0, 0), _checkpoint(connection, "PASSIVE")
    while tries and progress.is_unlike(before):
        before = progress
        progress = _checkpoint(connection, "RESTART" if progress.pages_left <= _FEW_PAGES else "PASSIVE")
        tries -= 1
    return progress


def _checkpoint(connection: sqlite3.Connection, mode: str) -> _Progress:
    return _Progress(*connection.execute(f"PRAGMA wal_checkpoint({mode})").fetchone())
