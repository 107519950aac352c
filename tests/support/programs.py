"""Programs that tests run: `python -m bridge_server` in a process that is forked from one with its modules
loaded, others with their output, terminals, and free ports.
"""

import asyncio
import os
import pty
import random
import select
import socket
import subprocess
import sys
from asyncio.subprocess import PIPE
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from functools import cache
from itertools import cycle, islice
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile, gettempdir
from threading import Lock
from typing import IO, Any

import orjson

from bridge_server.kit.testing.server import environment_without_settings
from tests.support.fork_server import NUMBER_SIZE

_PLACE = gettempdir()  # a test may have another
_STARTING = Lock()
_SECONDS = 240


class ForkedProcess(subprocess.Popen[bytes]):
    """A process of a fork server, which writes its id to `conversation`, and at the end the exit code."""

    def __init__(self, arguments: Sequence[str], conversation: socket.socket) -> None:
        self.args = list(arguments)
        self.returncode = None
        self.stdin = self.stdout = self.stderr = None
        self._conversation = conversation
        self.pid = _number_from(conversation)

    def poll(self) -> int | None:
        return self._code_within(0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._code_within(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return code

    def send_signal(self, sig: int) -> None:
        """Send the signal. A process that has ended gets none, even if its exit code is still on the way."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, sig)

    def _code_within(self, seconds: float | None) -> int | None:
        if self.returncode is None and select.select([self._conversation], [], [], seconds)[0]:
            with self._conversation:
                self.returncode = _number_from(self._conversation)
        return None if self.returncode is None else int(self.returncode)


def _number_from(conversation: socket.socket) -> int:
    return int(conversation.recv(NUMBER_SIZE, socket.MSG_WAITALL))


class ForkServer:
    """An interpreter with the program's modules loaded. It can be asked at the socket in `address`."""

    def __init__(self) -> None:
        self._owner = os.getpid()
        self._stack = ExitStack()
        folder = self._stack.enter_context(TemporaryDirectory(prefix="fork-", dir=_PLACE))
        self.address = Path(folder) / "socket"
        self._life, theirs = socket.socketpair()
        with theirs, socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(self.address))
            listening.listen()
            descriptors = (theirs.fileno(), listening.fileno())
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.fork_server", *map(str, descriptors)],
                cwd=Path(__file__).parents[2], pass_fds=descriptors, stdin=subprocess.DEVNULL,
            )  # fmt: skip

    def start(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        stderr: IO[bytes] | int | None = None,
        stdout: IO[bytes] | int | None = None,
        stdin: IO[bytes] | int | None = None,
        **wanted: Any,
    ) -> ForkedProcess:
        """Run `python -m bridge_server`, or the `program`, in a `directory`, with limits of `open_files`."""
        place = {"environment": dict(environment), "directory": Path.cwd()}
        request = {"arguments": arguments, **place, **wanted}
        ours = socket.socket(socket.AF_UNIX)
        ours.connect(str(self.address))
        with Path(os.devnull).open("r+b") as nothing:
            streams = [nothing if stream is None else stream for stream in (stdin, stdout, stderr)]
            descriptors = [stream if isinstance(stream, int) else stream.fileno() for stream in streams]
            socket.send_fds(ours, [b"!"], descriptors)
        ours.sendall(orjson.dumps(request, default=str) + b"\n")
        return ForkedProcess(arguments, ours)

    def close(self) -> None:
        """End the interpreter; processes that it has made go on. In a forked worker, nothing happens."""
        if os.getpid() != self._owner:
            return
        self._life.shutdown(socket.SHUT_RDWR)  # forked workers have it, too
        self._life.close()
        self._process.wait()
        self._stack.close()


@cache
def _started() -> ForkServer:
    return ForkServer()


def fork_server() -> ForkServer:
    """The fork server of this run, which starts when it is first needed, or before workers are forked."""
    with _STARTING:
        return _started()


def close_fork_server() -> None:
    if _started.cache_info().currsize:
        _started().close()
        _started.cache_clear()


# A program without the packages of the environment starts within a few milliseconds. It asks the fork server,
# hands signals on, and ends as the process does.
_PROGRAM = """#!{python} -IS
import json, os, signal, socket, sys

NUMBERS = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)

def hand_on(number, _):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass

signal.pthread_sigmask(signal.SIG_BLOCK, NUMBERS)
with socket.socket(socket.AF_UNIX) as conversation:
    conversation.connect({address!r})
    socket.send_fds(conversation, [b"!"], [0, 1, 2])
    wanted = {{"arguments": sys.argv[1:], "environment": dict(os.environ), "directory": os.getcwd()}}
    conversation.sendall(json.dumps(wanted).encode() + b"\\n")
    pid = int(conversation.recv({size}, socket.MSG_WAITALL))
    for number in NUMBERS:
        signal.signal(number, hand_on)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, NUMBERS)
    code = int(conversation.recv({size}, socket.MSG_WAITALL))
if code < 0:
    signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
sys.exit(code)
"""


def folder_of_command(folder: Path) -> Path:
    """A new folder below, for PATH, whose `bridge-server` runs each command in a forked process."""
    programs = folder / "programs"
    programs.mkdir(parents=True)
    program, address = programs / "bridge-server", str(fork_server().address)
    program.write_text(_PROGRAM.format(python=sys.executable, address=address, size=NUMBER_SIZE), "utf-8")
    program.chmod(0o700)
    return programs


def output_of_program(program: str) -> str:
    """The output of a program in Python, which must succeed, in a forked process, like `python -c`."""
    with TemporaryFile() as out, TemporaryFile() as err:
        process = fork_server().start((), os.environ, err, out, program=program)
        try:
            exit_code = process.wait(_SECONDS)
        finally:
            process.kill()
        out.seek(0)
        err.seek(0)
        assert exit_code == 0, err.read().decode()
        return out.read().decode()


async def output_of(*command: str, folder: Path, **variables: str) -> str:
    """The output of the command, which must succeed, in the folder. The variables join the environment."""
    environment = {**os.environ, **variables}
    process = await asyncio.create_subprocess_exec(*command, cwd=folder, env=environment, stdout=PIPE)
    try:
        async with asyncio.timeout(_SECONDS):
            output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0
    return output.decode()


def shown_at_terminal(*arguments: str | Path, environment: Mapping[str, str] | None = None) -> str:
    """The text that a command, which must succeed, writes to a terminal that is its input and output."""
    ours, its = pty.openpty()
    variables = {**environment_without_settings(), "COLUMNS": "200", **(environment or {})}
    with os.fdopen(ours, "rb", buffering=0) as terminal:
        with os.fdopen(its, "wb", buffering=0) as end:
            run = fork_server().start([*map(str, arguments)], variables, end, end, end)
        written = b""
        with suppress(OSError):  # Linux says so when the last writer has closed the terminal
            while piece := terminal.read(65_536):
                written += piece
    assert run.wait() == 0, written
    return written.decode()


# Ports for programs that cannot choose one themselves, or that come back to theirs.

WORKER = "PYTEST_XDIST_WORKER"
"""In the environment, a worker's name as xdist has it: fixtures of the kit and ports of tests go by it."""

WORKER_COUNT = "PYTEST_XDIST_WORKER_COUNT"
_PORTS = range(20_000, 32_000)  # below those that the system hands out to other tests and servers


def free_ports(number: int) -> list[int]:
    """So many free ports of 127.0.0.1, of this worker alone; none comes twice before all have been tried."""
    worker, workers = int(os.environ.get(WORKER, "gw0")[2:]), int(os.environ.get(WORKER_COUNT, "1"))
    found: list[int] = []
    for port in islice(_ports_of(worker, workers), len(_PORTS) // workers):
        with closing(socket.socket()) as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            found.append(port)
        if len(found) == number:
            break
    return found


@cache
def _ports_of(worker: int, workers: int) -> Iterator[int]:
    """The worker's ports in an order by chance, without end."""
    own = _PORTS[worker::workers]
    return cycle(random.sample(own, len(own)))
