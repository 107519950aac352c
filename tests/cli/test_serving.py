"""A server that starts: banner, ready file, service manager, descriptors; or one line and exit code 2.

White-box: the address of the machine, which the banner shows, is another one everywhere.
"""

import json
import os
import re
import signal
import socket
import sqlite3
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from yarl import URL

from bridge_server.cli import process as module
from bridge_server.cli.process import url_for_others
from bridge_server.cli.server_run import banner
from bridge_server.kernel.version import VERSION
from bridge_server.settings.settings import Settings
from bridge_server.storage.data_directory import held
from tests.support.command import Finished, run_command, server_from_shell, watched_server
from tests.support.loads import ANOTHER, SOMEBODY, client, read_all
from tests.support.loads import get as get_request
from tests.support.rows import each_row
from tests.support.waiting import until

OWN_URL = "http://127.0.0.1:8080"
WORDS = "legal winner thank year wave sausage worth useful legal winner thank yellow"


def get(url: str) -> tuple[int, str]:
    with urlopen(url, timeout=60) as response:
        return response.status, response.read().decode()


def test_server_answers_on_loopback_at_the_url_of_the_ready_file(tmp_path: Path) -> None:
    with server_from_shell(tmp_path, "--public-url", "https://bridge.example.org/") as server:
        assert server.url.startswith("http://127.0.0.1:")
        assert get(f"{server.url}/hello") == (200, f"Hello World, this is Bridge Server v{VERSION}")
        assert get(f"{server.url}/readyz")[0] == 200
        assert server.facts == {
            "url": server.url, "pid": server.process.pid, "public_url": "https://bridge.example.org",
            "rpc_url": f"{server.url}/rpc", "database": str(tmp_path / "data" / "bridge.sqlite3"),
            "version": VERSION,
        }  # fmt: skip
        assert not list(tmp_path.glob("*.partial"))


@contextmanager
def service_manager(folder: Path) -> Iterator[tuple[socket.socket, dict[str, str]]]:
    """A socket that hears what servers with these variables tell their service manager."""
    address = folder / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(address))
        manager.settimeout(60)
        yield manager, {"NOTIFY_SOCKET": str(address)}


def test_log_ready_file_and_service_manager_have_start_and_stop(tmp_path: Path) -> None:
    with service_manager(tmp_path) as (manager, environment):
        with watched_server(tmp_path, environment=environment) as server:
            assert manager.recv(100) == b"READY=1"
            get(f"{server.url}/info")  # is not logged
            second = only_line(serve(tmp_path / "data", "--ready-file", str(server.ready_file)))
            assert f"process {server.process.pid}" in second
            assert str(tmp_path / "data") in second
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


def test_on_all_addresses_the_ready_file_has_loopback_and_the_log_a_reachable_url(tmp_path: Path) -> None:
    with watched_server(tmp_path, "--host", "0.0.0.0") as server:
        assert server.stop(signal.SIGTERM) == 0
    started, stopped = server.log()
    reachable = url_for_others(server.url, "0.0.0.0")
    assert "127.0.0.1" not in reachable
    assert server.url.startswith("http://127.0.0.1:")
    assert server.facts["public_url"] == server.url
    assert (started["host"], started["url"], started["public_url"]) == ("0.0.0.0", reachable, reachable)
    assert (started["rpc_url"], stopped["url"]) == (server.facts["rpc_url"], reachable)


def test_an_ipv6_address_is_bracketed(tmp_path: Path) -> None:
    if not socket.has_ipv6 or not Path("/proc/net/if_inet6").exists():
        pytest.skip("no IPv6 here")
    with watched_server(tmp_path, "--host", "::1") as server:
        assert server.url.startswith("http://[::1]:")
        assert get(f"{server.url}/livez")[0] == 200


def test_commands_find_the_server_until_it_stops_and_its_token_is_private(tmp_path: Path) -> None:
    left = tmp_path / "data" / "server.json"
    with watched_server(tmp_path, "--test") as server:
        assert json.loads(left.read_text()) == server.facts | {"development_accounts": []}
        assert len(server.facts["test_token"]) == 43
        assert {stat.S_IMODE(file.stat().st_mode) for file in (left, server.ready_file)} == {0o600}
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
    not_told = [each["state"] for each in server.log() if each["event"] == "service_manager_not_told"]
    assert "READY=1" in not_told


@each_row("variables", [{"WATCHDOG_PID": "1"}, {"WATCHDOG_USEC": "often"}])
def test_a_watchdog_of_another_process_hears_nothing(tmp_path: Path, variables: dict[str, str]) -> None:
    with service_manager(tmp_path) as (manager, environment):
        variables = {**environment, "WATCHDOG_USEC": "1000", **variables}
        with watched_server(tmp_path, environment=variables) as server:
            assert server.stop(signal.SIGTERM) == 0
        assert [manager.recv(100), manager.recv(100)] == [b"READY=1", b"STOPPING=1"]


@each_row("address", ["nobody", "not-a-socket"])
def test_a_server_that_can_tell_nobody_serves(tmp_path: Path, address: str) -> None:
    (tmp_path / "not-a-socket").touch()
    (tmp_path / "data").mkdir(mode=0o700)
    (tmp_path / "data" / "server.json").mkdir()
    with watched_server(tmp_path, environment={"NOTIFY_SOCKET": str(tmp_path / address)}) as server:
        assert get(f"{server.url}/readyz")[0] == 200
        assert server.stop(signal.SIGTERM) == 0
    events = {each["event"] for each in server.said()}
    assert {"server_file_not_written"} <= events <= {"server_file_not_written", "service_manager_not_told"}


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
@each_row(("hard", "is_enough"), [(7_000, True), (1_024, False)])
def test_the_soft_limit_is_raised_to_the_hard_one(tmp_path: Path, hard: int, is_enough: bool) -> None:
    with watched_server(tmp_path, open_files=(256, hard)) as server:
        lines = Path(f"/proc/{server.process.pid}/limits").read_text().splitlines()
        (limits,) = (line.split()[3:5] for line in lines if line.startswith("Max open files"))
        said = server.said()
    assert limits == [str(hard)] * 2
    expected = [] if is_enough else [("few_file_descriptors", "warning", hard)]
    assert [(each["event"], each["level"], each["limit"]) for each in said] == expected
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
    assert (line["level"], line["addresses"]) == ("warning", {SOMEBODY: line["connections"]})
    assert "max_address_connections is 64" in line["advice"]


def test_the_banner_names_addresses_and_known_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def shown(**settings: Any) -> tuple[str, dict[str, str]]:
        text = banner(OWN_URL, Settings(data_dir=tmp_path, **settings))
        return text, dict(re.findall(r"^  (\S+) +(.*)$", text, re.MULTILINE))

    text, facts = shown(public_url="https://bridge.example.org", chain_id=5)
    development = shown(dev_accounts=True, dev_account_count=1)[0].splitlines()
    own = shown(dev_accounts=True, dev_mnemonic=WORDS, dev_account_count=1)[0].splitlines()
    monkeypatch.setattr(module, "_outgoing_address", lambda _: "192.0.2.7")
    _, everywhere = shown(host="0.0.0.0", node_url="http://127.0.0.1:8545")

    assert f"Bridge Server {VERSION}" in text
    assert facts.items() >= {
        "bridge": "https://bridge.example.org", "0.7": "https://bridge.example.org/compat/v0.7",
        "wallet": f"{OWN_URL}/rpc (chain 5)", "database": str(tmp_path / "bridge.sqlite3"),
        "try": f"curl -X POST {OWN_URL}/session/new",
    }.items()  # fmt: skip
    assert "Ctrl-C" in text
    assert "private keys" not in text
    assert development[-2].split()[1] == "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"
    assert development[-1].startswith("EVERYBODY KNOWS THESE KEYS")
    assert re.fullmatch("  0x[0-9A-Fa-f]{40}", own[-1])  # without its key
    assert everywhere["bridge"] == "http://192.0.2.7:8080"
    assert everywhere["wallet"].endswith("/rpc (the node's chain)")


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


def serve(data_dir: Path, *arguments: str, **environment: str) -> Finished:
    """Start a server that is expected to end by itself, soon: no thread may keep it alive."""
    return run_command("serve", "--port", "0", "--data-dir", data_dir, *arguments, environment=environment)


def only_line(finished: Finished) -> str:
    """The one line that a refused start writes."""
    assert (finished.exit_code, finished.out) == (2, ""), finished.err
    (line,) = finished.err.splitlines()
    assert line.startswith("bridge-server: ")
    return line


def private(folder: Path) -> Path:
    folder.mkdir(mode=0o700)
    return folder


def newer(folder: Path) -> None:
    with closing(sqlite3.connect(private(folder) / "bridge.sqlite3")) as connection:
        connection.execute("PRAGMA user_version = 9999")


def test_a_database_that_cannot_be_used_is_one_line(tmp_path: Path) -> None:
    rows: list[tuple[Callable[[Path], object], str]] = [
        (newer, "schema version 9999.*newer program"),
        (lambda folder: (private(folder) / "bridge.sqlite3").write_text("no database " * 100),
         "bridge.sqlite3 cannot be opened"),
        (lambda folder: (private(folder) / "bridge.sqlite3").mkdir(), "bridge.sqlite3"),
    ]  # fmt: skip
    for number, (spoil, said) in enumerate(rows):
        spoil(tmp_path / str(number))
        assert re.search(said, only_line(serve(tmp_path / str(number))))


def test_an_empty_file_in_the_place_of_the_database_is_lost_data(tmp_path: Path) -> None:
    database = private(tmp_path / "data") / "bridge.sqlite3"
    database.touch()
    to_postgres = "copy --to postgresql://nobody@127.0.0.1:9/none"
    for command in ("serve --port 0", "project create Shop", "backup copy", to_postgres):
        assert only_line(run_command(*command.split(), "--data-dir", tmp_path / "data")) == (
            f"bridge-server: the database {database} is an empty file, so its data is lost: restore a backup "
            "with `bridge-server restore FILE`, or move the file away to begin with a new database"
        ), command
        assert database.stat().st_size == 0


def test_a_place_that_is_taken_or_cannot_be_is_one_line(tmp_path: Path) -> None:
    data_dir, pipe = tmp_path / "data", tmp_path / "pipe"
    with closing(socket.create_server(("127.0.0.1", 0))) as other:
        taken = str(other.getsockname()[1])
        line = only_line(serve(data_dir, "--port", taken))
        with held(data_dir):
            assert not (data_dir / "bridge.sqlite3-wal").exists()
        metrics = only_line(serve(data_dir, BRIDGE_METRICS_PORT=taken, BRIDGE_LOG_LEVEL="error"))
    nowhere = only_line(serve(data_dir, "--host", "192.0.2.1"))
    (tmp_path / "file").write_text("in the way")
    below_file = only_line(serve(tmp_path / "file" / "below"))
    no_folder = only_line(serve(data_dir, "--ready-file", f"{tmp_path}/no/ready", BRIDGE_LOG_LEVEL="error"))
    os.mkfifo(pipe)
    no_file = only_line(serve(data_dir, "--ready-file", str(pipe), BRIDGE_LOG_LEVEL="error"))
    reachable = only_line(serve(tmp_path / "test", "--test", "--host", "0.0.0.0"))

    assert re.search(f"cannot listen on 127.0.0.1 port {taken} .*in use.*--port", line)
    assert f"port {taken} (Address already in use)" in metrics
    assert "metrics_port" in metrics
    assert "--port" not in metrics
    assert "cannot listen on 192.0.2.1" in nowhere
    assert f"the data directory {tmp_path / 'file' / 'below'} cannot be used" in below_file
    assert f"{tmp_path}/no/ready cannot be written: No such file or directory" in no_folder
    assert no_file.endswith(f"the ready file {pipe} is not a file: name another, or leave out --ready-file")
    assert pipe.is_fifo()
    assert reachable.endswith("listen on 127.0.0.1, or leave it out")
    assert not (tmp_path / "test").exists()
