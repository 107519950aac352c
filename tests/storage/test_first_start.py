"""The first start over a data directory, killed at any moment: the next one begins anew."""

from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep

from tests.support.command import running_command, watched_server
from tests.support.rows import each_row

_PATIENCE_SECONDS = 60.0


def has_directory(data_dir: Path) -> bool:
    """Whether the start has made the directory."""
    return data_dir.exists()


def has_lock(data_dir: Path) -> bool:
    """Whether the start has taken the lock."""
    return (data_dir / "lock").exists()


def makes_database(data_dir: Path) -> bool:
    """Whether the start writes the schema, or has written it."""
    return any(data_dir.glob("bridge.sqlite3*"))


def has_database(data_dir: Path) -> bool:
    """Whether the database has its name."""
    return (data_dir / "bridge.sqlite3").exists()


@each_row("is_time", [has_directory, has_lock, makes_database, has_database])
def test_a_first_start_that_was_killed_is_begun_anew(tmp_path: Path, is_time: Callable[[Path], bool]) -> None:
    data_dir, deadline = tmp_path / "data", monotonic() + _PATIENCE_SECONDS
    with running_command("serve", "--port", "0", "--data-dir", data_dir) as first:
        while not is_time(data_dir):
            assert monotonic() < deadline
            sleep(0.0002)
        first.process.kill()
        first.process.wait(_PATIENCE_SECONDS)

    with watched_server(tmp_path) as server:
        assert server.url
        assert not list(data_dir.glob("*.creating*"))
