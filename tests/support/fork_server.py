"""A process that has the program's modules loaded, and forks a process for each command that it is asked for:
an interpreter takes most of a second to import the program, a fork 20 ms. Its arguments are the descriptors
of a socket with whose other end it ends, and of the socket at which it is asked. A conversation begins with
the standard streams and a line of JSON; the answers are the process id and, at the end, the exit code.

White-box: what a server allows itself on PostgreSQL has no setting.
"""

import atexit
import gc
import os
import resource
import runpy
import select
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Iterable
from contextlib import suppress
from importlib import import_module
from io import TextIOWrapper
from types import ModuleType

import orjson

_LOADED = (
    "assembly.admin", "assembly.application", "assembly.console_pages", "assembly.testmode", "cli.commands",
    "cli.dev", "cli.notify", "cli.wallet", "kit.headless",
)  # fmt: skip
_STANDARD_STREAMS = (0, 1, 2)
NUMBER_SIZE = 16
"""Bytes of a process id or an exit code on the wire."""


def main() -> None:
    """Fork until nobody can ask any more. In each forked process, run the command."""
    for name in _LOADED:
        import_module(f"bridge_server.{name}")
    with suppress(ImportError):  # an extra that is not installed
        import_module("uvloop")
    with suppress(ImportError):
        import_module("bridge_server.assembly.postgres")
        wait_long()
    gc.freeze()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the tests
    life, listening = (socket.socket(fileno=int(descriptor)) for descriptor in sys.argv[1:])
    conversation = _next_command(life, listening)
    if conversation is None:
        return
    try:
        _run(conversation)
    except SystemExit as end:
        if not isinstance(end.code, str):
            _end(end.code or 0)
        raise
    _end(0)


def wait_long() -> None:
    """Have servers of this process wait for PostgreSQL for a minute: they give up after 2 s to 20 s, which a
    busy machine may need. A transaction that a frozen process has left open still ends after 10 s.
    """
    from bridge_server.storage.postgres import connection, listening  # noqa: PLC0415 - of an extra

    for name in ("lock_timeout", "statement_timeout"):
        connection._SETTINGS[name] = "60s"
    connection.EXCHANGE_SECONDS = listening._EXCHANGE_SECONDS = 60.0


def _end(code: int) -> None:
    """End as an interpreter does, but leave its objects alone: to take them apart is half of a command."""
    threading._shutdown()  # type: ignore[attr-defined]  # it waits for threads: one that goes on is a fault
    atexit._run_exitfuncs()
    with suppress(OSError, ValueError):  # of a stream that is closed: the interpreter says so when it ends
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _next_command(life: socket.socket, listening: socket.socket) -> socket.socket | None:
    """In a forked process, the socket that has its command; None at the end of this one."""
    children: dict[int, socket.socket] = {}
    ended, ending = os.pipe()
    os.set_blocking(ending, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(ending)
    while True:
        ready, _, _ = select.select([life.fileno(), listening.fileno(), ended], [], [])
        if ended in ready:
            os.read(ended, 1_000)
            _report_ended(children)
            continue
        if life.fileno() in ready:
            return None
        conversation, _ = listening.accept()
        _, descriptors, _, _ = socket.recv_fds(conversation, 1, len(_STANDARD_STREAMS))
        if not descriptors:  # who asked has ended
            conversation.close()
            continue
        pid = os.fork()
        if pid == 0:
            _leave_server((life, listening, *children.values()), (ended, ending), descriptors)
            return conversation
        for descriptor in descriptors:
            os.close(descriptor)
        _send_number(conversation, pid)
        children[pid] = conversation


def _leave_server(sockets: Iterable[socket.socket], pipe: Iterable[int], streams: Iterable[int]) -> None:
    """In a forked process, undo what the server needs, and have these as the standard streams."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for each in sockets:
        each.close()
    for descriptor, stream in zip(streams, _STANDARD_STREAMS, strict=True):
        os.dup2(descriptor, stream)
    for descriptor in (*pipe, *streams):
        os.close(descriptor)
    for text in (sys.stdout, sys.stderr):
        if isinstance(text, TextIOWrapper):
            text.reconfigure(line_buffering=text.isatty() or text is sys.stderr)


def _report_ended(children: dict[int, socket.socket]) -> None:
    for pid in list(children):
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            with children.pop(pid) as conversation:
                _send_number(conversation, os.waitstatus_to_exitcode(status))


def _send_number(conversation: socket.socket, number: int) -> None:
    with suppress(BrokenPipeError):  # nobody waits for it any more
        conversation.sendall(b"%*d" % (NUMBER_SIZE, number))


def _run(conversation: socket.socket) -> None:
    """Run the command as `python -m bridge_server` does, or a program as `python -c`."""
    with conversation, conversation.makefile("rb") as lines:
        wanted = orjson.loads(lines.readline())
    os.environ.clear()
    os.environ.update(wanted["environment"])
    os.chdir(wanted["directory"])
    tempfile.tempdir = None  # as the environment has it
    if (open_files := wanted.get("open_files")) is not None:
        resource.setrlimit(resource.RLIMIT_NOFILE, open_files)
    sys.argv[1:] = wanted["arguments"]
    if (program := wanted.get("program")) is None:
        runpy.run_module("bridge_server", run_name="__main__", alter_sys=True)
        return
    sys.argv[0] = "-c"
    module = sys.modules["__main__"] = ModuleType("__main__")
    exec(compile(program, "<string>", "exec"), module.__dict__)


if __name__ == "__main__":
    main()
