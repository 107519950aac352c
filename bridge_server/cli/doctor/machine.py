"""The findings of the doctor, and its checks of the machine: files, database, disk, clock."""

import ctypes
import os
import resource
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum
from functools import partial
from pathlib import Path
from stat import S_IMODE
from typing import Any, TypeAlias

import aiohttp
import orjson

from bridge_server.assembly.foundation import backend_of
from bridge_server.cli.output import duration_text, size_text
from bridge_server.cli.process import ENOUGH_DESCRIPTORS, read_server_file
from bridge_server.ethereum.keystore import KeystoreError, read_keystore
from bridge_server.kernel import events, version
from bridge_server.kernel.values import dataclass
from bridge_server.settings.settings import Settings
from bridge_server.settings.sources import LoadedSettings, secret_names
from bridge_server.storage import backup, data_directory, migrate, restore


class Level(StrEnum):
    """The severity of a finding. The place in this list is the exit code."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was checked. `cure` says what to do; `is_fixed`, that --fix has done it."""

    level: Level
    subject: str
    text: str
    cure: str = ""
    is_fixed: bool = False

    def fields(self) -> dict[str, Any]:
        """The finding as JSON."""
        return {
            "level": self.level, "subject": self.subject, "text": self.text,
            "cure": self.cure or None, "fixed": self.is_fixed,
        }  # fmt: skip

    def row(self) -> tuple[str, str, str]:
        """The cells of its line."""
        fixed = " (fixed)" if self.is_fixed else ""
        return self.level, self.subject, (f"{self.text}: {self.cure}" if self.cure else self.text) + fixed


ok, warn, fail = partial(Finding, Level.OK), partial(Finding, Level.WARN), partial(Finding, Level.FAIL)
"""Findings: the subject is well; it works, but not as it should or not for long; it does not work."""


def exit_code(findings: Iterable[Finding]) -> int:
    """0: all is well; 1: there are warnings; 2: something is broken. What was fixed is well."""
    return max((list(Level).index(each.level) for each in findings if not each.is_fixed), default=0)


# The arguments of every check of the doctor.


@dataclass(frozen=True, slots=True)
class Examination:
    """The settings with their sources, the running server's URL (None: none runs), and whether to mend."""

    loaded: LoadedSettings
    config_file: Path | None
    url: str | None
    fixes: bool
    now_ms: int

    @property
    def settings(self) -> Settings:
        """The settings that the server would have at its next start."""
        return self.loaded.settings


# The files of this machine.

_OF_OTHERS = 0o077
_OF_THE_WORLD = 0o007
_OLD_BACKUP_SECONDS = 7 * 86_400
_BACKUP_CURE = "make one daily: `bridge-server backup --dir DIR --keep 7 --with-keys`"
_MAX_OPEN_FILES = "Max open files"


def check_permissions(seen: Examination) -> Iterator[Finding]:
    """Only the owner reads the data; only owner and group read credentials, and settings that have some."""
    settings = seen.settings
    data_dir = settings.data_dir
    private = [data_dir, *_files_in(data_dir), settings.keystore, *_files_in(settings.keystore)]
    origin = f"file {seen.config_file}"
    has_secrets = any(seen.loaded.origins[name] == origin for name in secret_names())
    config_file = seen.config_file if has_secrets else None
    named = (config_file, settings.private_keys_file, settings.fcm_credentials, settings.apns_key)
    masks = [(path, _OF_OTHERS) for path in private] + [(path, _OF_THE_WORLD) for path in named if path]
    found = [finding for path, mask in masks for finding in _permission(path, mask, fixes=seen.fixes)]
    yield from found or [ok("permissions", "nobody else can read the data, the settings and the keys")]


def check_key_files(seen: Examination) -> Iterator[Finding]:
    """Whether each key file of the wallet is one."""
    files, readable = _files_in(seen.settings.keystore), 0
    for file in files:
        try:
            read_keystore(file.read_bytes())
            readable += 1
        except (OSError, KeystoreError):
            yield warn("key files", f"{file} is no key file that the wallet can open", "remove or replace it")
    if files:
        yield ok("key files", f"{readable} can be read")


def check_backups(seen: Examination) -> Iterator[Finding]:
    """The time of the last backup, and whether it is still there."""
    if seen.settings.database is not None:  # PostgreSQL's own programs make and keep them
        return
    last = backup.read_record(seen.settings.data_dir)
    if last is None:
        yield warn("backup", "none was made yet", _BACKUP_CURE)
        return
    age_seconds = max(0, seen.now_ms - last.at_ms) / 1_000
    if age_seconds > _OLD_BACKUP_SECONDS:
        yield warn("backup", f"none for {duration_text(age_seconds)}", _BACKUP_CURE)
    elif not Path(last.file).exists():
        yield warn("backup", f"the last one is not at {last.file} any more", _BACKUP_CURE)
    else:
        yield ok("backup", f"{size_text(last.bytes)}, {duration_text(age_seconds)} old, at {last.file}")


def check_open_files(seen: Examination) -> Iterator[Finding]:
    """The running server's limit, or that of a server which this user would start."""
    limit = _servers_limit(seen) or resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    unlimited = limit == resource.RLIM_INFINITY
    if not unlimited and limit < ENOUGH_DESCRIPTORS:
        cure = "raise it (LimitNOFILE=65536, ulimit -Hn): each waiting client needs one"
        yield warn("open files", f"{limit:,} at most", cure)
    else:
        yield ok("open files", "unlimited" if unlimited else f"{limit:,} at most")


def check_left_over(seen: Examination) -> Iterator[Finding]:
    """The file of a server that was killed."""
    file = seen.settings.server_file
    if seen.url is not None or not file.exists():
        return
    if seen.fixes:
        file.unlink(missing_ok=True)
    cure = "see its log; the next start replaces the file"
    yield Finding(Level.WARN, "server", f"{file} was left by a server that was killed", cure, seen.fixes)


def _permission(path: Path, mask: int, *, fixes: bool) -> Iterator[Finding]:
    try:
        mode = S_IMODE(path.stat().st_mode)
        if not mode & mask:
            return
        if fixes:
            path.chmod(mode & ~mask)
    except FileNotFoundError:
        return
    except OSError as error:
        yield fail("permissions", f"{path}: {error.strerror}", "run this as the server's user")
        return
    others = "others than its owner" if mask == _OF_OTHERS else "everybody"
    cure = f"chmod {mode & ~mask:o} {path}, or doctor --fix"
    yield Finding(Level.WARN, "permissions", f"{others} can reach {path} (mode {mode:04o})", cure, fixes)


def _files_in(directory: Path) -> list[Path]:
    try:
        return sorted(file for file in directory.iterdir() if file.is_file() and not file.is_symlink())
    except OSError:
        return []


def _servers_limit(seen: Examination) -> int | None:
    """The limit of the running server's process; None where the system does not say."""
    facts = read_server_file(seen.settings.server_file) if seen.url is not None else None
    try:
        lines = Path(f"/proc/{int((facts or {})['pid'])}/limits").read_text("ascii").splitlines()
        [line] = [line for line in lines if line.startswith(_MAX_OPEN_FILES)]
        return int(line.removeprefix(_MAX_OPEN_FILES).split()[0])
    except (KeyError, OSError, ValueError, TypeError):
        return None


# The database file and its log.

_DATABASE = "database"
_LONG_LOG_BYTES = 256 * 2**20
_NEARLY_FULL = 0.9
_RESTORE = "stop the server, and restore a backup with `bridge-server restore`"


def check_database(seen: Examination) -> Iterator[Finding]:
    """Its schema, its size, its integrity, its log and its limit. PostgreSQL has to answer, as at a start."""
    if seen.settings.database is not None:
        fault = backend_of(seen.settings, events.Events()).fault()
        yield ok(_DATABASE, f"{seen.settings.database} answers") if fault is None else fail(_DATABASE, fault)
        return
    file = seen.settings.database_file
    if not file.exists():
        text = f"there is none at {file}"
        cure = "the server makes it at its start; or name its directory with --data-dir"
        if seen.url is not None:
            text = f"{file} was deleted or moved while the server runs"
            cure = "put it back before the server ends; else stop it and restore a backup"
        yield fail(_DATABASE, text, cure)
        return
    try:
        data_directory.require_data(file)
        found = restore.inspected(file)
    except data_directory.DataDirectoryError as error:
        yield fail(_DATABASE, str(error))
        return
    except restore.InspectionError as error:
        yield fail(_DATABASE, f"{file} cannot be read ({error})", _RESTORE)
        return
    yield _database_state(found)
    if found.log_bytes > _LONG_LOG_BYTES:
        cure = "a program holds an old state open: look for a backup that hangs"
        yield warn(_DATABASE, f"the write-ahead log has {size_text(found.log_bytes)}", cure)
    if (limit := seen.settings.database_limit) is not None:
        text = f"{size_text(found.used_bytes)} of database_limit ({size_text(limit)}) are in use"
        cure = "raise database_limit, or lower lifetimes such as call_ttl"
        if found.used_bytes > limit:
            yield fail(_DATABASE, f"{text}: nothing is added", cure)
        elif found.used_bytes > limit * _NEARLY_FULL:
            yield warn(_DATABASE, text, cure)
        else:
            yield ok(_DATABASE, text)


def _database_state(found: restore.Inspected) -> Finding:
    newest = migrate.packaged_migrations()[-1].version
    if found.damage is not None:
        return fail(_DATABASE, f"it is damaged ({found.damage})", _RESTORE)
    if found.schema > newest:
        text = f"schema {found.schema} is newer than this program's {newest}"
        return fail(_DATABASE, text, "run the newer program")
    if found.schema < newest:
        return warn(_DATABASE, f"schema {found.schema}, and this program has {newest}", "restart the server")
    sizes = f"{size_text(found.size_bytes)}, integrity ok; log {size_text(found.log_bytes)}"
    return ok(_DATABASE, f"schema {found.schema}, {sizes}")


# The disk: its free space, and the days until it is full at the rate at which the database grows.

_DISK = "disk"
_ROOM = "make room, set database_limit, or lower lifetimes such as call_ttl"
_SIZES_FILE = "doctor.json"
_MOST_SIZES = 60
_APART_MS = 3_600_000
_DAY_MS = 86_400_000
_FEW_BYTES, _VERY_FEW_BYTES = 10**9, 10**8
_SOON_DAYS = 14

_Sizes: TypeAlias = Sequence[tuple[int, int]]
"""Times in milliseconds, and the bytes of the database at these times."""


def check_disk(seen: Examination) -> Iterator[Finding]:
    """Free space. Each examination remembers the size of the database, from which it knows the growth."""
    data_dir, file = seen.settings.data_dir, seen.settings.database_file
    if not data_dir.is_dir():
        return
    disk = shutil.disk_usage(data_dir)
    size = file.stat().st_size if file.exists() else 0
    sizes, days = _remembered(data_dir, seen.now_ms, size), None
    if sizes and seen.now_ms - sizes[0][0] >= _APART_MS and size > sizes[0][1]:  # it grows
        grown_per_ms = (size - sizes[0][1]) / (seen.now_ms - sizes[0][0])
        days = disk.free / grown_per_ms / _DAY_MS
    text = f"{size_text(disk.free)} free of {size_text(disk.total)}"
    if days is not None:
        text += f": enough for {duration_text(days * 86_400)} at this rate"
    cure = _ROOM if seen.settings.database is None else "make room"
    if disk.free < _VERY_FEW_BYTES:
        yield fail(_DISK, text, cure)
    elif disk.free < _FEW_BYTES or (days is not None and days < _SOON_DAYS):
        yield warn(_DISK, text, cure)
    else:
        yield ok(_DISK, text)


def _remembered(data_dir: Path, now_ms: int, size: int) -> _Sizes:
    """The sizes of earlier examinations, to which this one is added."""
    try:
        content = orjson.loads((data_dir / _SIZES_FILE).read_bytes())["sizes"]
        sizes = [(int(at_ms), int(before)) for at_ms, before in content if int(at_ms) <= now_ms]
    except (OSError, ValueError, KeyError, TypeError):
        sizes = []
    if not sizes or now_ms - sizes[-1][0] >= _APART_MS:
        kept = [*sizes, (now_ms, size)][-_MOST_SIZES:]
        with suppress(OSError):  # what cannot be written is not remembered
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
            with os.fdopen(os.open(data_dir / _SIZES_FILE, flags, 0o600), "wb") as stream:
                stream.write(orjson.dumps({"sizes": kept}))
    return sizes


# The clock: whether the machine synchronises it, and its difference to the time of push services.

_CLOCK = "clock"
_CLOCK_CURE = "synchronise it (timedatectl set-ntp true): pushes, sign-ins and lifetimes go by it"
_GOOGLE = "https://fcm.googleapis.com"
_NOT_SYNCHRONISED = 5
_TIMEX_BYTES = 512
"""More than the structure that the kernel fills has in any of its versions."""
_SOME_SECONDS, _MANY_SECONDS = 5, 60
_ANSWER_SECONDS = 5.0


def is_synchronised() -> bool | None:
    """Whether the kernel says that a time service keeps the clock; None where it does not say."""
    try:
        state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES))
    except (OSError, AttributeError):
        return None
    return None if state < 0 else bool(state != _NOT_SYNCHRONISED)


async def check_clock(seen: Examination) -> list[Finding]:
    """The kernel's synchronisation, and the difference to a push service's clock if one is configured."""
    endpoint = seen.settings.fcm_token_endpoint or seen.settings.fcm_endpoint or _GOOGLE
    seconds = None if seen.settings.fcm_credentials is None else await _seconds_ahead(endpoint)
    if seconds is None:
        match is_synchronised():
            case None:
                return [ok(_CLOCK, "this system does not say whether it is synchronised")]
            case True:
                return [ok(_CLOCK, "synchronised, as the kernel says")]
            case False:
                return [warn(_CLOCK, "no time service synchronises it", _CLOCK_CURE)]
    text = f"{abs(seconds):.0f} s {'ahead of' if seconds > 0 else 'behind'} the push service's"
    if abs(seconds) < _SOME_SECONDS:
        return [ok(_CLOCK, text)]
    return [(fail if abs(seconds) >= _MANY_SECONDS else warn)(_CLOCK, text, _CLOCK_CURE)]


async def _seconds_ahead(url: str) -> float | None:
    """The seconds by which this clock is ahead of a server's; None if the server does not say its time."""
    timeout = aiohttp.ClientTimeout(total=_ANSWER_SECONDS)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout, headers={"User-Agent": version.USER_AGENT}) as session,
            session.head(url, allow_redirects=False) as response,
        ):
            theirs = parsedate_to_datetime(response.headers["Date"])
    except (aiohttp.ClientError, TimeoutError, KeyError, ValueError):
        return None
    return (datetime.now(UTC) - theirs).total_seconds()
