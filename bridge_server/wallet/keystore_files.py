"""The wallet's key files: a directory such as geth's, which other programs may read and add to meanwhile."""

import fcntl
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from math import inf
from pathlib import Path
from time import monotonic
from typing import NamedTuple

import structlog

from bridge_server.ethereum.keystore import LARGEST_FILE_BYTES, KeystoreError, read_keystore
from bridge_server.kernel import errors, instants
from bridge_server.kernel.clock import Clock
from bridge_server.wallet.models import AccountExistsError, Address, UnknownAccountError

# As coarse as file systems are about when a directory was changed; and how often a file is tried again that
# was none of a key, or only half copied.
_SETTLING_SECONDS = 2.0

# A name that every program skips; only the holder of the directory's lock writes it.
_PARTIAL = ".partial"

_NAMED_ADDRESS = re.compile(r".*--(?:0x)?([0-9a-fA-F]{40})(?:\.json)?")

log = structlog.get_logger()


class _Seen(NamedTuple):
    """A file as it was read last: its version, and the account of its key, if it has one."""

    version: tuple[int, int, int]
    address: Address | None


class KeystoreFiles:
    """Keystore files of version 3, one per account, written atomically with mode 0600."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._seen: Mapping[str, _Seen] = {}
        self._names: Mapping[Address, str] = {}
        self._changed_ns = -1
        self._settled_at = 0.0
        self._check_again_at = 0.0

    def addresses(self) -> Sequence[Address]:
        """The accounts with files, in the order of the files' names. Raises UnavailableError."""
        with self._access():
            self._check()
        return list(self._names)

    def file(self, address: Address) -> Path:
        """The path of the account's key file. Raises UnknownAccountError, UnavailableError."""
        if address not in self.addresses():
            raise UnknownAccountError(address)
        return self._path / self._names[address]

    def read(self, address: Address) -> bytes:
        """The account's file. Raises UnknownAccountError, UnavailableError."""
        file = self.file(address)
        with self._access():
            return _content(file)

    def write(self, address: Address, content: bytes) -> None:
        """Store a new account's file durably, in any thread. Raises AccountExistsError, UnavailableError."""
        moment = instants.rfc3339(self._clock.now_ms()).replace(":", "-").removesuffix("Z")
        name = f"UTC--{moment}000000Z--{address.removeprefix('0x')}"
        with self._access():
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._path.mkdir(mode=0o700, exist_ok=True)
            with _opened(self._path) as descriptor:
                fcntl.flock(descriptor, fcntl.LOCK_EX)  # keeps other writers out
                if address in _names(_examine(self._path, self._seen)):
                    raise AccountExistsError(address)
                _write(self._path / _PARTIAL, content)
                (self._path / _PARTIAL).rename(self._path / name)
                os.fsync(descriptor)
                with _opened(self._path.parent) as parent:
                    os.fsync(parent)

    def _check(self) -> None:
        """Read the directory again unless nothing can have changed; two changes may have one time."""
        now, changed_ns = monotonic(), _changed_ns(self._path)
        has_changed = changed_ns != self._changed_ns
        if not has_changed and now < self._check_again_at:
            return
        self._seen = _examine(self._path, self._seen)
        self._names = _names(self._seen)
        if has_changed:
            self._changed_ns, self._settled_at = changed_ns, now + _SETTLING_SECONDS
        if now < self._settled_at:
            self._check_again_at = now
        elif all(file.address for file in self._seen.values()):
            self._check_again_at = inf
        else:
            self._check_again_at = now + _SETTLING_SECONDS

    @contextmanager
    def _access(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise errors.UnavailableError(
                f"The directory of key files, {self._path}, cannot be used: {error.strerror}."
            ) from error


def _changed_ns(directory: Path) -> int:
    """The time of the directory's last change of entries; -1 while it does not exist."""
    try:
        return directory.stat().st_mtime_ns
    except FileNotFoundError:
        return -1


def _examine(directory: Path, before: Mapping[str, _Seen]) -> dict[str, _Seen]:
    """The files of the directory by their names, in order. Unchanged files are not read again."""
    try:
        entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
    except FileNotFoundError:
        return {}
    seen = {}
    for entry in entries:
        if entry.name.startswith(".") or entry.name.endswith("~"):
            continue
        with suppress(OSError):  # it is gone meanwhile, or a link to itself
            if entry.is_file():
                seen[entry.name] = _seen(entry, before.get(entry.name))
    return seen


def _seen(entry: os.DirEntry[str], before: _Seen | None) -> _Seen:
    status = entry.stat()
    version = (status.st_ino, status.st_size, status.st_ctime_ns)
    if before is not None and before.version == version:
        return before
    return _Seen(version, _address(Path(entry.path)))


def _names(seen: Mapping[str, _Seen]) -> dict[Address, str]:
    """The first file of each account."""
    names: dict[Address, str] = {}
    for name, file in seen.items():
        if file.address is not None:
            names.setdefault(file.address, name)
    return names


def _address(file: Path) -> Address | None:
    """The account of the key in a file, by its content, or else by its name."""
    try:
        address = read_keystore(_content(file)).address
    except (KeystoreError, OSError) as error:
        log.warning("key_file_passed_over", file=str(file), reason=str(error))
        return None
    if address is not None:
        return Address(address)
    named = _NAMED_ADDRESS.fullmatch(file.name)
    if named is None:
        log.warning("key_file_passed_over", file=str(file), reason="it has no address")
        return None
    return Address(f"0x{named[1].lower()}")


def _content(file: Path) -> bytes:
    with file.open("rb") as stream:
        return stream.read(LARGEST_FILE_BYTES + 1)


@contextmanager
def _opened(directory: Path) -> Iterator[int]:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _write(file: Path, content: bytes) -> None:
    file.unlink(missing_ok=True)  # of a writer that was killed
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with os.fdopen(os.open(file, flags, 0o600), "wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
