"""The file of `--config-out`."""

import os
import stat
from pathlib import Path
from typing import Any

import orjson
import pytest

from bridge_server.cli.dev_files import config_file_at
from bridge_server.cli.options import CommandError
from tests.support.rows import each_row

FACTS: dict[str, Any] = {
    "url": "http://127.0.0.1:8080", "v07_url": "http://127.0.0.1:8080/compat/v0.7", "pid": 0,
    "rpc_url": "http://127.0.0.1:8080/rpc", "test_token": "a-test", "admin_token": "an-admin",
    "project": {"id": "demo", "secret": "bsk_demo_x", "types": ["news"]}, "accounts": [],
}  # fmt: skip


@pytest.fixture(autouse=True)
def facts_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The module may have been imported before this process was forked."""
    monkeypatch.setitem(FACTS, "pid", os.getpid())


_NO_PROCESS = 2**22 + 1


def refused(path: Path) -> str:
    with pytest.raises(CommandError) as error, config_file_at(path, FACTS):
        pass
    return str(error.value)


def test_the_file_is_private_and_goes_with_the_server(tmp_path: Path) -> None:
    path = tmp_path / "dev.json"
    with config_file_at(path, FACTS):
        assert orjson.loads(path.read_bytes()) == {"made_by": "bridge-server dev", **FACTS}
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == []


def test_for_a_shell_it_has_the_variables_that_fixtures_read(tmp_path: Path) -> None:
    path = tmp_path / "bridge.env"
    with config_file_at(path, FACTS):
        lines = path.read_text().splitlines()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600

    assert "export BRIDGE_URL=http://127.0.0.1:8080" in lines
    assert "export BRIDGE_ADMIN_TOKEN=an-admin" in lines
    assert "export BRIDGE_TEST_TOKEN=a-test" in lines
    assert "export BRIDGE_PROJECT_SECRET=bsk_demo_x" in lines
    assert not any("LAN" in line for line in lines)


@each_row("name", ["dev.json", "dev.env"])
def test_the_file_of_a_killed_server_is_overwritten_and_a_running_servers_file_is_not(
    tmp_path: Path, name: str
) -> None:
    path = tmp_path / name
    with config_file_at(path, {**FACTS, "pid": _NO_PROCESS}):
        pass
    assert path.exists()  # it is another process's

    with config_file_at(path, {**FACTS, "pid": os.getppid()}):
        assert f"it belongs to process {os.getppid()}, which runs" in refused(path)
        assert path.exists()


@each_row("content", ["", "{}", '{"pid": 1}', "my notes", "[1]"])
def test_a_file_that_is_somebody_elses_stays(tmp_path: Path, content: str) -> None:
    path = tmp_path / "notes"
    path.write_text(content)

    assert "dev did not write it" in refused(path)
    assert path.read_text() == content


def test_a_directory_or_a_pipe_stays(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    assert "dev did not write it" in refused(pipe)
    assert "dev did not write it" in refused(tmp_path)


def test_a_place_that_is_not_there(tmp_path: Path) -> None:
    assert "No such file or directory: name another file" in refused(tmp_path / "nowhere" / "dev.json")
