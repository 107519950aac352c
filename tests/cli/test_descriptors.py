"""File descriptors: the server takes what it may, and says so when that is not enough."""

import sys
from pathlib import Path

import pytest

from tests.support.command import WatchedServer, watched_server

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")


def open_files(server: WatchedServer) -> list[str]:
    """The soft and the hard limit."""
    lines = Path(f"/proc/{server.process.pid}/limits").read_text().splitlines()
    (limits,) = (line.split()[3:5] for line in lines if line.startswith("Max open files"))
    return limits


def test_the_soft_limit_is_raised_to_the_hard_one(tmp_path: Path) -> None:
    with watched_server(tmp_path, limits="ulimit -Sn 256; ulimit -Hn 7000") as server:
        assert open_files(server) == ["7000", "7000"]
        assert server.said() == []


def test_a_hard_limit_that_is_too_low_for_many_waiting_clients_is_said(tmp_path: Path) -> None:
    with watched_server(tmp_path, limits="ulimit -Sn 256; ulimit -Hn 1024") as server:
        assert open_files(server) == ["1024", "1024"]

        (line,) = server.said()
        assert line["event"] == "few_file_descriptors"
        assert line["level"] == "warning"
        assert line["limit"] == 1024
        assert "ulimit -Hn" in line["advice"]
