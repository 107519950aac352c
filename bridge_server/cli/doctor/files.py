"""Files: their permissions, the wallet's key files, backups, and the limit of open files."""

import resource
from collections.abc import Iterator
from pathlib import Path
from stat import S_IMODE

from bridge_server.cli.amounts import duration_text, size_text
from bridge_server.cli.doctor.examination import Examination
from bridge_server.cli.doctor.findings import Finding, Level, fail, ok, warn
from bridge_server.cli.process import read_server_file
from bridge_server.ethereum.keystore import KeystoreError, read_keystore
from bridge_server.storage.backup_series import read_record

_OF_OTHERS = 0o077
_OF_THE_WORLD = 0o007
_ENOUGH_OPEN_FILES = 5_500
_OLD_BACKUP_SECONDS = 7 * 86_400
_BACKUP_CURE = "make one daily: `bridge-server backup --dir DIR --keep 7 --with-keys`"
_MAX_OPEN_FILES = "Max open files"


def check_permissions(seen: Examination) -> Iterator[Finding]:
    """Nobody but the owner reads the data; nobody but owner and group reads the settings and credentials."""
    settings = seen.settings
    data_dir = settings.data_dir
    private = [data_dir, *_files_in(data_dir), settings.keystore, *_files_in(settings.keystore)]
    named = (
        seen.config_file, settings.private_keys_file, settings.fcm_credentials, settings.apns_key
    )  # fmt: skip
    wide = [
        *((path, _OF_OTHERS) for path in private),
        *((path, _OF_THE_WORLD) for path in named if path is not None),
    ]
    found = [finding for path, mask in wide for finding in _permission(path, mask, fixes=seen.fixes)]
    yield from found or [ok("permissions", "nobody else can read the data, the settings and the keys")]


def check_key_files(seen: Examination) -> Iterator[Finding]:
    """Whether each key file of the wallet is one."""
    files = _files_in(seen.settings.keystore)
    bad = [file for file in files if not _is_key_file(file)]
    for file in bad:
        yield warn("key files", f"{file} is no key file that the wallet can open", "remove or replace it")
    if files:
        yield ok("key files", f"{len(files) - len(bad)} can be read")


def check_backups(seen: Examination) -> Iterator[Finding]:
    """The time of the last backup, and whether it is still there."""
    if seen.settings.database is not None:  # PostgreSQL's own programs make and keep them
        return
    last = read_record(seen.settings.data_dir)
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
    if not unlimited and limit < _ENOUGH_OPEN_FILES:
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


def _is_key_file(file: Path) -> bool:
    try:
        read_keystore(file.read_bytes())
    except (OSError, KeystoreError):
        return False
    return True


def _servers_limit(seen: Examination) -> int | None:
    """The limit of the running server's process; None where the system does not say."""
    facts = read_server_file(seen.settings.server_file) if seen.url is not None else None
    try:
        lines = Path(f"/proc/{int((facts or {})['pid'])}/limits").read_text("ascii").splitlines()
        [line] = [line for line in lines if line.startswith(_MAX_OPEN_FILES)]
        return int(line.removeprefix(_MAX_OPEN_FILES).split()[0])
    except (KeyError, OSError, ValueError, TypeError):
        return None
