"""`serve --processes`: equal processes that share a port, below a parent that starts, watches and stops them.

The parent opens no database and answers nobody. It passes signals on. A process that ends is started again,
with growing pauses, as long as another one serves. If a setting is at fault, or no process serves, the parent
ends too, and the service manager decides. At SIGUSR1 it replaces one process after another: it keeps the
sockets at which they listen, so that connections wait for the process that comes.
"""

import os
import select
import signal
import socket
import sys
import time
import traceback
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn, Self
from urllib.parse import urlsplit

import click
import orjson
import structlog

from bridge_server.cli import process
from bridge_server.cli.options import CommandError, command_errors
from bridge_server.cli.server_run import ServerRun, Started, banner, not_listened, run_server
from bridge_server.kernel.process import stop_with
from bridge_server.kernel.values import dataclass
from bridge_server.settings.settings import Settings
from bridge_server.settings.sources import LoadedSettings, SettingsError
from bridge_server.storage.data_directory import DataDirectoryError, held

# One process of `serve --processes`: forked, with a directory and an internal address of its own.

_OF_THE_SERVICE_MANAGER = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
_LOOPBACK = "127.0.0.1"


@dataclass()
class Child:
    """A process, and the pipe from which its parent reads the facts about it once it answers."""

    number: int
    pid: int
    pipe: int
    run: ServerRun
    """The settings of its start, as its parent has them."""
    facts: Mapping[str, Any] | None = None
    answers_since: float = 0.0
    leaves_until: float | None = None
    """The time at which it is killed, if another one is to replace it."""

    def read_facts(self) -> None:
        """Take what the process has written; nothing if it has ended before it answered."""
        text = os.read(self.pipe, 65_536)
        os.close(self.pipe)
        self.pipe = -1
        if text:
            self.facts = orjson.loads(text)
            self.answers_since = time.monotonic()


def forked(
    run: ServerRun, number: int, port: int, sockets: Sequence[socket.socket], leave_parent: Callable[[], None]
) -> Child:
    """Start the process of this number, from 1. In it, `leave_parent` undoes what only the parent needs."""
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    parent = os.getpid()
    pid = os.fork()
    if not pid:
        os.close(reading)
        leave_parent()
        if not stop_with(parent):
            os._exit(1)
        _serve(replace(_run_of(run, number, port, writing), sockets=sockets))
    os.close(writing)
    return Child(number, pid, reading, run)


def _serve(run: ServerRun) -> NoReturn:
    code = 1
    try:
        run_server(run)
        code = 0
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except Exception:
        traceback.print_exc()
    finally:  # a forked process must not go on with its parent's program, whatever ends it
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _run_of(run: ServerRun, number: int, port: int, writing: int) -> ServerRun:
    for name in _OF_THE_SERVICE_MANAGER:
        os.environ.pop(name, None)
    signal.set_wakeup_fd(-1)

    def own(loaded: LoadedSettings) -> LoadedSettings:
        return replace(loaded, settings=own_settings(loaded.settings, number, port))

    settings = own_settings(run.settings, number, port)
    internal = urlsplit(settings.internal_url or f"http://{_LOOPBACK}:0")
    return replace(
        run,
        settings=settings,
        reload=lambda: own(run.reload()),
        reloaded=run.reloaded and own(run.reloaded),
        companion=partial(_reporting, writing),
        ready_file=None,
        internal_address=(internal.hostname or _LOOPBACK, internal.port or 0),
    )


def own_settings(settings: Settings, number: int, port: int) -> Settings:
    """The settings of all as the process of this number has them: a directory and ports of its own."""
    data_dir = settings.data_dir / str(number)
    changes: dict[str, Any] = {"data_dir": data_dir, "keystore_dir": settings.keystore, "port": port}
    if settings.metrics_port:
        changes["metrics_port"] = settings.metrics_port + number - 1
    if settings.internal_url is not None:
        parts = urlsplit(settings.internal_url)
        assert parts.port is not None, "the settings have been checked"
        host = parts.netloc.rpartition(":")[0]
        changes["internal_url"] = f"{parts.scheme}://{host}:{parts.port + number - 1}"
    return settings.model_copy(update=changes)


@asynccontextmanager
async def _reporting(writing: int, server: Started) -> AsyncIterator[Mapping[str, Any]]:
    os.write(writing, orjson.dumps({**server.facts, "internal_url": server.internal_url}))
    os.close(writing)
    yield {}


# A port on which several processes listen: the system gives each connection to one of them.


@contextmanager
def held_port(host: str, port: int) -> Iterator[int]:
    """Keep a port for the processes, a free one for 0, and yield its number. Raises CommandError."""
    try:
        family, address = _addresses(host, port)[0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:  # without sharing: it must be free
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            address = probe.getsockname()
        with socket.socket(family, socket.SOCK_STREAM) as kept:
            kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            kept.bind(address)
            yield address[1]
    except OSError as error:
        raise not_listened(host, port, error, "--host and --port") from error


def bound_sockets(host: str, port: int) -> list[socket.socket]:
    """Sockets of one process at the host's addresses. They do not listen yet. Raises CommandError."""
    made = []
    try:
        for family, address in _addresses(host, port):
            made.append(bound := socket.socket(family, socket.SOCK_STREAM))
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            if family == socket.AF_INET6:
                bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            bound.bind(address)
    except OSError as error:
        for each in made:
            each.close()
        raise not_listened(host, port, error, "--host and --port") from error
    return made


def _addresses(host: str, port: int) -> Sequence[tuple[socket.AddressFamily, Any]]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return list(dict.fromkeys((family, address) for family, _, _, _, address in found))


# The parent, which starts processes again that end, and stops all of them.

_CHECK_SECONDS = 0.5
_FIRST_PAUSE_SECONDS = 1.0
_LONGEST_PAUSE_SECONDS = 30.0
_SERVES_WELL_SECONDS = 60.0
"""A process that has served for so long is started again after the first pause."""
_STOP_SECONDS = 15.0
_QUEUE_SECONDS = 10.0
"""The longest that new connections wait for the process that replaces another."""
_START_SECONDS = 10.0
_ONE_START_SECONDS = 60.0
_SETTING_AT_FAULT = CommandError.exit_code
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGCHLD)
_OF_THE_PARENT = ("data_dir", "host", "port", "processes")
"""Settings that stay as they were at the start of the parent."""

log = structlog.get_logger()


def run_several(run: ServerRun) -> None:
    """Run the processes until a signal, or until none can serve. Raises CommandError, SystemExit."""
    hangup_ends = process.hangup_stops()
    with (
        command_errors(DataDirectoryError),
        held(run.settings.data_dir),
        held_port(run.settings.host, run.settings.port) as port,
        _Signals() as signals,
    ):
        code = _Family(run, port, signals, hangup_ends=hangup_ends).run()
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
        process.ignore_signals()  # the process ends
        self._close()

    def leave(self) -> None:
        """Let each signal have the effect that it had before."""
        self._close()
        for each, handler in self._former.items():
            signal.signal(each, handler)

    def _close(self) -> None:
        signal.set_wakeup_fd(-1)
        os.close(self._reading)
        os.close(self._writing)

    def wait(self, pipes: list[int]) -> tuple[bytes, list[int]]:
        """The numbers of signals, and the pipes that can be read; either may be empty."""
        ready, _, _ = select.select([self._reading, *pipes], [], [], _CHECK_SECONDS)
        received = b""
        if self._reading in ready:
            with suppress(BlockingIOError):
                received = os.read(self._reading, 1_000)
        return received, [each for each in ready if each != self._reading]


class _Family:
    """The parent's work."""

    def __init__(self, run: ServerRun, port: int, signals: _Signals, *, hangup_ends: bool) -> None:
        self._run = run
        self._run_before: ServerRun | None = None
        """The settings of all processes, until all serve with the settings of the last SIGUSR1."""
        self._port = port
        self._signals = signals
        self._hangup_ends = hangup_ends
        self._children: dict[int, Child] = {}
        self._sockets: dict[int, list[socket.socket]] = {}
        self._again_at: dict[int, float] = {}
        self._pauses: dict[int, float] = {}
        self._to_replace: list[int] = []
        self._queues_until: dict[int, float] = {}
        """The times until which connections wait for processes that replace others."""
        self._killed_at: float | None = None
        """The time at which remaining processes are killed, once the stop has begun."""
        self._code = 0
        self._files = ExitStack()
        self._is_ready = self._is_announced = False
        self._is_watched = "WATCHDOG_USEC" in os.environ
        self._proven_at = time.monotonic()

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
                self._close_sockets(list(self._sockets))
        return self._code

    def _step(self) -> None:
        self._prove_life()
        pipes = {each.pipe: each for each in self._children.values() if each.pipe >= 0}
        received, readable = self._signals.wait(list(pipes))
        for pipe in readable:
            self._hear(pipes[pipe])
        for number in received:
            self._pass_on(signal.Signals(number))
        self._bury()
        if not self._is_announced and self._all_answer():
            self._announce()
        now = time.monotonic()
        for number in [each for each, at in self._again_at.items() if at <= now]:
            del self._again_at[number]
            self._start(number)
        if self._to_replace and self._killed_at is None and self._all_answer():
            child = self._children[self._to_replace.pop(0)]
            child.leaves_until = now + _STOP_SECONDS
            os.kill(child.pid, signal.SIGUSR1)
        self._end_patience(now)
        if self._killed_at is not None and now >= self._killed_at:
            self._kill()

    def _prove_life(self) -> None:
        """Tell the service manager in time that the parent is at work, or that the start takes longer."""
        now = time.monotonic()
        if not self._is_ready and now >= self._proven_at + _START_SECONDS:
            self._proven_at = now
            process.notify_systemd(f"EXTEND_TIMEOUT_USEC={int(_ONE_START_SECONDS * 1_000_000)}")
        elif self._is_ready and self._is_watched and now >= self._proven_at + _CHECK_SECONDS:
            self._proven_at = now
            process.notify_systemd(process.SIGN_OF_LIFE)

    def _start(self, number: int) -> None:
        if number not in self._sockets:
            self._sockets[number] = bound_sockets(self._run.settings.host, self._port)
        sockets = self._sockets[number]

        def leave() -> None:
            self._signals.leave()
            self._close_sockets([each for each in self._sockets if each != number])

        self._children[number] = forked(self._run, number, self._port, sockets, leave)
        self._is_announced = False

    def _hear(self, child: Child) -> None:
        """Read that a process answers; it takes the settings of a SIGHUP that came while it started."""
        child.read_facts()
        if not self._hangup_ends and child.facts is not None and child.run is not self._run:
            os.kill(child.pid, signal.SIGHUP)

    def _pass_on(self, received: signal.Signals) -> None:
        if received == signal.SIGHUP and not self._hangup_ends:
            if (loaded := self._loaded()) is not None:
                self._run = replace(self._run, reloaded=loaded)
                self._run_before = self._run_before and replace(self._run_before, reloaded=loaded)
                for child in self._children.values():
                    if child.facts is not None:
                        os.kill(child.pid, signal.SIGHUP)
        elif received == signal.SIGUSR1:
            self._replace_all()
        elif received != signal.SIGCHLD:
            self._stop()

    def _loaded(self) -> LoadedSettings | None:
        """The settings as they are now; None if they have a fault."""
        try:
            loaded = self._run.reload()
        except (SettingsError, CommandError) as error:
            log.error("settings_not_taken", reason="; ".join(str(error).splitlines()))
            return None
        kept = {name: getattr(self._run.settings, name) for name in _OF_THE_PARENT}
        return replace(loaded, settings=loaded.settings.model_copy(update=kept))

    def _replace_all(self) -> None:
        """Have every process replaced by one with the settings as they are now."""
        if (loaded := self._loaded()) is None:
            return
        if self._is_ready:
            self._run_before = self._run_before or self._run
        self._run = replace(self._run, settings=loaded.settings, origins=loaded.origins, reloaded=None)
        self._to_replace = sorted({*self._children, *self._again_at})
        log.info("processes_replaced", processes=len(self._to_replace))

    def _end_patience(self, now: float) -> None:
        """Kill a process that does not leave, and have no connection wait for one that does not come."""
        for number, child in self._children.items():
            if child.leaves_until is not None and now >= child.leaves_until:
                child.leaves_until = now + _STOP_SECONDS
                os.kill(child.pid, signal.SIGKILL)
            if child.facts is not None and child.leaves_until is None:
                self._queues_until.pop(number, None)
        for number in [each for each, until in self._queues_until.items() if now >= until]:
            del self._queues_until[number]
            for each in self._sockets.get(number, ()):
                with suppress(OSError):  # it does not listen, or the system does not know this
                    each.shutdown(socket.SHUT_RDWR)

    def _stop(self) -> None:
        """Stop all processes; at the second call, without the drain."""
        if self._killed_at is None:
            process.notify_systemd("STOPPING=1")
            self._killed_at = time.monotonic() + self._run.settings.drain_seconds + _STOP_SECONDS
            self._again_at.clear()
            self._close_sockets(list(self._sockets))
        for child in self._children.values():
            os.kill(child.pid, signal.SIGTERM)

    def _close_sockets(self, numbers: list[int]) -> None:
        """Close the parent's own descriptors: a socket lives on in the process that listens at it."""
        for number in numbers:
            for each in self._sockets.pop(number, ()):
                each.close()

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
                self._go_on_without(child, os.waitstatus_to_exitcode(status))

    def _go_on_without(self, child: Child, code: int) -> None:
        """Start a process again that has ended; end with it where that has no sense."""
        now = time.monotonic()
        if self._killed_at is not None:
            self._code = self._code or (0 if code == -signal.SIGTERM else abs(code))
            return
        if child.leaves_until is not None:
            self._queues_until[child.number] = now + _QUEUE_SECONDS
            self._start(child.number)
            return
        if code == _SETTING_AT_FAULT and child.facts is None and self._run_before is not None:
            self._return_to(self._run_before, child)
            return
        log.error("process_ended", process=child.number, pid=child.pid, exit_code=code)
        self._close_sockets([child.number])
        self._queues_until.pop(child.number, None)
        others_serve = any(each.facts is not None for each in self._children.values())
        was_ended = code <= 0 and child.facts is not None  # by a signal, which all may have had
        if code != _SETTING_AT_FAULT and (others_serve or was_ended):
            served_well = child.facts is not None and now - child.answers_since >= _SERVES_WELL_SECONDS
            first = _FIRST_PAUSE_SECONDS
            pause = first if served_well else self._pauses.get(child.number, first)
            self._pauses[child.number] = min(2 * pause, _LONGEST_PAUSE_SECONDS)
            self._again_at[child.number] = now + pause
            return
        # With these settings it has served: if one is at fault by now, the next start of all says so.
        self._code = 1 if self._is_ready else max(code, 1)
        self._stop()

    def _return_to(self, run: ServerRun, refused: Child) -> None:
        """Have all processes serve with earlier settings: a process cannot start with the new ones."""
        log.error("settings_not_taken", process=refused.number, reason="a process does not start with them")
        self._run, self._run_before = run, None
        others = self._children.items()
        self._to_replace = sorted(number for number, each in others if each.run.settings is not run.settings)
        self._start(refused.number)

    def _all_answer(self) -> bool:
        children = self._children.values()
        answering = sum(each.facts is not None and each.leaves_until is None for each in children)
        return answering == self._run.settings.processes

    def _announce(self) -> None:
        """Keep the files about the server, and tell the service manager and the terminal that it answers."""
        is_first, self._is_ready, self._is_announced = not self._is_ready, True, True
        if not self._to_replace:
            self._run_before = None
        facts = {**self._facts(), "pid": os.getpid()}
        self._files.enter_context(process.server_file_at(self._run.settings.server_file, facts))
        self._files.enter_context(process.ready_file_at(self._run.ready_file, facts))
        if not is_first:
            log.info("processes_complete", processes=len(self._children))
            return
        process.notify_systemd("READY=1")
        log.info("processes_started", url=facts["url"], pid=facts["pid"], processes=len(self._children))
        if sys.stdout.isatty():
            click.echo(banner(facts["url"], self._run.settings))

    def _facts(self) -> dict[str, Any]:
        children = sorted(self._children.values(), key=lambda each: each.number)
        known = [dict(each.facts or {}) for each in children]
        urls = [facts.pop("internal_url") for facts in known]
        processes = [{"pid": each.pid, "url": url} for each, url in zip(children, urls, strict=True)]
        return {**known[0], "processes": processes}
