"""`python -m bridge_server` in a process that is forked from one that has the program's modules loaded."""

import os
import select
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from threading import Lock
from typing import IO, Any

import orjson

from tests.support.fork_server import NUMBER_SIZE

_ROOT = Path(__file__).parents[2]
_PLACE = gettempdir()  # a test may have another
_STARTING = Lock()


class ForkedProcess(subprocess.Popen[bytes]):
    """A process that a fork server has made, which can be waited for and signalled as one of `subprocess`.

    The fork server writes the process id to `conversation`, and at the end the exit code.
    """

    def __init__(self, arguments: Sequence[str], conversation: socket.socket) -> None:
        self.args = list(arguments)
        self.returncode = None
        self.stdin = self.stdout = self.stderr = None
        self._conversation = conversation
        self.pid = _number_from(conversation)

    def poll(self) -> int | None:
        """The exit code; None while it runs."""
        return self._code_within(0)

    def wait(self, timeout: float | None = None) -> int:
        """The exit code once it has ended. Raises TimeoutExpired."""
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
        code: int | None = self.returncode
        return code


def _number_from(conversation: socket.socket) -> int:
    return int(conversation.recv(NUMBER_SIZE, socket.MSG_WAITALL))


class ForkServer:
    """An interpreter with the program's modules loaded. It can be asked at the socket in `address`."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        folder = self._stack.enter_context(TemporaryDirectory(prefix="fork-", dir=_PLACE))
        self.address = Path(folder) / "socket"
        ours, theirs = socket.socketpair()
        self._life = ours
        with theirs, socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(self.address))
            listening.listen()
            descriptors = (theirs.fileno(), listening.fileno())
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.fork_server", *map(str, descriptors)],
                cwd=_ROOT,
                pass_fds=descriptors,
                stdin=subprocess.DEVNULL,
            )

    def start(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        stderr: IO[bytes] | int | None = None,
        stdout: IO[bytes] | int | None = None,
        stdin: IO[bytes] | int | None = None,
        **wanted: Any,
    ) -> ForkedProcess:
        """Run `python -m bridge_server` with the arguments. A stream that is not named is empty.

        Of `wanted`, `program` runs instead, as that of `python -c`; `directory` is where it runs, and
        `open_files` its soft and its hard limit of them.
        """
        request = {
            "arguments": arguments,
            "environment": dict(environment),
            "directory": Path.cwd(),
            "open_files": None,
            "program": None,
            **wanted,
        }
        ours = socket.socket(socket.AF_UNIX)
        ours.connect(str(self.address))
        with Path(os.devnull).open("r+b") as nothing:
            streams = [nothing if stream is None else stream for stream in (stdin, stdout, stderr)]
            descriptors = [stream if isinstance(stream, int) else stream.fileno() for stream in streams]
            socket.send_fds(ours, [b"!"], descriptors)
        ours.sendall(orjson.dumps(request, default=str) + b"\n")
        return ForkedProcess(arguments, ours)

    def close(self) -> None:
        """End the interpreter; processes that it has made go on."""
        self._life.close()
        self._process.wait()
        self._stack.close()


@cache
def _started() -> ForkServer:
    return ForkServer()


def fork_server() -> ForkServer:
    """The fork server of this process, which starts when it is first needed."""
    with _STARTING:
        return _started()


def close_fork_server() -> None:
    """End the fork server, if it has started."""
    if _started.cache_info().currsize:
        _started().close()
        _started.cache_clear()
