"""The audit log: what the wallet has signed, a line of JSON each, in a file that is only ever added to."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import orjson
import structlog

from bridge_server.ethereum.rfc3339 import date_time_of
from bridge_server.kernel.background import running
from bridge_server.kernel.errors import UnavailableError
from bridge_server.wallet.models import AuditEntry

_SYNC_SECONDS = 1.0
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
_NOT_OPEN = -1

log = structlog.get_logger()


class AuditFile:
    """Implements the wallet's audit log.

    A line is with the operating system before its signature leaves, so that it survives the end of this
    process however it comes, and on disk within a second, so that a power cut costs no more. Whoever rotates
    the file renames it: within a second the next one is begun.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = _NOT_OPEN
        self._unsynced = False
        self._broken_off = False

    def append(self, entry: AuditEntry) -> None:
        """Add a line. Raises UnavailableError when it cannot be written whole."""
        line = _line(entry)
        try:
            written = os.write(self._file, b"\n" + line if self._broken_off else line)
        except OSError as error:
            raise _unwritten(error.strerror) from error
        self._unsynced = True
        self._broken_off = written < len(line)
        if self._broken_off:
            raise _unwritten("no space is left")

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Keep the file open while inside. Raises OSError when it cannot be opened."""
        self._file = os.open(self._path, _FLAGS, 0o600)
        try:
            async with running(self._sync_forever()):
                yield
            with suppress(OSError):
                os.fsync(self._file)
        finally:
            os.close(self._file)
            self._file = _NOT_OPEN

    async def _sync_forever(self) -> None:
        while True:
            await asyncio.sleep(_SYNC_SECONDS)
            try:
                await self._sync()
            except OSError as error:
                log.warning("audit_log_not_synced", file=str(self._path), reason=error.strerror)

    async def _sync(self) -> None:
        if self._unsynced:
            self._unsynced = False
            await asyncio.to_thread(os.fsync, self._file)
        if not self._is_in_place():
            self._begin_anew()

    def _is_in_place(self) -> bool:
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return False
        ours = os.fstat(self._file)
        return (found.st_dev, found.st_ino) == (ours.st_dev, ours.st_ino)

    def _begin_anew(self) -> None:
        rotated, self._file = self._file, os.open(self._path, _FLAGS, 0o600)
        self._broken_off = False
        os.close(rotated)


def _line(entry: AuditEntry) -> bytes:
    caller = entry.caller
    fields = {
        "at": date_time_of(entry.at_ms),
        "method": entry.method,
        "account": entry.address,
        "hash": entry.signed_hash,
        "client": caller.address,
        "origin": caller.origin,
        "request_id": caller.request_id,
        "approval": entry.approval_id,
    }
    return orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE)


def _unwritten(reason: str | None) -> UnavailableError:
    return UnavailableError(f"Nothing was signed: the audit log cannot be written ({reason}).")
