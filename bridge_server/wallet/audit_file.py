"""The audit log: a line of JSON for each signature, in a file that is only appended to."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import lru_cache
from pathlib import Path
from threading import Lock

import orjson
import structlog

from bridge_server.kernel.background import running
from bridge_server.kernel.errors import UnavailableError
from bridge_server.kernel.rfc3339 import date_time_of
from bridge_server.wallet.models import AuditEntry

_SYNC_SECONDS = 1.0
_NOT_OPEN = -1

_date_time_of = lru_cache(maxsize=4)(date_time_of)  # under load, several are signed in a millisecond

log = structlog.get_logger()


class AuditLog:
    """An append-only file of signatures."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = _NOT_OPEN
        self._is_unsynced = False
        self._is_broken_off = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._listeners: list[Callable[[], None]] = []
        self._lock = Lock()  # a line is never written to a file that is being replaced

    def on_line(self, listener: Callable[[], None]) -> None:
        """Call `listener` in the event loop after each line."""
        self._listeners.append(listener)

    def append(self, entry: AuditEntry) -> None:
        """Add a line. Raises UnavailableError when it cannot be written whole."""
        line = _line(entry)
        with self._lock:
            if self._is_broken_off:
                line = b"\n" + line
            try:
                written = os.write(self._file, line)
            except OSError as error:
                raise _unwritten(error.strerror) from error
            self._is_unsynced = True
            self._is_broken_off = written < len(line)
        if written < len(line):
            raise _unwritten("no space is left")
        if self._loop is not None:
            for listener in self._listeners:
                self._loop.call_soon_threadsafe(listener)  # transactions are signed in other threads

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Keep the file open while inside. Raises OSError when it cannot be opened."""
        self._use(self._open())
        self._loop = asyncio.get_running_loop()
        try:
            async with running(self._keep_forever()):
                yield
        finally:
            with suppress(OSError):
                _sync_and_close(self._use(_NOT_OPEN))

    async def _keep_forever(self) -> None:
        while True:
            await asyncio.sleep(_SYNC_SECONDS)
            try:
                await self._keep()
            except OSError as error:
                log.warning("audit_log_not_synced", file=str(self._path), reason=error.strerror)

    async def _keep(self) -> None:
        if not self._is_in_place():
            await asyncio.to_thread(_sync_and_close, self._use(self._open()))
        elif self._is_unsynced:
            self._is_unsynced = False
            await asyncio.to_thread(os.fsync, self._file)

    def _is_in_place(self) -> bool:
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return False
        return os.path.samestat(found, os.fstat(self._file))

    def _open(self) -> int:
        return os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def _use(self, file: int) -> int:
        """Write to this file from now on; returns the former file."""
        is_broken_off = file != _NOT_OPEN and _is_broken_off(file)
        with self._lock:
            before, self._file = self._file, file
            self._is_broken_off = is_broken_off
            self._is_unsynced = False
        return before


def _is_broken_off(file: int) -> bool:
    """Whether the last line was not written whole, which only a full disk or a power cut can do."""
    size = os.fstat(file).st_size
    return size > 0 and os.pread(file, 1, size - 1) != b"\n"


def _sync_and_close(file: int) -> None:
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _line(entry: AuditEntry) -> bytes:
    caller = entry.caller
    fields = {
        "at": _date_time_of(entry.at_ms),
        "method": entry.method,
        "account": entry.address,
        "hash": entry.signed_hash,
        "transaction_hash": entry.transaction_hash,
        "client": caller.address,
        "origin": caller.origin,
        "request_id": caller.request_id,
        "approval": entry.approval_id,
    }
    return orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE)


def _unwritten(reason: str | None) -> UnavailableError:
    return UnavailableError(f"Nothing was signed: the audit log cannot be written ({reason}).")
