"""A server that starts: banner, ready file, service manager, descriptors; or one line and exit code 2."""

import json
import os
import signal
import socket
import sqlite3
import stat
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from yarl import URL

from bridge_server.assembly.wallet import keys_for_development
from bridge_server.cli import process as module
from bridge_server.cli.options import CommandError
from bridge_server.cli.process import ready_file_at, url_for_others
from bridge_server.cli.server_run import banner
from bridge_server.kernel.version import VERSION
from bridge_server.settings.settings import Settings
from bridge_server.storage.data_directory import held
from tests.support.command import Finished, WatchedServer, run_command, server_from_shell, watched_server
from tests.support.loads import ANOTHER, SOMEBODY, client, read_all
from tests.support.loads import get as get_request
from tests.support.rows import each_row
from tests.support.waiting import until

needs_proc = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
OWN_URL = "http://127.0.0.1:8080"
FIRST = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
FIRST_KEY = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"
WORDS = "legal winner thank year wave sausage worth useful legal winner thank yellow"


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


def test_server_answers_on_loopback_at_the_url_of_the_ready_file(
    server: WatchedServer, directory: Path
) -> None:
    assert server.url.startswith("http://127.0.0.1:")
    assert get(f"{server.url}/hello") == (200, f"Hello World, this is Bridge Server v{VERSION}")
    assert get(f"{server.url}/readyz")[0] == 200
    assert server.facts == {
        "url": server.url,
        "pid": server.process.pid,
        "public_url": "https://bridge.example.org",
        "rpc_url": f"{server.url}/rpc",
        "database": str(directory / "data" / "bridge.sqlite3"),
        "version": VERSION,
    }
    assert not list(directory.glob("*.partial"))


@contextmanager
def service_manager(folder: Path) -> Iterator[tuple[socket.socket, dict[str, str]]]:
    """A socket that hears what servers with these variables tell their service manager."""
    address = folder / "notify"
    address.unlink(missing_ok=True)  # of the row before
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(address))
        manager.settimeout(60)
        yield manager, {"NOTIFY_SOCKET": str(address)}


def test_log_ready_file_and_service_manager_have_the_start_and_the_stop(tmp_path: Path) -> None:
    with service_manager(tmp_path) as (manager, environment):
        with watched_server(tmp_path, environment=environment) as server:
            assert manager.recv(100) == b"READY=1"
            get(f"{server.url}/info")
            assert json.loads(server.ready_file.read_text())["pid"] == server.process.pid
            assert server.stop(signal.SIGTERM) == 0
            assert not server.ready_file.exists()
        assert manager.recv(100) == b"STOPPING=1"

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


def test_commands_find_the_server_until_it_stops_and_the_token_of_test_mode_is_private(
    tmp_path: Path,
) -> None:
    left = tmp_path / "data" / "server.json"
    with watched_server(tmp_path, "--test") as server:
        assert json.loads(left.read_text()) == server.facts | {"development_accounts": []}
        assert stat.S_IMODE(left.stat().st_mode) == 0o600
        assert len(server.facts["test_token"]) == 43
        assert stat.S_IMODE(server.ready_file.stat().st_mode) == 0o600

        assert server.stop(signal.SIGTERM) == 0

    assert server.facts["test_token"] not in str(server.log())
    assert [file.name for file in left.parent.glob("server*")] == []


def test_the_watchdog_of_the_service_manager_hears_of_the_event_loop_again_and_again(tmp_path: Path) -> None:
    with (
        service_manager(tmp_path) as (manager, environment),
        watched_server(tmp_path, environment={**environment, "WATCHDOG_USEC": "20000"}),
    ):
        heard = [manager.recv(100) for _ in range(20)]

    assert heard.count(b"WATCHDOG=1") >= 19  # and one that it is ready, if it was so early


def test_a_service_manager_that_does_not_read_holds_nobody_up(tmp_path: Path) -> None:
    with service_manager(tmp_path) as (_, environment):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other, suppress(BlockingIOError):
            other.connect(environment["NOTIFY_SOCKET"])
            other.setblocking(False)
            while True:  # until the queue is so full that the next message waits
                other.send(b"READY=1")
        with watched_server(tmp_path, environment={**environment, "WATCHDOG_USEC": "20000"}) as server:
            assert server.stop(signal.SIGTERM) == 0

    assert {line["state"] for line in server.log() if line["event"] == "service_manager_not_told"} >= {
        "READY=1"
    }


@each_row("variables", [{"WATCHDOG_PID": "1"}, {"WATCHDOG_USEC": "often"}, {"WATCHDOG_USEC": "0"}])
def test_a_watchdog_of_another_process_or_none_hears_nothing(
    tmp_path: Path, variables: dict[str, str]
) -> None:
    with service_manager(tmp_path) as (manager, environment):
        variables = {**environment, "WATCHDOG_USEC": "1000", **variables}
        with watched_server(tmp_path, environment=variables) as server:
            assert server.stop(signal.SIGTERM) == 0

        assert [manager.recv(100), manager.recv(100)] == [b"READY=1", b"STOPPING=1"]


@each_row("address", ["nobody", "not-a-socket"])
def test_a_server_that_can_tell_neither_commands_nor_its_service_manager_serves_all_the_same(
    tmp_path: Path, address: str
) -> None:
    (tmp_path / "not-a-socket").touch()
    (tmp_path / "data").mkdir(mode=0o700)
    (tmp_path / "data" / "server.json").mkdir()

    with watched_server(tmp_path, environment={"NOTIFY_SOCKET": str(tmp_path / address)}) as server:
        assert get(f"{server.url}/readyz")[0] == 200
        assert server.stop(signal.SIGTERM) == 0
        events = [line["event"] for line in server.said()]
    assert "server_file_not_written" in events
    assert set(events) <= {"server_file_not_written", "service_manager_not_told"}


def test_test_mode_is_refused_where_others_could_reach_it(tmp_path: Path) -> None:
    refused = run_command("serve", "--test", "--host", "0.0.0.0", "--data-dir", tmp_path / "data")

    assert refused.exit_code == 2
    (line,) = refused.err.splitlines()
    assert line.endswith("listen on 127.0.0.1, or leave it out")
    assert not (tmp_path / "data").exists()


@needs_proc
@each_row(("hard", "is_enough"), [(7_000, True), (1_024, False)])
def test_the_soft_limit_is_raised_to_the_hard_one_and_one_that_is_too_low_is_said(
    tmp_path: Path, hard: int, is_enough: bool
) -> None:
    with watched_server(tmp_path, open_files=(256, hard)) as server:
        lines = Path(f"/proc/{server.process.pid}/limits").read_text().splitlines()
        (limits,) = (line.split()[3:5] for line in lines if line.startswith("Max open files"))
        said = server.said()

    assert limits == [str(hard)] * 2
    assert [(each["event"], each["level"], each["limit"]) for each in said] == (
        [] if is_enough else [("few_file_descriptors", "warning", hard)]
    )
    assert all("ulimit -Hn" in each["advice"] for each in said)


def test_an_address_has_a_quarter_of_them_and_newcomers_are_served(tmp_path: Path) -> None:
    environment = {"BRIDGE_QUOTA_EXEMPT": "::1/128"}
    with (
        watched_server(tmp_path, open_files=(256, 256), environment=environment) as server,
        ExitStack() as stack,
    ):
        port = URL(server.url).port or 0
        silent = [stack.enter_context(client(port, SOMEBODY)) for _ in range(256)]
        assert read_all(silent[-1]).startswith(b"HTTP/1.1 429 ")

        with client(port, ANOTHER, get_request("/hello", "Connection: close")) as newcomer:
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
        with client(port, ANOTHER, get_request("/hello", "Connection: close")) as newcomer:
            return read_all(newcomer).startswith(b"HTTP/1.1 200 ")
    except ConnectionError:  # the system was out of descriptors at that moment
        return False


def shown(tmp_path: Path, **settings: Any) -> str:
    return banner(OWN_URL, Settings(data_dir=tmp_path, **settings))


def line(text: str, name: str) -> str:
    (found,) = [line for line in text.splitlines() if line.startswith(f"  {name} ")]
    return found.removeprefix(f"  {name}").strip()


def test_banner_names_version_address_and_a_command_to_try(tmp_path: Path) -> None:
    text = shown(tmp_path, public_url="https://bridge.example.org")

    assert f"Bridge Server {VERSION}" in text
    assert line(text, "bridge") == "https://bridge.example.org"
    assert line(text, "0.7") == "https://bridge.example.org/compat/v0.7"
    assert line(text, "wallet") == f"{OWN_URL}/rpc"
    assert line(text, "database") == str(tmp_path / "bridge.sqlite3")
    assert line(text, "try") == f"curl -X POST {OWN_URL}/session/new"
    assert "Ctrl-C" in text
    assert "private keys" not in text


def test_accounts_for_development_are_shown_with_their_keys_if_everybody_knows_them(tmp_path: Path) -> None:
    text = shown(tmp_path, dev_accounts=True, dev_account_count=3)
    own = Settings(data_dir=tmp_path, dev_accounts=True, dev_mnemonic=WORDS, dev_account_count=1)

    *_, first, second, third, warning = text.splitlines()
    assert first == f"  {FIRST}  {FIRST_KEY}"
    assert len({first, second, third}) == 3
    assert warning.startswith("EVERYBODY KNOWS THESE KEYS")
    (key,) = keys_for_development(own)
    assert banner(OWN_URL, own).splitlines()[-1] == f"  {key.address}"


def test_banner_names_the_chain_if_it_is_known(tmp_path: Path) -> None:
    node = {"node_url": "http://127.0.0.1:8545"}
    for settings, chain in (
        ({"chain_id": 5}, "(chain 5)"), ({"chain_id": 5, **node}, "(chain 5)"), (node, "(the node's chain)"),
        ({}, ""),
    ):  # fmt: skip
        assert line(shown(tmp_path, **settings), "wallet") == f"{OWN_URL}/rpc {chain}".strip()


def test_a_server_on_every_address_is_shown_with_an_address_that_others_reach_or_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(module, "_outgoing_address", lambda _: "192.0.2.7")
        assert line(shown(tmp_path, host="0.0.0.0"), "bridge") == "http://192.0.2.7:8080"
    unreachable = dict.fromkeys(module._DOCUMENTATION_ADDRESS, "no address")
    monkeypatch.setattr(module, "_DOCUMENTATION_ADDRESS", unreachable)
    monkeypatch.setattr("socket.gethostname", lambda: "machine")

    assert line(shown(tmp_path, host="0.0.0.0"), "bridge") == "http://machine:8080"
    assert line(shown(tmp_path, host="127.0.0.1"), "bridge") == OWN_URL


def test_only_a_terminal_is_shown_the_banner(tmp_path: Path) -> None:
    ours, theirs = os.openpty()
    try:
        with watched_server(tmp_path, "--dev-accounts", "--host", "127.0.0.1", terminal=theirs) as server:
            text = os.read(ours, 10_000).decode()
            assert server.stop(signal.SIGTERM) == 0
    finally:
        os.close(ours)
        os.close(theirs)

    assert text.startswith(f"Bridge Server {VERSION}")
    assert server.url in text


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
