"""The database file and its log."""

from collections.abc import Iterator

from bridge_server.assembly.engine import database_fault
from bridge_server.cli.amounts import size_text
from bridge_server.cli.doctor.examination import Examination
from bridge_server.cli.doctor.findings import Finding, fail, ok, warn
from bridge_server.storage.inspection import Inspected, InspectionError, inspected
from bridge_server.storage.migrate import packaged_migrations

_SUBJECT = "database"
_LONG_LOG_BYTES = 256 * 2**20
_NEARLY_FULL = 0.9
_RESTORE = "stop the server, and restore a backup with `bridge-server restore`"


def check_database(seen: Examination) -> Iterator[Finding]:
    """Its schema, its size, its integrity, its log and its limit. PostgreSQL has to answer, as at a start."""
    if seen.settings.database is not None:
        fault = database_fault(seen.settings)
        yield ok(_SUBJECT, f"{seen.settings.database} answers") if fault is None else fail(_SUBJECT, fault)
        return
    file = seen.settings.database_file
    if not file.exists() and seen.url is not None:
        text = f"{file} was deleted or moved while the server runs"
        yield fail(_SUBJECT, text, "put it back before the server ends; else stop it and restore a backup")
        return
    if not file.exists():
        text = f"there is none at {file}"
        yield fail(_SUBJECT, text, "the server makes it at its start; or name its directory with --data-dir")
        return
    try:
        found = inspected(file)
    except InspectionError as error:
        yield fail(_SUBJECT, f"{file} cannot be read ({error})", _RESTORE)
        return
    yield _state(found)
    if found.log_bytes > _LONG_LOG_BYTES:
        cure = "a program holds an old state open: look for a backup that hangs"
        yield warn(_SUBJECT, f"the write-ahead log has {size_text(found.log_bytes)}", cure)
    yield from _limit(seen.settings.database_limit, found.used_bytes)


def _state(found: Inspected) -> Finding:
    newest = packaged_migrations()[-1].version
    if found.damage is not None:
        return fail(_SUBJECT, f"it is damaged ({found.damage})", _RESTORE)
    if found.schema > newest:
        text = f"schema {found.schema} is newer than this program's {newest}"
        return fail(_SUBJECT, text, "run the newer program")
    if found.schema < newest:
        return warn(_SUBJECT, f"schema {found.schema}, and this program has {newest}", "restart the server")
    sizes = f"{size_text(found.size_bytes)}, integrity ok; log {size_text(found.log_bytes)}"
    return ok(_SUBJECT, f"schema {found.schema}, {sizes}")


def _limit(limit: int | None, used: int) -> Iterator[Finding]:
    if limit is None:
        return
    text = f"{size_text(used)} of database_limit ({size_text(limit)}) are in use"
    cure = "raise database_limit, or lower lifetimes such as call_ttl"
    if used > limit:
        yield fail(_SUBJECT, f"{text}: nothing is added", cure)
    elif used > limit * _NEARLY_FULL:
        yield warn(_SUBJECT, text, cure)
    else:
        yield ok(_SUBJECT, text)
