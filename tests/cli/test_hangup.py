"""SIGHUP: the end of a server whose terminal is gone; otherwise its settings are read again."""

import os
import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from tests.support.command import WatchedServer, server_from_shell, watched_server
from tests.support.eventually import until
from tests.support.rows import each_row

START = """
admin_token = "the first"
rpc_token = "the first"
metrics_token = "the first"
quota_exempt = []
sessions_burst = 1
sessions_per_minute = 0.001
port = 0
"""
TOKENS = {"admin": "/admin/projects", "metrics": "/metrics"}


class Rereading:
    """A server with a settings file, and what it says after SIGHUP."""

    def __init__(self, server: WatchedServer, file: Path) -> None:
        self.server = server
        self.file = file

    def after(self, toml: str) -> dict[str, Any]:
        """Write the file, hang up, and return the line that the server logs."""
        self.file.write_text(toml)
        before = len(self._told())
        self.server.process.send_signal(signal.SIGHUP)
        until(lambda: len(self._told()) > before)
        (line,) = self._told()[before:]
        return line

    def status(self, path: str, token: str = "", method: str = "GET") -> int:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        try:
            with urlopen(
                Request(self.server.url + path, headers=headers, method=method), timeout=60
            ) as found:
                status: int = found.status
                return status
        except HTTPError as error:
            return error.code

    def _told(self) -> list[dict[str, Any]]:
        return [line for line in self.server.log() if line["event"].startswith("settings_")]


@pytest.fixture
def rereading(tmp_path: Path) -> Iterator[Rereading]:
    file = tmp_path / "bridge.toml"
    file.write_text(START)
    environment = {"BRIDGE_ACCESS_LOG": "false"}
    with watched_server(tmp_path, "--config", str(file), environment=environment) as server:
        yield Rereading(server, file)


def test_tokens_are_read_again(rereading: Rereading) -> None:
    line = rereading.after(START.replace("the first", "the second"))

    assert line["changed"] == ["metrics_token", "admin_token", "rpc_token"]
    for path in TOKENS.values():
        assert rereading.status(path, "the first") == 401
        assert rereading.status(path, "the second") == 200
    assert "second" not in rereading.server.err_file.read_text()


def test_the_token_of_before_is_accepted_until_it_is_left_out(rereading: Rereading) -> None:
    both = START.replace("the first", "the second") + "".join(
        f'{name}_token_previous = "the first"\n' for name in ("admin", "rpc", "metrics")
    )

    assert rereading.after(both)["needs_restart"] == []
    for path in TOKENS.values():
        assert [rereading.status(path, token) for token in ("the first", "the second")] == [200, 200]

    assert rereading.after(START.replace("the first", "the second"))["needs_restart"] == []
    for path in TOKENS.values():
        assert [rereading.status(path, token) for token in ("the first", "the second")] == [401, 200]


def test_limits_are_read_again(rereading: Rereading) -> None:
    statuses = [rereading.status("/session/new", method="POST") for _ in range(2)]

    line = rereading.after(START.replace("sessions_burst = 1", "sessions_burst = 1000"))

    assert statuses == [200, 429]
    assert (line["event"], line["level"]) == ("settings_taken", "info")
    assert (line["changed"], line["needs_restart"]) == (["sessions_burst"], [])
    assert rereading.status("/session/new", method="POST") == 200


def test_the_log_level_is_read_again(rereading: Rereading) -> None:
    line = rereading.after(START + 'log_level = "debug"\n')

    assert line["changed"] == ["log_level"]
    assert rereading.after(START)["changed"] == ["log_level"]


def test_setting_that_needs_a_restart_is_named_and_stays(rereading: Rereading) -> None:
    changed = START.replace('metrics_token = "the first"\n', "").replace("port = 0", "port = 1\nmax_wait = 7")

    line = rereading.after(changed + 'webhook_secret = "whsec_' + "A" * 32 + '"\nhost = "::1"\n')

    assert line["level"] == "warning"
    assert line["changed"] == ["max_wait", "webhook_secret"]
    assert line["needs_restart"] == ["host", "metrics_token"]  # --port is a flag, and wins
    assert rereading.status("/metrics", "the first") == 200


@each_row("fault", ["max_wait = 0\n", "max_weit = 5\n", 'rpc_origins = ["nowhere"]\n', "what = is this\n"])
def test_a_fault_leaves_everything_as_it_was(rereading: Rereading, fault: str) -> None:
    line = rereading.after(START.replace("the first", "the second") + fault)

    assert (line["event"], line["level"]) == ("settings_not_taken", "error")
    assert line["reason"]
    assert "the second" not in line["reason"]
    assert rereading.status("/admin/projects", "the first") == 200
    assert rereading.status("/admin/projects", "the second") == 401


def test_a_file_that_is_gone_leaves_everything_as_it_was(rereading: Rereading) -> None:
    rereading.file.unlink()
    rereading.server.process.send_signal(signal.SIGHUP)
    until(lambda: any(line["event"] == "settings_not_taken" for line in rereading.server.log()))

    assert rereading.status("/admin/projects", "the first") == 200
    assert rereading.server.stop(signal.SIGTERM) == 0


@pytest.fixture
def hangup_is_heard() -> Iterator[None]:
    """Processes that are started here do not ignore SIGHUP, though this one may, under nohup."""
    handler = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, handler)


@contextmanager
def a_terminal() -> Iterator[int]:
    ours, theirs = os.openpty()
    with closing(os.fdopen(ours, "rb", buffering=0)):
        yield theirs
        os.close(theirs)


@pytest.mark.usefixtures("hangup_is_heard")
def test_a_server_whose_terminal_is_gone_stops_and_leaves_nothing(tmp_path: Path) -> None:
    with a_terminal() as terminal, server_from_shell(tmp_path, terminal=terminal) as server:
        assert server.stop(signal.SIGHUP) == 0

        assert server.log()[-1]["event"] == "server_stopped"
        assert not server.ready_file.exists()
    left = {file.name for file in (tmp_path / "data").iterdir()}
    assert left == {"audit.log", "bridge.sqlite3", "lock"}


_IGNORES_HANGUP = """
import signal
from bridge_server.cli.main import main
signal.signal(signal.SIGHUP, signal.SIG_IGN)
main()
"""


def test_a_server_that_was_to_outlive_its_terminal_goes_on(tmp_path: Path) -> None:
    with (
        a_terminal() as terminal,
        watched_server(tmp_path, terminal=terminal, program=_IGNORES_HANGUP) as server,
    ):
        server.process.send_signal(signal.SIGHUP)
        until(lambda: server.log()[-1]["event"] == "settings_taken")

        assert server.stop(signal.SIGTERM) == 0
