"""`serve --processes`: equal processes that share a port, below a parent that starts, watches and stops them.

The parent opens no database and answers nobody. It passes signals on. A process that a signal has killed, as
the system does for want of memory, is started again. A process that ends by itself would do so again: then
the parent stops the others and ends too, and the service manager decides.
"""

import os
import select
import signal
import sys
import time
from contextlib import ExitStack, suppress
from typing import Any, Self

import click
import structlog

from bridge_server.cli.banner import banner
from bridge_server.cli.child_process import Child, forked
from bridge_server.cli.hangup import hangup_stops
from bridge_server.cli.options import CommandError
from bridge_server.cli.process import notify_systemd, ready_file_at, server_file_at
from bridge_server.cli.serving import ServerRun
from bridge_server.cli.shared_port import held_port
from bridge_server.storage.data_directory import DataDirectoryError, held

_LOOK_SECONDS = 0.5
_PAUSE_SECONDS = 1.0
_STOP_SECONDS = 15.0
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)

log = structlog.get_logger()


def run_several(run: ServerRun) -> None:
    """Run the processes until a signal, or until one ends by itself. Raises CommandError, SystemExit."""
    hangup_ends = hangup_stops()
    try:
        with (
            held(run.settings.data_dir),
            held_port(run.settings.host, run.settings.port) as port,
            _Signals() as signals,
        ):
            code = _Family(run, port, signals, hangup_ends=hangup_ends).run()
    except DataDirectoryError as error:
        raise CommandError(str(error)) from error
    if code:
        sys.exit(code)


class _Signals:
    """The signals that the parent has received, and sleep that they end."""

    def __enter__(self) -> Self:
        self._former = {each: signal.getsignal(each) for each in _SIGNALS}
        self._reading, self._writing = os.pipe()
        for end in (self._reading, self._writing):
            os.set_blocking(end, False)
        for each in _SIGNALS:
            signal.signal(each, lambda *_: None)
        signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

    def leave(self) -> None:
        """Let each signal have the effect that it had before."""
        signal.set_wakeup_fd(-1)
        for each, handler in self._former.items():
            signal.signal(each, handler)
        os.close(self._reading)
        os.close(self._writing)

    def wait(self, pipes: list[int]) -> tuple[bytes, list[int]]:
        """The numbers of signals, and the pipes that can be read; either may be empty."""
        ready, _, _ = select.select([self._reading, *pipes], [], [], _LOOK_SECONDS)
        received = b""
        if self._reading in ready:
            with suppress(BlockingIOError):
                received = os.read(self._reading, 1_000)
        return received, [each for each in ready if each != self._reading]


class _Family:
    """The parent's work."""

    def __init__(self, run: ServerRun, port: int, signals: _Signals, *, hangup_ends: bool) -> None:
        self._run = run
        self._port = port
        self._signals = signals
        self._hangup_ends = hangup_ends
        self._children: dict[int, Child] = {}
        self._again_at: dict[int, float] = {}
        self._killed_at: float | None = None
        """The time at which remaining processes are killed, once the stop has begun."""
        self._code = 0
        self._files = ExitStack()
        self._is_ready = False
        self._is_watched = "WATCHDOG_USEC" in os.environ
        self._proven_at = 0.0

    def run(self) -> int:
        """Returns the exit code."""
        with self._files:
            try:
                for number in range(1, self._run.settings.processes + 1):
                    self._start(number)
                while self._children or self._again_at:
                    self._step()
            finally:
                self._kill()
        return self._code

    def _step(self) -> None:
        self._prove_life()
        pipes = {each.pipe: each for each in self._children.values() if each.pipe >= 0}
        received, readable = self._signals.wait(list(pipes))
        for pipe in readable:
            pipes[pipe].read_facts()
        for number in received:
            self._pass_on(signal.Signals(number))
        self._bury()
        if not self._is_ready and self._all_answer():
            self._announce()
        now = time.monotonic()
        for number in [each for each, at in self._again_at.items() if at <= now]:
            del self._again_at[number]
            self._start(number)
        if self._run.parent is not None and not self._run.parent.is_there():
            self._stop()
        if self._killed_at is not None and now >= self._killed_at:
            self._kill()

    def _prove_life(self) -> None:
        """Tell the service manager that the parent is at work, well within WatchdogSec."""
        now = time.monotonic()
        if self._is_watched and now >= self._proven_at + _LOOK_SECONDS:
            self._proven_at = now
            notify_systemd("WATCHDOG=1")

    def _start(self, number: int) -> None:
        self._children[number] = forked(self._run, number, self._port, self._signals.leave)

    def _pass_on(self, received: signal.Signals) -> None:
        if received == signal.SIGHUP and not self._hangup_ends:
            self._send(signal.SIGHUP)
        elif received != signal.SIGCHLD:
            self._stop()

    def _stop(self) -> None:
        """Stop all processes; at the second call, without the drain."""
        if self._killed_at is None:
            notify_systemd("STOPPING=1")
            self._killed_at = time.monotonic() + self._run.settings.drain_seconds + _STOP_SECONDS
            self._again_at.clear()
        self._send(signal.SIGTERM)

    def _send(self, number: signal.Signals) -> None:
        for child in self._children.values():
            os.kill(child.pid, number)

    def _kill(self) -> None:
        self._again_at.clear()
        for child in self._children.values():
            os.kill(child.pid, signal.SIGKILL)
            os.waitpid(child.pid, 0)
            self._code = self._code or 1
        self._children.clear()

    def _bury(self) -> None:
        for number, child in list(self._children.items()):
            found, status = os.waitpid(child.pid, os.WNOHANG)
            if found:
                del self._children[number]
                if child.pipe >= 0:
                    child.read_facts()
                self._replace(child, os.waitstatus_to_exitcode(status))

    def _replace(self, child: Child, code: int) -> None:
        """Start a process again that was killed while it served; end if a process has ended by itself."""
        if self._killed_at is not None:
            self._code = self._code or (0 if code == -signal.SIGTERM else abs(code))
            return
        log.error("process_ended", process=child.number, pid=child.pid, exit_code=code)
        if code < 0 and child.facts is not None:
            self._again_at[child.number] = time.monotonic() + _PAUSE_SECONDS
            return
        self._code = max(code, 1)
        self._stop()

    def _all_answer(self) -> bool:
        answering = [each for each in self._children.values() if each.facts is not None]
        return len(answering) == self._run.settings.processes

    def _announce(self) -> None:
        """Keep the files about the server, and tell the service manager and the terminal that it answers."""
        self._is_ready = True
        facts = {**self._facts(), "pid": os.getpid()}
        self._files.enter_context(server_file_at(self._run.settings.server_file, facts))
        self._files.enter_context(ready_file_at(self._run.ready_file, facts))
        notify_systemd("READY=1")
        log.info("processes_started", url=facts["url"], pid=facts["pid"], processes=len(self._children))
        if sys.stdout.isatty():
            click.echo(banner(facts["url"], self._run.settings))

    def _facts(self) -> dict[str, Any]:
        children = sorted(self._children.values(), key=lambda each: each.number)
        known = [dict(each.facts or {}) for each in children]
        processes = [
            {"pid": each.pid, "url": facts["internal_url"]}
            for each, facts in zip(children, known, strict=True)
        ]
        own = {name: value for name, value in known[0].items() if name != "internal_url"}
        return {**own, "processes": processes}
