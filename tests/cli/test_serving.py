"""What a server says when it is up: the banner, the ready file, the word to the service manager."""

import json
import signal
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.request import urlopen

import pytest

from bridge_server.cli.process import url_for_others
from bridge_server.kernel.version import VERSION
from tests.support.command import WatchedServer, server_from_shell, watched_server
from tests.support.rows import each_row


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("serving")


@pytest.fixture(scope="module")
def server(directory: Path) -> Iterator[WatchedServer]:
    with server_from_shell(directory, "--public-url", "https://bridge.example.org/") as server:
        yield server


def get(url: str) -> tuple[int, str]:
    with urlopen(url, timeout=60) as response:
        return response.status, response.read().decode()


def test_server_answers_at_the_url_of_the_ready_file(server: WatchedServer) -> None:
    assert get(f"{server.url}/hello") == (200, f"Hello World, this is Bridge Server v{VERSION}")
    assert get(f"{server.url}/readyz")[0] == 200


def test_the_ready_file_tells_what_a_test_needs_to_know(server: WatchedServer, directory: Path) -> None:
    assert server.facts == {
        "url": server.url,
        "pid": server.process.pid,
        "public_url": "https://bridge.example.org",
        "rpc_url": f"{server.url}/rpc",
        "database": str(directory / "data" / "bridge.sqlite3"),
        "version": VERSION,
    }
    assert not list(directory.glob("*.partial"))


def test_server_listens_on_loopback_by_default(server: WatchedServer) -> None:
    assert server.url.startswith("http://127.0.0.1:")


def test_the_log_has_the_start_and_the_stop_and_nothing_else_is_written(tmp_path: Path) -> None:
    with watched_server(tmp_path) as server:
        get(f"{server.url}/info")
        assert server.stop(signal.SIGTERM) == 0

    started, stopped = server.log()
    assert (started["event"], started["level"]) == ("server_started", "info")
    assert {name: started[name] for name in server.facts} == server.facts
    assert (stopped["event"], stopped["level"]) == ("server_stopped", "info")
    assert (stopped["url"], stopped["pid"]) == (server.url, server.process.pid)
    assert server.out_file.read_bytes() == b""


def test_a_server_on_all_addresses_announces_loopback_in_its_ready_file_and_a_reachable_url_in_its_log(
    tmp_path: Path,
) -> None:
    with watched_server(tmp_path, "--host", "0.0.0.0") as server:
        assert server.stop(signal.SIGTERM) == 0

    started, stopped = server.log()
    reachable = url_for_others(server.url, "0.0.0.0")
    assert server.url.startswith("http://127.0.0.1:")
    assert server.facts["public_url"] == server.url
    assert "127.0.0.1" not in reachable
    assert (started["host"], started["url"], started["public_url"]) == ("0.0.0.0", reachable, reachable)
    assert started["rpc_url"] == server.facts["rpc_url"]
    assert stopped["url"] == reachable


def test_an_ipv6_address_is_bracketed(tmp_path: Path) -> None:
    if not socket.has_ipv6 or not Path("/proc/net/if_inet6").exists():
        pytest.skip("no IPv6 here")
    with watched_server(tmp_path, "--host", "::1") as server:
        assert server.url.startswith("http://[::1]:")
        assert get(f"{server.url}/livez")[0] == 200


def test_the_ready_file_goes_when_the_server_stops(tmp_path: Path) -> None:
    with watched_server(tmp_path) as server:
        assert json.loads(server.ready_file.read_text())["pid"] == server.process.pid

        assert server.stop(signal.SIGTERM) == 0

        assert not server.ready_file.exists()


def test_commands_find_the_server_until_it_stops(tmp_path: Path) -> None:
    left = tmp_path / "data" / "server.json"
    with watched_server(tmp_path) as server:
        assert json.loads(left.read_text()) == server.facts | {"development_accounts": []}
        assert stat.S_IMODE(left.stat().st_mode) == 0o600

        assert server.stop(signal.SIGTERM) == 0

    assert [file.name for file in left.parent.glob("server*")] == []


def test_a_server_that_cannot_tell_commands_where_it_is_serves_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(mode=0o700)
    (tmp_path / "data" / "server.json").mkdir()

    with watched_server(tmp_path) as server:
        assert get(f"{server.url}/readyz")[0] == 200
        assert [line["event"] for line in server.said()] == ["server_file_not_written"]
        assert server.stop(signal.SIGTERM) == 0


def test_the_service_manager_hears_of_the_start_and_the_stop(tmp_path: Path) -> None:
    address = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(address))
        manager.settimeout(60)
        with watched_server(tmp_path, environment={"NOTIFY_SOCKET": str(address)}) as server:
            assert manager.recv(100) == b"READY=1"

            assert server.stop(signal.SIGTERM) == 0

        assert manager.recv(100) == b"STOPPING=1"


def test_the_watchdog_of_the_service_manager_hears_of_the_event_loop_again_and_again(tmp_path: Path) -> None:
    address = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(address))
        manager.settimeout(60)
        environment = {"NOTIFY_SOCKET": str(address), "WATCHDOG_USEC": "20000"}
        with watched_server(tmp_path, environment=environment):
            heard = [manager.recv(100) for _ in range(20)]

    assert heard.count(b"WATCHDOG=1") >= 19  # and one that it is ready, if it was so early


def test_a_service_manager_that_does_not_read_holds_nobody_up(tmp_path: Path) -> None:
    address = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager, fill(address, manager):
        environment = {"NOTIFY_SOCKET": str(address), "WATCHDOG_USEC": "20000"}
        with watched_server(tmp_path, environment=environment) as server:
            assert server.stop(signal.SIGTERM) == 0

    assert {line["state"] for line in server.log() if line["event"] == "service_manager_not_told"} >= {
        "READY=1"
    }


@contextmanager
def fill(address: Path, manager: socket.socket) -> Iterator[None]:
    """Have the manager's queue so full that the next message waits."""
    manager.bind(str(address))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other, suppress(BlockingIOError):
        other.connect(str(address))
        other.setblocking(False)
        while True:
            other.send(b"READY=1")
    yield


@pytest.mark.parametrize(
    "variables", [{"WATCHDOG_PID": "1"}, {"WATCHDOG_USEC": "often"}, {"WATCHDOG_USEC": "0"}]
)
def test_a_watchdog_of_another_process_or_none_hears_nothing(
    tmp_path: Path, variables: dict[str, str]
) -> None:
    address = tmp_path / "notify"
    address.unlink(missing_ok=True)  # of the row before
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(address))
        manager.settimeout(60)
        environment = {"NOTIFY_SOCKET": str(address), "WATCHDOG_USEC": "1000", **variables}
        with watched_server(tmp_path, environment=environment) as server:
            assert server.stop(signal.SIGTERM) == 0

        assert [manager.recv(100), manager.recv(100)] == [b"READY=1", b"STOPPING=1"]


@each_row("address", ["nobody", "not-a-socket"])
def test_a_service_manager_that_does_not_listen_is_no_reason_not_to_serve(
    tmp_path: Path, address: str
) -> None:
    (tmp_path / "not-a-socket").touch()

    with watched_server(tmp_path, environment={"NOTIFY_SOCKET": str(tmp_path / address)}) as server:
        assert get(f"{server.url}/readyz")[0] == 200
        assert server.stop(signal.SIGTERM) == 0
