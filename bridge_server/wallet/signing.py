"""Signing messages and typed data: with an open key, after approval, and with a line in the audit log.

The audit log has a line of JSON for each signature, in a file that is only appended to.
"""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from enum import StrEnum
from functools import partial
from pathlib import Path
from threading import Lock, get_ident
from typing import Any, NamedTuple

import orjson
import structlog

from bridge_server.ethereum.address import hex_of
from bridge_server.ethereum.signing_key import SigningKey, personal_message_hash
from bridge_server.ethereum.typed_data import TypedData
from bridge_server.kernel import background, errors, instants
from bridge_server.kernel.clock import Clock
from bridge_server.wallet.accounts import Accounts
from bridge_server.wallet.approvals import Approvals
from bridge_server.wallet.models import Address, ApprovalId, AuditEntry, Caller

MOST_BYTES = 2**20
"""The most bytes of the audit log that are read for one page."""

_BLOCK_BYTES = 2**16
_SYNC_SECONDS = 1.0
_NOT_OPEN = -1

log = structlog.get_logger()


class AuditLog:
    """An append-only file of signatures."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = _NOT_OPEN
        self._is_unsynced = False
        self._is_broken_off = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0
        self._is_announced = True
        self._listeners: list[Callable[[], None]] = []
        self._lock = Lock()  # a line is never written to a file that is being replaced

    def on_line(self, listener: Callable[[], None]) -> None:
        """Call `listener` in the event loop after lines were added: once for all lines of one turn."""
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
        if self._loop is None or not self._listeners:
            return
        if get_ident() != self._thread:  # transactions are signed in other threads
            self._loop.call_soon_threadsafe(self._announce)
        elif self._is_announced:
            self._is_announced = False
            self._loop.call_soon(self._announce)

    def _announce(self) -> None:
        self._is_announced = True
        for listener in self._listeners:
            listener()

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Keep the file open while inside. Raises OSError when it cannot be opened."""
        self._use(self._open())
        self._loop, self._thread, self._is_announced = asyncio.get_running_loop(), get_ident(), True
        try:
            async with background.running(self._keep_forever()):
                yield
        finally:
            with suppress(OSError):
                _sync_and_close(self._use(_NOT_OPEN))

    async def _keep_forever(self) -> None:
        while True:
            await asyncio.sleep(_SYNC_SECONDS)
            try:
                if not self._is_in_place():
                    await asyncio.to_thread(_sync_and_close, self._use(self._open()))
                elif self._is_unsynced:
                    self._is_unsynced = False
                    await asyncio.to_thread(os.fsync, self._file)
            except OSError as error:
                log.warning("audit_log_not_synced", file=str(self._path), reason=error.strerror)

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
    at_ms, method, address, signed_hash, caller, approval_id, transaction_hash = entry
    fields = {
        "at": instants.rfc3339(at_ms), "method": method, "account": address, "hash": signed_hash,
        "transaction_hash": transaction_hash, "client": caller.address, "origin": caller.origin,
        "request_id": caller.request_id, "approval": approval_id,
    }  # fmt: skip
    return orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE)


def _unwritten(reason: str | None) -> errors.UnavailableError:
    return errors.UnavailableError(f"Nothing was signed: the audit log cannot be written ({reason}).")


# The audit log read from its end, page by page, and never more than a part of it.


class AuditPage(NamedTuple):
    """Lines of the log, newest first. More stand before the place `rest` in the file; None at its start."""

    entries: Sequence[dict[str, Any]]
    rest: int | None


def read_history(path: Path, before: int | None, limit: int, most_bytes: int = MOST_BYTES) -> AuditPage:
    """The last lines of the file, or of its first `before` bytes, but none that was not written whole. It
    blocks. A page may be short although more lines stand before it. Raises UnavailableError.
    """
    try:
        with path.open("rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            end = size if before is None else min(before, size)
            return _last_lines(file.fileno(), end, limit, most_bytes)
    except FileNotFoundError:
        return AuditPage([], None)
    except OSError as error:
        raise errors.UnavailableError(f"The audit log cannot be read ({error.strerror}).") from error


def _last_lines(file: int, end: int, limit: int, most_bytes: int) -> AuditPage:
    start, text = end, b""
    while start > 0 and end - start < most_bytes and text.count(b"\n") <= limit + 1:
        step = min(_BLOCK_BYTES, start)
        start -= step
        text = os.pread(file, step, start) + text
    lines, first = text.split(b"\n"), start
    if start > 0:  # the first line may have begun before
        first += len(lines.pop(0)) + 1
    if first >= end:  # a line is longer than all that may be read: the next page goes on within it
        return AuditPage([], start or None)
    entries: list[dict[str, Any]] = []
    place = end + 1
    while lines and len(entries) < limit:
        line = lines.pop()
        place -= len(line) + 1
        with suppress(orjson.JSONDecodeError):
            if isinstance(entry := orjson.loads(line), dict):
                entries.append(entry)
    return AuditPage(entries, place or None)


# Messages and typed data.


class TypedDataScheme(StrEnum):
    """The scheme by which typed data is signed."""

    EIP712 = "eip712"
    """The hash of the 66-byte preimage, as every verifier expects."""
    EIP191 = "eip191"
    """The 66-byte preimage as a message, behind the prefix of messages (the protocol's rule for messages)."""


class Signing:
    """Signs for accounts whose keys are open, or with a passphrase. Signatures are 65 bytes: r, s and v.
    Transactions are signed by their service, with `key`, `approved` and `record`.
    """

    def __init__(
        self,
        accounts: Accounts,
        approvals: Approvals,
        audit: AuditLog,
        clock: Clock,
        scheme: TypedDataScheme = TypedDataScheme.EIP712,
    ) -> None:
        self._accounts = accounts
        self._approvals = approvals
        self._audit = audit
        self._clock = clock
        self._scheme = scheme

    @property
    def asks_for_approval(self) -> bool:
        """Whether a signature may take as long as a human does."""
        return self._approvals.is_on

    def key(self, address: Address) -> SigningKey:
        """The account's open key. Raises UnknownAccountError, LockedError."""
        return self._accounts.key(address)

    async def approved(
        self, method: str, address: Address, subject: Callable[[], bytes], caller: Caller
    ) -> ApprovalId | None:
        """The approval's id, if one is needed. `subject` makes the JSON to show. Raises as `Approvals`."""
        if not self._approvals.is_on:
            return None
        return await self._approvals.approved(method, address, subject(), caller)

    def record(
        self, method: str, address: Address, signed_hash: bytes, caller: Caller,
        approval_id: ApprovalId | None, transaction_hash: str | None = None,
    ) -> None:  # fmt: skip
        """Add a signature to the audit log, before anybody sees it. Raises UnavailableError."""
        now_ms, digest = self._clock.now_ms(), hex_of(signed_hash)
        self._audit.append(AuditEntry(now_ms, method, address, digest, caller, approval_id, transaction_hash))

    def sign_message(
        self, method: str, address: Address, message: bytes, caller: Caller, passphrase: str | None = None
    ) -> Awaitable[bytes]:
        """Sign a message (EIP-191, 0x45). Raises UnknownAccountError, LockedError, WrongPassphraseError,
        SignatureRejectedError; UnavailableError when the log cannot be written.
        """
        return self._sign(method, address, personal_message_hash(message), message, caller, passphrase)

    def sign_typed_data(
        self, method: str, address: Address, typed_data: TypedData, document: Any, caller: Caller
    ) -> Awaitable[bytes]:
        """Sign typed data (EIP-712), shown for approval as `document`. Raises what `sign_message` raises."""
        is_message = self._scheme is TypedDataScheme.EIP191
        digest = personal_message_hash(typed_data.preimage) if is_message else typed_data.digest
        return self._sign(method, address, digest, document, caller, None)

    async def _sign(
        self, method: str, address: Address, digest: bytes, subject: Any, caller: Caller,
        passphrase: str | None,
    ) -> bytes:  # fmt: skip
        if passphrase is None:
            key = self._accounts.key(address)
        else:
            key = await self._accounts.key_with(address, passphrase)
        approval_id = None
        if self._approvals.is_on:
            approval_id = await self.approved(method, address, partial(_json_of, subject), caller)
            if passphrase is None:
                key = self._accounts.key(address)  # it may have been locked since
        signature = key.sign(digest)
        self.record(method, address, digest, caller, approval_id)
        return signature


def _json_of(subject: Any) -> bytes:
    """The data to sign as JSON text, for an approval. Its integers may have any size."""
    shown = hex_of(subject) if isinstance(subject, bytes) else subject
    return json.dumps(shown, ensure_ascii=False).encode()
