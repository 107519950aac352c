"""Files of `dev` and when they go: the file of `--config-out`, temporary directories, and signals.

White-box: a signal that ends the process at once would end the tests, so the call is replaced.
"""

import asyncio
import os
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bridge_server.cli.dev import config_file_at
from bridge_server.cli.options import CommandError
from bridge_server.cli.process import stop_at_signals
from bridge_server.storage.data_directory import ThrowawayDirectory, remove_left_over
from tests.support.clock import PassTime
from tests.support.rows import each_row

PREFIX = "bridge-test-"


def facts(pid: int | None = None) -> dict[str, Any]:
    """The facts in the file of a server with this process id, or of this process."""
    return {
        "url": "http://127.0.0.1:8080", "v07_url": "http://127.0.0.1:8080/compat/v0.7",
        "rpc_url": "http://127.0.0.1:8080/rpc", "test_token": "a-test", "admin_token": "an-admin",
        "project": {"id": "demo", "secret": "bsk_demo_x", "types": ["news"]}, "accounts": [],
        "pid": os.getpid() if pid is None else pid,
    }  # fmt: skip


def refused(path: Path) -> str:
    with pytest.raises(CommandError) as error, config_file_at(path, facts()):
        pass
    return str(error.value)


def test_for_a_shell_it_has_the_variables_that_fixtures_read(tmp_path: Path) -> None:
    path = tmp_path / "bridge.env"
    with config_file_at(path, facts()):
        lines = path.read_text().splitlines()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    tokens = {"ADMIN_TOKEN=an-admin", "TEST_TOKEN=a-test", "PROJECT_SECRET=bsk_demo_x"}
    assert {f"export BRIDGE_{each}" for each in ("URL=http://127.0.0.1:8080", *tokens)} <= set(lines)
    assert not any("LAN" in line for line in lines)


@each_row("name", ["dev.json", "dev.env"])
def test_the_file_of_a_killed_server_is_overwritten_and_no_other(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with config_file_at(path, facts(2**22 + 1)):  # which no process has
        pass
    assert path.exists()  # it is another process's
    with config_file_at(path, facts(os.getppid())):
        assert f"it belongs to process {os.getppid()}, which runs" in refused(path)
        assert path.exists()


def test_a_file_a_directory_or_a_pipe_that_is_somebody_elses_stays(tmp_path: Path) -> None:
    path, pipe = tmp_path / "notes", tmp_path / "pipe"
    os.mkfifo(pipe)
    for content in ("", "{}", '{"pid": 1}', "my notes", "[1]"):
        path.write_text(content)
        assert "dev did not write it" in refused(path), content
        assert path.read_text() == content
    for other in (pipe, tmp_path):
        assert "dev did not write it" in refused(other)
    assert "No such file or directory: name another file" in refused(tmp_path / "nowhere" / "dev.json")


def test_the_directory_of_a_killed_process_goes_with_the_next_process_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    others = [tmp_path / f"{PREFIX}somebody's", tmp_path / f"{PREFIX}link", tmp_path / f"{PREFIX}file"]
    target = ThrowawayDirectory("other-")
    others[0].mkdir()  # without a lock
    others[1].symlink_to(target.path)
    others[2].touch()
    program = f"""
import time
from bridge_server.storage.data_directory import ThrowawayDirectory
print(ThrowawayDirectory({PREFIX!r}).path, flush=True)
time.sleep(600)
"""
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, env={"TMPDIR": str(tmp_path)}, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        theirs = Path(other.stdout.readline().strip())
        (theirs / "data").mkdir()
        mine = ThrowawayDirectory(PREFIX)
        assert stat.S_IMODE(mine.path.stat().st_mode) == 0o700
        assert theirs.exists()
        other.kill()

    remove_left_over(PREFIX)

    assert sorted(tmp_path.iterdir()) == sorted([*others, target.path, mine.path])
    for each in (mine, mine, target):
        each.remove()
    assert sorted(tmp_path.iterdir()) == sorted(others)


async def test_signals_stop_and_a_second_ctrl_c_removes_what_is_not_kept_and_exits(
    monkeypatch: pytest.MonkeyPatch, pass_time: PassTime
) -> None:
    handlers: dict[int, Callable[[], None]] = {}
    done: list[str] = []
    monkeypatch.setattr(asyncio.get_running_loop(), "add_signal_handler", handlers.__setitem__)
    monkeypatch.setattr(os, "_exit", lambda code: done.append(f"exit {code}"))
    stop_of_server, stop_of_dev = asyncio.Event(), asyncio.Event()

    stop_at_signals(stop_of_server, None)  # it finishes whatever comes
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGINT):
        handlers[number]()
        await pass_time(1.0)
    assert (stop_of_server.is_set(), done) == (True, [])

    stop_at_signals(stop_of_dev, lambda: done.append("removed"))
    handlers[signal.SIGINT]()
    handlers[signal.SIGINT]()  # the same key, passed on by the program that runs this one
    assert (stop_of_dev.is_set(), done) == (True, [])
    await pass_time(1.0)
    handlers[signal.SIGINT]()
    assert done == ["removed", "exit 130"]
