"""File descriptors: the server takes what it may, says when that is not enough, and shares them out."""

import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from yarl import URL

from tests.support.command import WatchedServer, watched_server
from tests.support.eventually import until
from tests.support.idle_clients import ANOTHER, SOMEBODY, client, get, read_all

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")


def open_files(server: WatchedServer) -> list[str]:
    """The soft and the hard limit."""
    lines = Path(f"/proc/{server.process.pid}/limits").read_text().splitlines()
    (limits,) = (line.split()[3:5] for line in lines if line.startswith("Max open files"))
    return limits


def test_the_soft_limit_is_raised_to_the_hard_one(tmp_path: Path) -> None:
    with watched_server(tmp_path, open_files=(256, 7_000)) as server:
        assert open_files(server) == ["7000", "7000"]
        assert server.said() == []


def test_a_hard_limit_that_is_too_low_for_many_waiting_clients_is_said(tmp_path: Path) -> None:
    with watched_server(tmp_path, open_files=(256, 1_024)) as server:
        assert open_files(server) == ["1024", "1024"]

        (line,) = server.said()
        assert line["event"] == "few_file_descriptors"
        assert line["level"] == "warning"
        assert line["limit"] == 1024
        assert "ulimit -Hn" in line["advice"]


def test_an_address_has_a_quarter_of_them_and_newcomers_are_served(tmp_path: Path) -> None:
    environment = {"BRIDGE_QUOTA_EXEMPT": "::1/128"}
    with (
        watched_server(tmp_path, open_files=(256, 256), environment=environment) as server,
        ExitStack() as stack,
    ):
        port = URL(server.url).port or 0
        silent = [stack.enter_context(client(port, SOMEBODY)) for _ in range(256)]
        assert read_all(silent[-1]).startswith(b"HTTP/1.1 429 ")

        with client(port, ANOTHER, get("/hello", "Connection: close")) as newcomer:
            assert read_all(newcomer).startswith(b"HTTP/1.1 200 ")

        until(lambda: any(each["event"] == "connections_refused" for each in server.log()))
        (line,) = [each for each in server.log() if each["event"] == "connections_refused"]
    assert line["level"] == "warning"
    assert line["addresses"] == {SOMEBODY: line["connections"]}
    assert "max_address_connections is 64" in line["advice"]


def test_silent_connections_are_closed_in_the_time_that_is_set(tmp_path: Path) -> None:
    with (
        watched_server(tmp_path, environment={"BRIDGE_HEAD_TIMEOUT": "0.2"}) as server,
        client(URL(server.url).port or 0, SOMEBODY) as silent,
    ):
        assert read_all(silent) == b""


def test_silent_connections_of_everybody_leave_room_for_who_asks(tmp_path: Path) -> None:
    with watched_server(tmp_path, open_files=(256, 256)) as server, ExitStack() as stack:
        port = URL(server.url).port or 0
        for _ in range(300):
            stack.enter_context(client(port, SOMEBODY))  # exempt, as all on this machine

        until(lambda: is_served(port))


def is_served(port: int) -> bool:
    try:
        with client(port, ANOTHER, get("/hello", "Connection: close")) as newcomer:
            return read_all(newcomer).startswith(b"HTTP/1.1 200 ")
    except ConnectionError:  # the system was out of descriptors at that moment
        return False
