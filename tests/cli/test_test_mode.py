"""`serve --test` as a test suite starts it: a ready file with a token, and an end with the suite."""

import os
import signal
import stat
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import orjson

from tests.support.command import COMMAND, run_command, watched_server

_PATIENCE_SECONDS = 60.0

# Starts the server that its arguments name, and then does nothing.
_PARENT = "import subprocess, sys, time; subprocess.Popen(sys.argv[1:]); time.sleep(600)"


def test_the_ready_file_has_the_token_and_is_private(tmp_path: Path) -> None:
    with watched_server(tmp_path, "--test") as server:
        ready_file = next(tmp_path.glob("*ready*"))

        assert len(server.facts["test_token"]) == 43
        assert stat.S_IMODE(ready_file.stat().st_mode) == 0o600
        assert server.stop(signal.SIGTERM) == 0
        assert server.facts["test_token"] not in str(server.log())


def test_test_mode_is_refused_where_others_could_reach_it(tmp_path: Path) -> None:
    refused = run_command("serve", "--test", "--host", "0.0.0.0", "--data-dir", tmp_path / "data")

    assert refused.exit_code == 2
    (line,) = refused.err.splitlines()
    assert line.endswith("listen on 127.0.0.1, or leave it out")
    assert not (tmp_path / "data").exists()


def test_the_server_stops_when_its_parent_was_killed(tmp_path: Path) -> None:
    ready_file = tmp_path / "ready"
    serve = [*COMMAND, "serve", "--stop-with-parent", "--port", "0", "--data-dir", tmp_path / "data"]
    parent = subprocess.Popen(
        [sys.executable, "-c", _PARENT, *map(str, serve), "--ready-file", str(ready_file)]
    )
    try:
        pid = until_ready(ready_file)["pid"]
    finally:
        parent.send_signal(signal.SIGKILL)
        parent.wait(_PATIENCE_SECONDS)

    try:
        until_gone(pid)
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert not ready_file.exists()


def until_ready(ready_file: Path) -> dict[str, Any]:
    """What the ready file says, once it is there."""
    deadline = monotonic() + _PATIENCE_SECONDS
    while not ready_file.exists():
        assert monotonic() < deadline, "the server did not become ready"
        sleep(0.02)
    facts: dict[str, Any] = orjson.loads(ready_file.read_bytes())
    return facts


def until_gone(pid: int) -> None:
    """Return once no such process runs: it may be left unreaped where nothing reaps orphans."""
    deadline = monotonic() + _PATIENCE_SECONDS
    while is_running(pid):
        assert monotonic() < deadline, "the server goes on without its parent"
        sleep(0.02)


def is_running(pid: int) -> bool:
    status = Path(f"/proc/{pid}/stat")
    with suppress(FileNotFoundError):
        return status.read_text().rpartition(")")[2].split()[0] != "Z"
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return not status.parent.parent.joinpath("self").exists()
