"""A start that cannot succeed ends by itself, with one line that says what to do, and exit code 2."""

import os
import socket
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from bridge_server.cli.options import CommandError
from bridge_server.cli.process import ready_file_at
from bridge_server.storage.data_directory import held
from tests.support.command import Finished, run_command, watched_server
from tests.support.rows import each_row


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def taken_port() -> Iterator[int]:
    with closing(socket.create_server(("127.0.0.1", 0))) as other:
        yield other.getsockname()[1]


def serve(data_dir: Path, *arguments: str, **environment: str) -> Finished:
    """Start a server that is expected to end by itself, soon: no thread may keep it alive."""
    return run_command("serve", "--port", "0", "--data-dir", data_dir, *arguments, environment=environment)


def only_line(finished: Finished) -> str:
    """The one line that a refused start writes."""
    assert finished.exit_code == 2, finished.err
    assert finished.out == ""
    (line,) = finished.err.splitlines()
    assert line.startswith("bridge-server: ")
    return line


def test_second_server_on_a_directory_names_the_process_that_holds_it(tmp_path: Path) -> None:
    with watched_server(tmp_path) as first:
        line = only_line(serve(tmp_path / "data", "--ready-file", str(first.ready_file)))

        assert first.process.poll() is None
        assert first.ready_file.exists()
        assert f"process {first.process.pid}" in line
        assert str(tmp_path / "data") in line


def test_a_file_in_the_place_of_the_directory(data_dir: Path) -> None:
    data_dir.write_text("in the way")

    line = only_line(serve(data_dir / "below"))

    assert f"the data directory {data_dir / 'below'} cannot be used" in line
    assert "--data-dir" in line


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is unwritable to root")
def test_an_unwritable_directory(data_dir: Path) -> None:
    data_dir.mkdir(mode=0o500)

    assert "Permission denied" in only_line(serve(data_dir / "below"))


def test_a_database_of_a_newer_version(data_dir: Path) -> None:
    data_dir.mkdir(mode=0o700)
    with closing(sqlite3.connect(data_dir / "bridge.sqlite3")) as connection:
        connection.execute("PRAGMA user_version = 9999")

    line = only_line(serve(data_dir))

    assert "schema version 9999" in line
    assert "newer program" in line


def test_something_else_in_the_place_of_the_database(data_dir: Path) -> None:
    data_dir.mkdir(mode=0o700)
    database = data_dir / "bridge.sqlite3"
    database.write_text("this is not a database " * 100)

    assert "bridge.sqlite3 cannot be opened" in only_line(serve(data_dir))
    database.unlink()
    database.mkdir()
    assert "bridge.sqlite3" in only_line(serve(data_dir))


@pytest.mark.parametrize(
    "command",
    [
        ("serve", "--port", "0"), ("project", "list"), ("project", "create", "Shop"), ("backup", "copy"),
        ("copy", "--to", "postgresql://nobody@127.0.0.1:9/none"),
    ],
    ids=lambda command: command[0],
)  # fmt: skip
def test_an_empty_file_in_the_place_of_the_database(data_dir: Path, command: tuple[str, ...]) -> None:
    data_dir.mkdir(mode=0o700, exist_ok=True)
    database = data_dir / "bridge.sqlite3"
    database.touch()

    assert only_line(run_command(*command, "--data-dir", data_dir)) == (
        f"bridge-server: the database {database} is an empty file, so its data is lost: restore a backup "
        "with `bridge-server restore FILE`, or move the file away to begin with a new database"
    )
    assert database.stat().st_size == 0


def test_a_port_in_use(data_dir: Path, taken_port: int) -> None:
    line = only_line(serve(data_dir, "--port", str(taken_port)))
    with held(data_dir):
        assert not (data_dir / "bridge.sqlite3-wal").exists()
    metrics = only_line(serve(data_dir, BRIDGE_METRICS_PORT=str(taken_port), BRIDGE_LOG_LEVEL="error"))

    assert f"cannot listen on 127.0.0.1 port {taken_port}" in line
    assert "in use" in line
    assert "--port" in line
    assert f"port {taken_port} (Address already in use)" in metrics
    assert "metrics_port" in metrics
    assert "--port" not in metrics


def test_a_host_that_is_not_of_this_machine(data_dir: Path) -> None:
    assert "cannot listen on 192.0.2.1" in only_line(serve(data_dir, "--host", "192.0.2.1"))


@each_row("where", ["nowhere/ready.json", "file/ready.json"])
def test_a_ready_file_that_cannot_be_written(tmp_path: Path, where: str) -> None:
    (tmp_path / "file").write_text("in the way")

    line = only_line(
        serve(tmp_path / "data", "--ready-file", str(tmp_path / where), BRIDGE_LOG_LEVEL="error")
    )

    reason = "Not a directory" if where.startswith("file") else "No such file or directory"
    assert f"{tmp_path / where} cannot be written: {reason}" in line


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_no_space_for_the_ready_file_is_said_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready_file = tmp_path / "ready.json"
    with closing(Path("/dev/full").open("wb")) as full:
        monkeypatch.setattr("os.open", lambda *_: os.dup(full.fileno()))
        with pytest.raises(CommandError) as refused, ready_file_at(ready_file, {"url": "http://127.0.0.1"}):
            pass

    assert str(refused.value) == f"the ready file {ready_file} cannot be written: No space left on device"
    assert refused.value.exit_code == 2
    assert list(tmp_path.iterdir()) == []


def test_a_ready_file_that_is_a_pipe_or_a_device_is_refused_and_stays(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    finished = run_command("serve", "--port", "0", "--data-dir", tmp_path / "data", "--ready-file", pipe)

    assert finished.exit_code == 2
    assert finished.err.splitlines()[-1].endswith(
        f"the ready file {pipe} is not a file: name another, or leave out --ready-file"
    )
    assert pipe.is_fifo()
