"""A process that has the program's modules loaded, and forks a process for each command that it is asked for.

An interpreter takes most of a second to import the program, a fork 20 ms. It runs as
`python -m tests.support.fork_server DESCRIPTOR`, and ends when the other end of that socket is closed.
"""

import gc
import os
import runpy
import select
import signal
import socket
import sys
from collections.abc import Iterable
from contextlib import suppress
from importlib import import_module

import orjson

_LOADED = ("assembly.application", "cli.commands", "cli.serve", "cli.wallet")
_STANDARD_STREAMS = (0, 1, 2)
NUMBER_SIZE = 16
"""Bytes of a process id or an exit code on the wire."""


def main() -> None:
    """Fork until nobody can ask any more. In each forked process, run the command."""
    for name in _LOADED:
        import_module(f"bridge_server.{name}")
    with suppress(ImportError):
        import_module("uvloop")
    gc.freeze()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the tests
    conversation = _next_command(socket.socket(fileno=int(sys.argv[1])))
    if conversation is not None:
        _run(conversation)


def _next_command(asked: socket.socket) -> socket.socket | None:
    """In a forked process, the socket that has its command; None at the end of this one."""
    children: dict[int, socket.socket] = {}
    ended, ending = os.pipe()
    os.set_blocking(ending, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(ending)
    while True:
        ready, _, _ = select.select([asked.fileno(), ended], [], [])
        if ended in ready:
            os.read(ended, 1_000)
            _report_ended(children)
            continue
        _, descriptors, _, _ = socket.recv_fds(asked, 1, 1 + len(_STANDARD_STREAMS))
        if not descriptors:
            return None
        conversation = socket.socket(fileno=descriptors[0])
        pid = os.fork()
        if pid == 0:
            _take_streams(descriptors[1:])
            _leave_server((asked, *children.values()), (ended, ending))
            return conversation
        for descriptor in descriptors[1:]:
            os.close(descriptor)
        _send_number(conversation, pid)
        children[pid] = conversation


def _take_streams(descriptors: list[int]) -> None:
    for descriptor, stream in zip(descriptors, _STANDARD_STREAMS, strict=True):
        os.dup2(descriptor, stream)
        os.close(descriptor)


def _leave_server(sockets: Iterable[socket.socket], pipe: Iterable[int]) -> None:
    """In a forked process, undo what the server needs."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for each in sockets:
        each.close()
    for descriptor in pipe:
        os.close(descriptor)


def _report_ended(children: dict[int, socket.socket]) -> None:
    """Send the exit codes of processes that have ended."""
    for pid in list(children):
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            with children.pop(pid) as conversation:
                _send_number(conversation, os.waitstatus_to_exitcode(status))


def _send_number(conversation: socket.socket, number: int) -> None:
    with suppress(BrokenPipeError):  # nobody waits for it any more
        conversation.sendall(b"%*d" % (NUMBER_SIZE, number))


def _run(conversation: socket.socket) -> None:
    """Run the command as `python -m bridge_server` does."""
    with conversation, conversation.makefile("rb") as lines:
        wanted = orjson.loads(lines.readline())
    os.environ.clear()
    os.environ.update(wanted["environment"])
    os.chdir(wanted["directory"])
    sys.argv[1:] = wanted["arguments"]
    runpy.run_module("bridge_server", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
