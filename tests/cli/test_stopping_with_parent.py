"""`--stop-with-parent`: no server outlives the program that started it, whenever that program ends."""

import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import orjson
import pytest

from bridge_server.kit.testing.server import environment_without_settings
from tests.support.command import COMMAND, run_command
from tests.support.needs import SLOW
from tests.support.waiting import until

_PATIENCE_SECONDS = 120.0
# Starts the command that its arguments name, with its own number for PID, and ends by SIGKILL after a while.
_STARTER = """
import os, signal, subprocess, sys, time
wait_seconds, variables, *command = sys.argv[1:]
named = [word.replace("PID", str(os.getpid())) for word in (variables, *command)]
variables = dict(each.split("=") for each in named[0].split())
started = subprocess.Popen(named[1:], env={**os.environ, **variables}, stdin=subprocess.DEVNULL)
print(started.pid, flush=True)
time.sleep(float(wait_seconds))
os.kill(os.getpid(), signal.SIGKILL)
"""
# Waits until its parent has ended, and becomes the command that its arguments name.
_ORPHAN = """
import os, sys, time
if os.fork():
    os._exit(0)
starter = os.getppid()
while os.getppid() == starter and starter != 1:
    time.sleep(0.01)
print(os.getppid(), flush=True)
os.execv(sys.argv[1], sys.argv[1:])
"""
_SCRIPT = str(Path(sys.executable).with_name("bridge-server"))
_SERVE = ("serve", "--port", "0", "--data-dir", "DIRECTORY/data", "--ready-file", "DIRECTORY/ready")


_READY = ("--ready-file", "DIRECTORY/ready")
_WITH_PARENT = "--stop-with-parent=PID"
_VARIABLE = "BRIDGE_STOP_WITH_PARENT=PID"
# Variables and the command, by which a server is started that ends with its starter.
WAYS = {
    "serve": ("", *COMMAND, *_SERVE, _WITH_PARENT),
    "variable": (_VARIABLE, *COMMAND, *_SERVE),
    "dev": ("", *COMMAND, "dev", "--port", "0", *_READY, _WITH_PARENT),
    "wallet": (_VARIABLE, *COMMAND, "wallet", "--listen", "127.0.0.1:0", *_READY),
    "script behind a shell": ("", "sh", "-c", '"$@"; true', "sh", _SCRIPT, *_SERVE, _WITH_PARENT),
    "the parent": ("", *COMMAND, *_SERVE, "--stop-with-parent"),
}


@dataclass(frozen=True, slots=True)
class StartedByStarter:
    """A starter that runs for a while, and the process that it has started."""

    starter: subprocess.Popen[str]
    pid: int
    directory: Path

    def until_gone(self) -> None:
        """Return once the process has ended."""
        told = "the server goes on without its starter"
        until(lambda: not is_running(self.pid), lambda: f"{told}: {self.log()}")

    def log(self) -> str:
        """The text that both have written to standard error."""
        return (self.directory / "log").read_text("utf-8")


@contextmanager
def started(directory: Path, way: Sequence[str], starter_seconds: float) -> Iterator[StartedByStarter]:
    """A starter that ends by SIGKILL so long after it has started the server. At the end both are gone."""
    directory.mkdir()
    words = [word.replace("DIRECTORY", str(directory)) for word in way]
    with (directory / "log").open("w") as log:
        starter = subprocess.Popen(
            [sys.executable, "-c", _STARTER, str(starter_seconds), *words],
            env={**environment_without_settings(), "TMPDIR": str(directory)},
            stdout=subprocess.PIPE, stderr=log, encoding="utf-8",
        )  # fmt: skip
    with starter:
        assert starter.stdout is not None
        pid = int(starter.stdout.readline())
        try:
            yield StartedByStarter(starter, pid, directory)
        finally:
            starter.kill()
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def is_running(pid: int) -> bool:
    """Whether the process has not ended: it may be left unreaped where nothing reaps orphans."""
    status = Path(f"/proc/{pid}/stat")
    with suppress(FileNotFoundError, ProcessLookupError):
        return status.read_text().rpartition(")")[2].split()[0] != "Z"
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return not status.parent.parent.joinpath("self").exists()


def test_a_server_is_gone_whenever_its_starter_is_killed(tmp_path: Path) -> None:
    moments = (0, 0.01, 0.1, 1)
    ways = [way for name, way in WAYS.items() if name != "the parent"]  # which may be another already
    killed = list(zip(ways, itertools.cycle(moments), strict=False))
    if SLOW:  # every way at each moment
        killed = list(itertools.product(ways, moments))
    with ExitStack() as stack:
        servers = [
            stack.enter_context(started(tmp_path / str(number), way, seconds))
            for number, (way, seconds) in enumerate(killed)
        ]
        for server in servers:
            server.until_gone()
            assert "Traceback" not in server.log()


@pytest.mark.parametrize("way", WAYS)
def test_a_server_runs_as_long_as_its_starter_and_leaves_no_files(tmp_path: Path, way: str) -> None:
    with started(tmp_path / way.replace(" ", "-"), WAYS[way], _PATIENCE_SECONDS) as server:
        ready = server.directory / "ready"
        until(ready.exists, lambda: f"the server did not become ready: {server.log()}")
        pid = orjson.loads(ready.read_bytes())["pid"]
        assert is_running(pid)
        server.starter.kill()
        server.until_gone()
        assert not is_running(pid)
        assert not ready.exists()
        assert "unknown_setting" not in server.log()


def test_a_starter_that_ignores_sigterm_does_not_hand_that_on(tmp_path: Path) -> None:
    ignoring = ("sh", "-c", "trap '' TERM; \"$@\"; true", "sh")
    with started(tmp_path / "run", ("", *ignoring, *COMMAND, *_SERVE, _WITH_PARENT), 0.1) as server:
        server.until_gone()


def start_tick(pid: int) -> int:
    """The start time of a process, in hundredths of a second since the machine's start."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


@contextmanager
def process_after(pid: int) -> Iterator[int]:
    """The number of a process that has started in a later clock tick than this one."""
    while True:
        with subprocess.Popen(["sleep", "600"]) as process:
            try:
                if start_tick(process.pid) > start_tick(pid):
                    yield process.pid
                    return
            finally:
                process.kill()


def test_a_number_that_a_later_process_was_given_is_not_the_starter(tmp_path: Path) -> None:
    waiting = ["sh", "-c", 'read number; exec "$@" --stop-with-parent="$number"', "sh", *COMMAND, "serve"]
    with (
        subprocess.Popen(
            [*waiting, "--port", "0", "--data-dir", str(tmp_path / "data")],
            stdin=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8",
        ) as server,
        process_after(server.pid) as later,
    ):  # fmt: skip
        try:
            _, said = server.communicate(f"{later}\n", _PATIENCE_SECONDS)
        finally:
            server.kill()

    option = f"--stop-with-parent={later}"
    assert said == f"bridge-server: {option}: this process has ended already, so the server is not started\n"
    assert server.returncode == 1
    assert not (tmp_path / "data").exists()


def from_shell(*command: str) -> subprocess.CompletedProcess[str]:
    """The end of a command that must not go on."""
    return subprocess.run(
        command, capture_output=True, encoding="utf-8", timeout=_PATIENCE_SECONDS, check=False
    )


def test_what_is_no_number_of_a_process_is_refused_by_the_commands_that_need_it(tmp_path: Path) -> None:
    advice = "write the number of the process that starts the server, as $$ in a shell"
    for number in ("", "-1", "1x", str(2**31)):
        refused = run_command("serve", f"--stop-with-parent={number}", "--data-dir", tmp_path / "data")
        assert refused.exit_code == 2
        assert refused.err == f"bridge-server: --stop-with-parent={number}: {advice}\n"
    refused = run_command("wallet", environment={"BRIDGE_STOP_WITH_PARENT": "me"})
    assert refused.err == f"bridge-server: BRIDGE_STOP_WITH_PARENT=me: {advice}\n"
    other = run_command("config", "check", environment={"BRIDGE_STOP_WITH_PARENT": "me"})
    assert (other.exit_code, other.err) == (0, "")
    # `exec` in a shell gives the server the shell's own number.
    own = from_shell("sh", "-c", 'exec "$@" --stop-with-parent=$$', "sh", *COMMAND, "dev", "--port", "0")
    assert own.returncode == 2
    assert advice in own.stderr


def test_a_parent_that_is_process_1_is_doubted() -> None:
    finished = from_shell(sys.executable, "-c", _ORPHAN, *COMMAND, "wallet", "--stop-with-parent", "nonsense")
    if finished.stdout != "1\n":
        pytest.skip("another process than 1 takes orphans here")
    assert finished.stderr.splitlines()[0] == (
        "bridge-server: --stop-with-parent: the parent is process 1, so the end of the program that started "
        "this server may not be noticed: name that program with --stop-with-parent=PID"
    )
