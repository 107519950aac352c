"""A database with the newest schema, without the time that it takes to make one."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from bridge_server.storage.migrate import migrate, packaged_migrations


def place_schema(file: Path) -> None:
    """Put an empty database there, as a first start would, unless something is there already.

    A test suite starts many servers in one process: the migrations run once, and each server gets a copy.
    """
    if file.exists():
        return
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    file.touch(mode=0o600)
    file.write_bytes(_newest_schema())


@cache
def _newest_schema() -> bytes:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "empty.sqlite3"
        migrate(file, packaged_migrations())
        return file.read_bytes()
