"""`backup FILE`: beside a running server, and refused with one line when it cannot be."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

from tests.cli.conftest import Invoke
from tests.support.command import Finished, run_command
from tests.support.rows import each_row
from tests.support.server import RunningServer


def session_ids(file: Path) -> list[str]:
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return [row[0] for row in connection.execute("SELECT session_id FROM sessions")]


async def test_a_running_server_is_copied(server: RunningServer, tmp_path: Path, invoke: Invoke) -> None:
    session_id = await server.open_session()
    target = tmp_path / "copy.sqlite3"

    result = invoke("backup", target, "--data-dir", server.settings.data_dir)

    assert result.exit_code == 0
    assert result.stdout == f"{target}: {target.stat().st_size} bytes, checked\n"
    assert session_ids(target) == [session_id]


async def test_json_has_the_file_and_its_size(server: RunningServer, tmp_path: Path, invoke: Invoke) -> None:
    target = tmp_path / "copy.sqlite3"

    result = invoke("backup", "--json", target, "--data-dir", server.settings.data_dir)

    assert json.loads(result.stdout) == {"file": str(target), "bytes": target.stat().st_size}


async def test_an_existing_file_is_refused(server: RunningServer, tmp_path: Path, invoke: Invoke) -> None:
    target = tmp_path / "copy.sqlite3"
    target.write_text("precious")

    result = invoke("backup", target, "--data-dir", server.settings.data_dir)

    assert result.exit_code == 2
    assert result.stderr == f"bridge-server: {target} exists already: name a new file\n"
    assert target.read_text() == "precious"


@each_row("target", ["copy.sqlite3", "nowhere/copy.sqlite3"])
def test_a_missing_database_is_one_line_on_standard_error(tmp_path: Path, target: str) -> None:
    finished: Finished = run_command("backup", tmp_path / target, "--data-dir", tmp_path / "none")

    assert finished.exit_code == 2
    assert finished.out == ""
    (line,) = finished.err.splitlines()
    assert line.startswith(f"bridge-server: there is no database at {tmp_path / 'none'}")
    assert not (tmp_path / "none").exists()
