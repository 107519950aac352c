"""The process and its environment: descriptors, files, signals, its URLs, its log."""

import asyncio
import logging
import os
import resource
import shlex
import signal
import socket
import sys
from collections.abc import Callable, Collection, Coroutine, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import which
from typing import Any, Literal, TypeVar
from urllib.parse import urlsplit

import orjson
import structlog
from aiohttp.http_exceptions import HttpProcessingError
from structlog.typing import Processor

from bridge_server.cli.options import CommandError
from bridge_server.kernel import fields, secrets
from bridge_server.settings import settings, sources

ENOUGH_DESCRIPTORS = 5_500
"""Open files with which a server serves many waiting clients; with fewer it warns."""

_WANTED_DESCRIPTORS = 65_536

log = structlog.get_logger()


def raise_descriptor_limit() -> int:
    """Raise the soft limit of open files as far as the hard limit allows; returns the new limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _WANTED_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(_WANTED_DESCRIPTORS, hard)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return soft


@contextmanager
def ready_file_at(path: Path | None, facts: dict[str, Any], *, is_secret: bool = False) -> Iterator[None]:
    """Keep a file with the facts as one JSON object during the block. Raises CommandError."""
    if path is None:
        yield
        return
    if path.exists() and not path.is_file():  # removing it at the end would remove a device
        raise CommandError(f"the ready file {path} is not a file: name another, or leave out --ready-file")
    try:
        write_file(path, orjson.dumps(facts), 0o600 if is_secret else 0o666)
    except OSError as error:
        raise CommandError(f"the ready file {path} cannot be written: {error.strerror or error}") from error
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


@contextmanager
def server_file_at(path: Path, facts: dict[str, Any]) -> Iterator[None]:
    """Keep a file with the facts for commands, readable by its owner only; a failure is logged."""
    try:
        write_file(path, orjson.dumps(facts))
    except OSError as error:
        log.warning("server_file_not_written", file=str(path), error=error.strerror)
    try:
        yield
    finally:
        with suppress(OSError):
            path.unlink(missing_ok=True)


def read_server_file(path: Path) -> dict[str, Any] | None:
    """The facts in a server's file; None if there is no such file or it is not valid."""
    try:
        facts = orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return None
    return facts if isinstance(facts, dict) else None


def write_file(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Write a file, by default for its owner alone; it appears complete or not at all. Raises OSError."""
    partial = path.with_name(f"{path.name}.partial")
    partial.unlink(missing_ok=True)
    try:
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, mode), "wb") as stream:
            stream.write(content)
        partial.replace(path)
    except OSError:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise


SIGN_OF_LIFE = "WATCHDOG=1"
_PATIENCE_SECONDS = 1.0


async def notify_watchdog() -> None:
    """Tell the service manager that the event loop runs, twice in each WatchdogSec, if that is set."""
    microseconds = os.environ.get("WATCHDOG_USEC", "")
    if not microseconds.isdecimal() or os.environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return
    while int(microseconds):
        notify_systemd(SIGN_OF_LIFE)
        await asyncio.sleep(int(microseconds) / 2_000_000)


def notify_systemd(state: str) -> None:
    """Notify the service manager of a state, if there is one (sd_notify); wait a second at most."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.settimeout(0.0 if state == SIGN_OF_LIFE else _PATIENCE_SECONDS)
            channel.connect("\0" + address[1:] if address.startswith("@") else address)
            channel.sendall(state.encode())
    except OSError as error:
        log.warning("service_manager_not_told", state=state, error=str(error))


# The command that starts this program again: a module of Python, or the file that `scripts/build` made.

_NAME = "bridge-server"


def own_command() -> list[str]:
    """The absolute path of the installed command, or Python with the name of the module."""
    if getattr(sys, "frozen", False):  # one executable, whose Python has no other way in
        return [sys.executable]
    started = Path(sys.argv[0])
    if started.name == "__main__.py" or not started.is_file():
        return [sys.executable, "-m", "bridge_server"]
    return [str(started.resolve())]


def typed_command() -> str:
    """The words that start this program in the shell: its name if that is on the PATH, else its place."""
    own = own_command()
    found = which(_NAME)
    if found is not None and str(Path(found).resolve()) in (own[0], str(Path(sys.executable).parent / _NAME)):
        return _NAME
    path = Path(own[0])
    shown = str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else own[0]
    return shlex.join([shown, *own[1:]])


# The URL of a listening server: for programs on the same machine, and for other machines.

_LOOPBACK_OF_WILDCARD = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - nothing is bound to it here
_DOCUMENTATION_ADDRESS = {socket.AF_INET: "192.0.2.1", socket.AF_INET6: "2001:db8::1"}
"""Addresses that belong to no machine: the route to them starts at the address that other machines see."""
_ANY_PORT = 9


def local_url(host: str, port: int) -> str:
    """The URL for programs on this machine of a server that listens on `host`: loopback for a wildcard."""
    reachable = _LOOPBACK_OF_WILDCARD.get(host, host)
    return f"http://[{reachable}]:{port}" if ":" in reachable else f"http://{reachable}:{port}"


def url_for_others(url: str, host: str) -> str:
    """The URL for other machines of a server with the local URL `url` that listens on `host`."""
    if host not in _LOOPBACK_OF_WILDCARD:
        return url
    families = (socket.AF_INET6, socket.AF_INET) if ":" in host else (socket.AF_INET,)
    addresses = filter(None, map(_outgoing_address, families))
    return local_url(next(addresses, socket.gethostname()), urlsplit(url).port or 0)


def lan_address() -> str | None:
    """The address at which other machines in the network reach this one; None without a network."""
    addresses = filter(None, map(_outgoing_address, (socket.AF_INET, socket.AF_INET6)))
    return next((address for address in addresses if not fields.is_loopback_address(address)), None)


def _outgoing_address(family: socket.AddressFamily) -> str | None:
    """The source address of this machine's packets; None without a route. No packet is sent."""
    with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect((_DOCUMENTATION_ADDRESS[family], _ANY_PORT))
        return str(probe.getsockname()[0])
    return None


# SIGTERM and SIGINT stop the server; a second Ctrl-C ends the process at once.

_INTERRUPTED = 130
_IMPATIENT_SECONDS = 0.5
"""Programs that run this one often pass on the Ctrl-C that it has had from the terminal already."""


def stop_at_signals(
    stop: asyncio.Event, abandon: Callable[[], None] | None, again: asyncio.Event | None = None
) -> None:
    """Set `stop` at the first SIGTERM or SIGINT, and `again` at a later one. With `abandon`, a later SIGINT
    calls it and ends the process at once, with exit code 130.
    """
    loop = asyncio.get_running_loop()
    first_at: float | None = None

    def is_repeated() -> bool:
        """Whether the stop was requested a while ago; if not, request it."""
        nonlocal first_at
        if first_at is None:
            first_at = loop.time()
            stop.set()
        return loop.time() - first_at >= _IMPATIENT_SECONDS

    def terminate() -> None:
        if is_repeated() and again is not None:
            again.set()

    def interrupt() -> None:
        if abandon is None:
            terminate()
        elif is_repeated():
            abandon()
            os._exit(_INTERRUPTED)

    loop.add_signal_handler(signal.SIGTERM, terminate)
    loop.add_signal_handler(signal.SIGINT, interrupt)


_WITHOUT_EFFECT_AT_THE_END = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)

Result = TypeVar("Result")


def run_until_exit(
    main: Coroutine[Any, Any, Result],
    run: Callable[[Coroutine[Any, Any, Result]], Result] = asyncio.run,
    at_end: Callable[[], None] = lambda: None,
) -> Result:
    """Run an event loop with which the process ends. A closed loop has no handlers, and a signal would change
    the exit code: signals are blocked after `main`, also in threads that `at_end` starts, and then ignored.
    """

    async def to_the_end() -> Result:
        result = await main
        signal.pthread_sigmask(signal.SIG_BLOCK, _WITHOUT_EFFECT_AT_THE_END)
        at_end()
        return result

    result = run(to_the_end())
    ignore_signals()
    return result


def ignore_signals() -> None:
    """Have no signal of an operator change how this process ends."""
    for each in _WITHOUT_EFFECT_AT_THE_END:
        signal.signal(each, signal.SIG_IGN)


# SIGHUP: the terminal was closed, or the operator asks the server to reload its settings.

_STANDARD_INPUT = 0


def hangup_stops() -> bool:
    """Whether SIGHUP stops this process: on a terminal, without nohup. Call it before the terminal closes."""
    outlives_terminal = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return os.isatty(_STANDARD_INPUT) and not outlives_terminal


class SettingsReloader:
    """Reloads the settings on request. `run_forever` must be running."""

    def __init__(self, live: settings.LiveSettings, read: Callable[[], sources.LoadedSettings]) -> None:
        self._live = live
        self._read = read
        self._requested = asyncio.Event()

    def request(self) -> None:
        """Request a reload. Requests that come before it starts are merged into one."""
        self._requested.set()

    async def run_forever(self) -> None:
        """At each request apply what can change without a restart, and log names without values."""
        while True:
            await self._requested.wait()
            self._requested.clear()
            try:
                loaded = await asyncio.to_thread(self._read)
                taken = self._live.take(loaded.settings, loaded.origins)
            except sources.SettingsError as error:
                log.error("settings_not_taken", reason="; ".join(str(error).splitlines()))
            except Exception:  # a failed reload must not stop the server
                log.exception("settings_not_taken")
            else:
                write = log.warning if taken.needs_restart else log.info
                write("settings_taken", changed=taken.changed, needs_restart=taken.needs_restart)


# The log: formatted on a terminal, one JSON object per line elsewhere. Secrets are redacted in both.


def configure_logs(
    level: str, form: Literal["auto", "console", "json"], said_elsewhere: Collection[str] = ()
) -> None:
    """Send the log of the program and its libraries to standard error, but no event in `said_elsewhere`."""
    console = form == "console" or (form == "auto" and sys.stderr.isatty())
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        secrets.redact,
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    rendering: list[Processor] = [structlog.processors.format_exc_info]
    if console:
        rendering = [structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)]
    else:
        rendering.append(
            structlog.processors.JSONRenderer(lambda value, **_: orjson.dumps(value, default=str).decode())
        )
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *rendering],
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    handler.addFilter(is_not_a_client_fault)
    handler.addFilter(
        lambda record: not isinstance(record.msg, dict) or record.msg.get("event") not in said_elsewhere
    )
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.getLogger("hpack").setLevel(logging.INFO)  # its debug log has requests with device tokens
    logging.getLogger("aiosqlite").setLevel(logging.INFO)  # its debug log has every operation twice


def is_not_a_client_fault(record: logging.LogRecord) -> bool:
    """Leave out bad HTTP and unknown WebSocket subprotocols of clients, unless the level is debug."""
    error = record.exc_info[1] if record.exc_info else None
    is_bad_http = record.name == "aiohttp.server" and isinstance(error, HttpProcessingError)
    if is_bad_http or record.name == "aiohttp.websocket":
        return logging.getLogger().isEnabledFor(logging.DEBUG)
    return True
