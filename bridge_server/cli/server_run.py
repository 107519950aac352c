"""A server from its start to its clean end, as `serve` and `dev` run it."""

import asyncio
import errno
import logging
import os
import signal
import socket
import sqlite3
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, contextmanager, suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import structlog
from aiohttp import web

from bridge_server.assembly import room, wallet
from bridge_server.assembly.application import BuiltApp, build_app
from bridge_server.cli import process, running_server
from bridge_server.cli.options import CommandError, EndedItselfError
from bridge_server.ethereum.address import hex_of
from bridge_server.ethereum.mnemonic import DEVELOPMENT_MNEMONIC
from bridge_server.ethereum.signing_key import SigningKey
from bridge_server.kernel import background, errors, version
from bridge_server.kernel.process import collect_less_often, garbage_left_alone
from bridge_server.kernel.values import dataclass
from bridge_server.relay.wire import V07
from bridge_server.settings.settings import Settings
from bridge_server.settings.sources import LoadedSettings
from bridge_server.storage.data_directory import DataDirectoryError
from bridge_server.storage.database import DatabaseAwayError, DatabaseRefusedError
from bridge_server.storage.migrate import NewerSchemaError
from bridge_server.wallet.accounts import development_secrets
from bridge_server.web.serving import runner_of

log = structlog.get_logger()


_EXIT_SECONDS = 1.0
_STOP_SECONDS = 10.0
"""The longest that a stop takes, the drain before it not counted."""
_FIRST_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 10.0
"""Before another attempt to start, while the database is away."""
_ATTEMPT_SECONDS = 60.0
_LAST_REQUESTS_SECONDS = 0.5
"""The time in which the request of a connection that was just accepted arrives."""


@dataclass(frozen=True, slots=True)
class Started:
    """A server that answers: its URL on its own machine, and the facts that its files have."""

    built: BuiltApp
    settings: Settings
    url: str
    internal_url: str
    """The URL at which other processes reach it."""
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerRun:
    """A server as a command wants it."""

    settings: Settings
    origins: Mapping[str, str]
    """The source of each setting."""
    reload: Callable[[], LoadedSettings]
    """Loads the settings again, at SIGHUP."""
    reloaded: LoadedSettings | None = None
    """The settings of the last SIGHUP before this start: the server takes what needs no restart."""
    companion: Callable[[Started], AbstractAsyncContextManager[Mapping[str, Any]]]
    ready_file: Path | None = None
    demo: room.DemoProject | None = None
    logs_start: bool = True
    address_options: str = "--host and --port"
    """The options that change where it listens, as a message names them."""
    internal_address: tuple[str, int] | None = None
    """The address at which it listens for other processes, if it shares its port with them."""
    sockets: Sequence[socket.socket] = ()
    """The sockets at which it listens, if its parent keeps them for the process that replaces it."""
    abandon: Callable[[], None] | None = None
    """Removes files before an exit that skips the command's end. With it a second Ctrl-C exits at once."""


def run_server(run: ServerRun) -> None:
    """Run until a signal, and shut down cleanly. Raises CommandError if the server cannot start."""
    loop: Callable[[Coroutine[Any, Any, str | None]], str | None] = (
        asyncio.run if find_spec("uvloop") is None else import_module("uvloop").run  # the extra `fast`
    )
    try:
        with _exit_deadline(run.abandon) as start_deadline:
            reason = process.run_until_exit(_serve_once_possible(run), loop, start_deadline)
    except (DataDirectoryError, DatabaseRefusedError, NewerSchemaError, ValueError) as error:
        raise CommandError(str(error)) from error
    except errors.UnavailableError as error:
        raise EndedItselfError(f"while the server started or stopped: {error.detail}") from error
    except sqlite3.Error as error:
        raise CommandError(f"the database {run.settings.database_name} cannot be opened: {error}") from error
    except OSError as error:
        where = "" if error.filename is None else f"{error.filename}: "
        raise CommandError(f"{where}{error.strerror or error}") from error
    if reason is not None:
        raise EndedItselfError(reason)


@contextmanager
def _exit_deadline(abandon: Callable[[], None] | None) -> Iterator[Callable[[], None]]:
    """Yield a function that starts a deadline; then the process exits, even if a thread still computes."""

    def leave() -> None:
        if abandon is not None:
            abandon()
        os._exit(0)

    timer = threading.Timer(_EXIT_SECONDS, leave)
    timer.daemon = True
    try:
        yield timer.start
    finally:
        timer.cancel()


async def _serve_once_possible(run: ServerRun) -> str | None:
    """Serve until the stop, once there is a database. Returns the reason if the server ended itself."""
    stop, stop_now = asyncio.Event(), asyncio.Event()
    process.stop_at_signals(stop, run.abandon, stop_now)
    pause = _FIRST_PAUSE_SECONDS
    while True:
        try:
            return await _serve(run, stop, stop_now)
        except DatabaseAwayError as error:
            if stop.is_set():
                return None
            log.warning("database_awaited", reason=str(error), next_try_seconds=pause)
        process.notify_systemd(f"EXTEND_TIMEOUT_USEC={int((pause + _ATTEMPT_SECONDS) * 1_000_000)}")
        if await _is_set_within(stop, pause):
            return None
        pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)


async def _is_set_within(event: asyncio.Event, seconds: float) -> bool:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
    return event.is_set()


async def _serve(run: ServerRun, stop: asyncio.Event, stop_now: asyncio.Event) -> str | None:
    """Serve until the stop; returns the reason if the server has ended itself."""
    settings = run.settings
    with garbage_left_alone():
        built = build_app(settings, demo=run.demo, origins=run.origins)
    if run.reloaded is not None:
        built.live.take(run.reloaded.settings, run.reloaded.origins)
    built.live.follow(lambda live: logging.getLogger().setLevel(live.log_level.upper()))
    reloader = process.SettingsReloader(built.live, run.reload)
    on_hangup = stop.set if process.hangup_stops() else reloader.request
    runner, replaced = runner_of(built.application), asyncio.Event()
    shares_port = run.internal_address is not None

    def on_replacement() -> None:
        if not run.sockets:
            log.warning("nothing_to_replace", advice="SIGUSR1 is for the parent of `serve --processes`")
            return
        replaced.set()
        stop.set()

    async def stop_when_wanted() -> None:
        await built.stopping.wanted()
        log.error("server_ends_itself", reason=built.stopping.reason)
        stop.set()

    async def until_end() -> None:
        """Wait for the stop, and give others time: load balancers, or the process that replaces this one."""
        await stop.wait()
        if replaced.is_set():
            # New connections wait for the process that comes; the others are answered here.
            for site in [each for each in runner.sites if isinstance(each, web.SockSite)]:
                await site.stop()
            await asyncio.sleep(_LAST_REQUESTS_SECONDS)
        else:
            process.notify_systemd("STOPPING=1")
            await _drain(built, settings.drain_seconds, stop_now)

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGHUP, on_hangup)
    loop.add_signal_handler(signal.SIGUSR1, on_replacement)
    with ExitStack() as at_end:
        async with (
            background.running(reloader.run_forever()),
            background.running(stop_when_wanted()),
            background.running(process.notify_watchdog()),
            listening(runner, settings.host, settings.port, run.address_options, sockets=run.sockets) as url,
            metrics_listening(built.metrics, settings),
            console_listening(built.console, settings, url, shares_port=shares_port) as console_url,
        ):
            internal = run.internal_address
            internal_url = url if internal is None else await listen_beside(runner, *internal)
            built.announce_url(internal_url)
            facts = {
                "url": url,
                "pid": os.getpid(),
                "public_url": settings.public_url or url,
                "rpc_url": f"{url}/rpc",
                "database": settings.database_name,
                "version": version.VERSION,
                **({} if console_url is None else {running_server.CONSOLE_URL: console_url}),
            }
            await _serve_until(until_end, run, Started(built, settings, url, internal_url, facts), at_end)
    return built.stopping.reason


async def _drain(built: BuiltApp, seconds: float, stop_now: asyncio.Event) -> None:
    """Answer requests for so long while /readyz refuses, or until a further signal."""
    built.stopping.announce()
    if not seconds:
        return
    log.info("draining", seconds=seconds)
    process.notify_systemd(f"EXTEND_TIMEOUT_USEC={int((seconds + _STOP_SECONDS) * 1_000_000)}")
    await _is_set_within(stop_now, seconds)


async def _serve_until(
    until_end: Callable[[], Awaitable[None]], run: ServerRun, server: Started, at_end: ExitStack
) -> None:
    """Keep the files about the server while it answers."""
    settings, facts = server.settings, server.facts
    token = server.built.test_token
    secrets = {} if token is None else {"test_token": token}
    addresses = [key.address for key in wallet.keys_for_development(settings)]
    for_commands = {**facts, **secrets, running_server.DEVELOPMENT_ACCOUNTS: addresses}
    async with run.companion(server) as further:
        shown = process.url_for_others(server.url, settings.host)  # a log is also read on other machines
        public = settings.public_url or shown
        if run.logs_start:
            log.info("server_started", **{**facts, "host": settings.host, "url": shown, "public_url": public})
            at_end.callback(log.info, "server_stopped", url=shown, pid=facts["pid"])
        is_secret = bool(secrets or further)
        with (
            process.server_file_at(settings.server_file, for_commands),
            process.ready_file_at(run.ready_file, {**facts, **secrets, **further}, is_secret=is_secret),
        ):
            process.notify_systemd("READY=1")
            collect_less_often()
            await until_end()


# The sockets on which a process listens: for the server, for metrics and for the console.

_BACKLOG = 4096
_OPERATORS_SHUTDOWN_SECONDS = 0.2
_LAN_SHUTDOWN_SECONDS = 2.0


@asynccontextmanager
async def listening(
    runner: web.AppRunner,
    host: str,
    port: int,
    set_by: str,
    *,
    shares_port: bool = False,
    sockets: Sequence[socket.socket] = (),
) -> AsyncIterator[str]:
    """Serve the application and yield its local URL; at the end finish open requests and close. It listens at
    the `sockets`, if there are any. With `shares_port` other processes listen at the address, too. Raises
    CommandError if it cannot be used; `set_by` names the options that change it.
    """
    try:
        await runner.setup()
        sites: list[web.BaseSite] = [web.SockSite(runner, each, backlog=_BACKLOG) for each in sockets]
        own = web.TCPSite(runner, host, port, backlog=_BACKLOG, reuse_port=shares_port or None)
        for site in sites or [own]:
            await _start(site, host, port, set_by)
        yield process.local_url(host, runner.addresses[0][1])
    finally:
        await runner.cleanup()


async def listen_beside(runner: web.AppRunner, host: str, port: int) -> str:
    """Serve what `listening` serves at a second address, too; returns its local URL. Raises CommandError."""
    await _start(web.TCPSite(runner, host, port, backlog=_BACKLOG), host, port, "internal_url")
    return process.local_url(host, runner.addresses[-1][1])


async def _start(site: web.BaseSite, host: str, port: int, set_by: str) -> None:
    try:
        await site.start()
    except OSError as error:
        raise not_listened(host, port, error, set_by) from error


def lan_listening(application: web.Application, address: str, port: int) -> AbstractAsyncContextManager[str]:
    """Serve the application at an address of the local network, and yield its URL."""
    runner = runner_of(application, _LAN_SHUTDOWN_SECONDS)
    return listening(runner, address, port, "--port, or leave out --lan")


@asynccontextmanager
async def metrics_listening(metrics: web.Application, settings: Settings) -> AsyncIterator[None]:
    """Serve the metrics on their own port, if `metrics_port` is set."""
    if settings.metrics_port is None:
        yield
        return
    host = settings.metrics_host or settings.host
    runner = runner_of(metrics, _OPERATORS_SHUTDOWN_SECONDS)
    async with listening(runner, host, settings.metrics_port, "metrics_host and metrics_port") as url:
        log.info("metrics_listening", url=f"{url}/metrics")
        yield


@asynccontextmanager
async def console_listening(
    console: web.Application | None, settings: Settings, url: str, *, shares_port: bool = False
) -> AsyncIterator[str | None]:
    """Serve the console on its own port, if it has one; yield its URL, or None while it is off."""
    if console is None:
        yield f"{url}/console" if settings.console else None
        return
    runner = runner_of(console, _OPERATORS_SHUTDOWN_SECONDS)
    host, port, set_by = settings.console_host, settings.console_port or 0, "console_host and console_port"
    async with listening(runner, host, port, set_by, shares_port=shares_port) as own_url:
        log.info("console_listening", url=f"{own_url}/console")
        yield f"{own_url}/console"


def not_listened(host: str, port: int, error: OSError, set_by: str) -> CommandError:
    """The failure, in the system's own words: asyncio repeats the address in its text."""
    reason = error.strerror or str(error)
    if error.errno is not None and error.errno in errno.errorcode:
        reason = os.strerror(error.errno)
    return CommandError(f"cannot listen on {host} port {port} ({reason}): choose another with {set_by}")


# The text that `serve` prints on a terminal when the server is ready: its URLs and a first request.


def banner(url: str, settings: Settings) -> str:
    """The lines to print. `url` is the server's URL on its own machine."""
    own = settings.public_url or process.url_for_others(url, settings.host)
    chain = " (the node's chain)" if settings.node_url is not None else ""
    if settings.known_chain_id is not None:
        chain = f" (chain {settings.known_chain_id})"
    lines = [
        f"{version.NAME} {version.VERSION}",
        f"  bridge    {own}",
        f"  0.7       {own}{V07.path}",
        f"  wallet    {url}/rpc{chain}",
        f"  database  {settings.database_name}",
        f"  try       curl -X POST {url}/session/new",
        "  stop      Ctrl-C",
    ]
    if settings.dev_accounts:
        accounts = list(accounts_for_development(settings))
        are_published = "private_key" in accounts[0]
        lines += ["", f"Accounts for development{', and their private keys' if are_published else ''}:"]
        lines += ["  " + "  ".join(account.values()) for account in accounts]
        if are_published:
            lines.append("EVERYBODY KNOWS THESE KEYS: never send these accounts anything of value.")
    return "\n".join(lines)


def accounts_for_development(settings: Settings) -> Iterator[dict[str, str]]:
    """The addresses of development accounts, with their private keys if these are the published ones."""
    mnemonic = settings.dev_mnemonic.get_secret_value()
    for secret in development_secrets(mnemonic, settings.dev_account_count):
        key = {"private_key": hex_of(secret)} if mnemonic == DEVELOPMENT_MNEMONIC else {}
        yield {"address": SigningKey(secret).address, **key}
