"""A server from its start to its clean end, as `serve` and `dev` run it."""

import asyncio
import os
import signal
import sqlite3
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

import structlog

from bridge_server.assembly.application import BuiltApp, build_app
from bridge_server.assembly.demo import DemoProject
from bridge_server.assembly.wallet_accounts import keys_for_development
from bridge_server.cli.hangup import SettingsReloader, hangup_stops
from bridge_server.cli.listening import console_listening, listen_beside, listening, metrics_listening
from bridge_server.cli.logs import set_log_level
from bridge_server.cli.options import CommandError, EndedItselfError
from bridge_server.cli.parent import Parent, stop_with
from bridge_server.cli.process import notify_systemd, notify_watchdog, ready_file_at, server_file_at
from bridge_server.cli.reachable_url import url_for_others
from bridge_server.cli.running_server import CONSOLE_URL, DEVELOPMENT_ACCOUNTS
from bridge_server.cli.stop_signals import stop_at_signals
from bridge_server.kernel.background import running
from bridge_server.kernel.errors import UnavailableError
from bridge_server.kernel.garbage import collect_less_often, garbage_left_alone
from bridge_server.settings.settings import Settings
from bridge_server.settings.sources import LoadedSettings
from bridge_server.storage.data_directory import DataDirectoryError
from bridge_server.storage.migrate import NewerSchemaError
from bridge_server.storage.refusal import DatabaseRefusedError
from bridge_server.version import VERSION
from bridge_server.web.serving.application import runner_of

_EXIT_SECONDS = 1.0
_STOP_SECONDS = 10.0
"""The longest that a stop takes, the drain before it not counted."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Started:
    """A server that answers: its URL on its own machine, and the facts that its files have."""

    built: BuiltApp
    settings: Settings
    url: str
    internal_url: str
    """The URL at which other processes reach it."""
    facts: Mapping[str, Any]


Companion: TypeAlias = Callable[[Started], AbstractAsyncContextManager[Mapping[str, Any]]]
"""Entered once the server answers, and left when it stops; yields further facts for the ready file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerRun:
    """A server as a command wants it."""

    settings: Settings
    origins: Mapping[str, str]
    """The source of each setting."""
    reload: Callable[[], LoadedSettings]
    """Loads the settings again, at SIGHUP."""
    companion: Companion
    ready_file: Path | None = None
    parent: Parent | None = None
    """The process with which the server stops."""
    demo: DemoProject | None = None
    logs_start: bool = True
    address_options: str = "--host and --port"
    """The options that change where it listens, as a message names them."""
    internal_address: tuple[str, int] | None = None
    """The address at which it listens for other processes, if it shares its port with them."""
    abandon: Callable[[], None] | None = None
    """Called before the process exits without coming back to the command, to remove its files. With
    it, a second Ctrl-C ends the process at once.
    """


def run_server(run: ServerRun) -> None:
    """Run until a signal, and shut down cleanly. Raises CommandError if the server cannot start."""
    try:
        with _exit_deadline(run.abandon) as start_deadline:
            reason = _event_loop_runner()(_serve(run, start_deadline))
    except (DataDirectoryError, DatabaseRefusedError, NewerSchemaError, ValueError) as error:
        raise CommandError(str(error)) from error
    except UnavailableError as error:
        raise CommandError(f"while the server started or stopped: {error.detail}") from error
    except sqlite3.Error as error:
        database = run.settings.database_name
        raise CommandError(f"the database {database} cannot be opened: {error}") from error
    except OSError as error:
        where = "" if error.filename is None else f"{error.filename}: "
        raise CommandError(f"{where}{error.strerror or error}") from error
    if reason is not None:
        raise EndedItselfError(reason)


def _event_loop_runner() -> Callable[[Coroutine[Any, Any, str | None]], str | None]:
    """The function that runs the event loop: uvloop if it is installed (the extra `fast`), else asyncio."""
    if find_spec("uvloop") is not None:
        run: Callable[[Coroutine[Any, Any, str | None]], str | None] = import_module("uvloop").run
        return run
    return asyncio.run


@contextmanager
def _exit_deadline(abandon: Callable[[], None] | None) -> Iterator[Callable[[], None]]:
    """Yield a function that starts a deadline, after which the process exits whatever its threads do.

    A thread may be in a long computation, such as deriving the key of a passphrase.
    """

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


async def _serve(run: ServerRun, start_deadline: Callable[[], None]) -> str | None:
    """Serve until the stop; returns the reason if the server has ended itself."""
    settings, stop, stop_now = run.settings, asyncio.Event(), asyncio.Event()
    stop_at_signals(stop, run.abandon, stop_now)
    with garbage_left_alone():
        built = build_app(settings, demo=run.demo, origins=run.origins)
    built.live.follow(lambda live: set_log_level(live.log_level))
    reloader = SettingsReloader(built.live, run.reload)
    on_hangup = stop.set if hangup_stops() else reloader.request
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, on_hangup)
    runner, shares_port = runner_of(built.application), run.internal_address is not None
    with _start_and_stop_logged(is_on=run.logs_start) as started:
        async with (
            running(reloader.run_forever()),
            running(stop_with(run.parent, stop)),
            running(_stop_when_wanted(built, stop)),
            running(notify_watchdog()),
            listening(
                runner, settings.host, settings.port, run.address_options, shares_port=shares_port
            ) as url,
            metrics_listening(built.metrics, settings),
            console_listening(built.console, settings, url, shares_port=shares_port) as console_url,
        ):
            internal = run.internal_address
            internal_url = url if internal is None else await listen_beside(runner, *internal)
            built.announce_url(internal_url)
            facts = _facts(url, console_url, settings)
            await _serve_until(
                stop, stop_now, run, Started(built, settings, url, internal_url, facts), started
            )
    start_deadline()
    return built.stopping.reason


async def _stop_when_wanted(built: BuiltApp, stop: asyncio.Event) -> None:
    await built.stopping.wanted()
    log.error("server_ends_itself", reason=built.stopping.reason)
    stop.set()


async def _drain(built: BuiltApp, seconds: float, stop_now: asyncio.Event) -> None:
    """Answer requests for so long while /readyz refuses, or until a further signal."""
    built.announce_stop()
    if not seconds:
        return
    log.info("draining", seconds=seconds)
    notify_systemd(f"EXTEND_TIMEOUT_USEC={int((seconds + _STOP_SECONDS) * 1_000_000)}")
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stop_now.wait()


async def _serve_until(
    stop: asyncio.Event,
    stop_now: asyncio.Event,
    run: ServerRun,
    server: Started,
    started: Callable[[Mapping[str, Any]], None],
) -> None:
    """Keep the files about the server while it answers."""
    settings, facts = server.settings, server.facts
    token = server.built.test_token
    secrets = {} if token is None else {"test_token": token}
    addresses = [key.address for key in keys_for_development(settings)]
    for_commands = {**facts, **secrets, DEVELOPMENT_ACCOUNTS: addresses}
    async with run.companion(server) as further:
        started(_logged_facts(facts, settings))
        is_secret = bool(secrets or further)
        with (
            server_file_at(settings.server_file, for_commands),
            ready_file_at(run.ready_file, {**facts, **secrets, **further}, is_secret=is_secret),
        ):
            notify_systemd("READY=1")
            collect_less_often()
            await stop.wait()
            notify_systemd("STOPPING=1")
            await _drain(server.built, settings.drain_seconds, stop_now)


@contextmanager
def _start_and_stop_logged(*, is_on: bool) -> Iterator[Callable[[Mapping[str, Any]], None]]:
    """Yield a function that logs the start. If it was called, the end of the block logs the stop."""
    logged: dict[str, Any] = {}

    def started(facts: Mapping[str, Any]) -> None:
        if is_on:
            logged.update(facts)
            log.info("server_started", **facts)

    try:
        yield started
    finally:
        if logged:
            log.info("server_stopped", url=logged["url"], pid=logged["pid"])


def _facts(url: str, console_url: str | None, settings: Settings) -> dict[str, Any]:
    """The content of the ready file and the server file, for programs on this machine."""
    return {
        "url": url,
        "pid": os.getpid(),
        "public_url": settings.public_url or url,
        "rpc_url": f"{url}/rpc",
        "database": settings.database_name,
        "version": VERSION,
        **({} if console_url is None else {CONSOLE_URL: console_url}),
    }


def _logged_facts(facts: Mapping[str, Any], settings: Settings) -> dict[str, Any]:
    """The fields of the event `server_started`: a log is also read on other machines."""
    url = url_for_others(facts["url"], settings.host)
    return {**facts, "host": settings.host, "url": url, "public_url": settings.public_url or url}
