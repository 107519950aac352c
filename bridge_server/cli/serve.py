"""`bridge-server serve`: start the server, announce its URL, run until a signal, shut down cleanly."""

import asyncio
import gc
import os
import signal
import sqlite3
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import structlog

from bridge_server.assembly.application import build_app
from bridge_server.assembly.wallet_accounts import keys_for_development
from bridge_server.cli.banner import banner
from bridge_server.cli.hangup import SettingsReloader, hangup_stops
from bridge_server.cli.listening import console_listening, listening, metrics_listening
from bridge_server.cli.logs import configure_logs, set_log_level
from bridge_server.cli.options import (
    CommandError,
    config_option,
    data_dir_option,
    loaded_settings,
    reread_settings,
    set_option,
)
from bridge_server.cli.parent import Parent, stop_with
from bridge_server.cli.process import (
    notify_systemd,
    raise_descriptor_limit,
    ready_file_at,
    server_file_at,
)
from bridge_server.cli.reachable_url import url_for_others
from bridge_server.cli.running_server import CONSOLE_URL, DEVELOPMENT_ACCOUNTS
from bridge_server.kernel.background import running
from bridge_server.settings.settings import Settings
from bridge_server.settings.sources import LoadedSettings
from bridge_server.storage.data_directory import DataDirectoryError
from bridge_server.storage.migrate import NewerSchemaError
from bridge_server.version import VERSION
from bridge_server.web.serving.application import runner_of

_ENOUGH_DESCRIPTORS = 5_500
_EXIT_SECONDS = 1.0

log = structlog.get_logger()


@click.command("serve")
@click.option("--host", help="The address to listen on; 0.0.0.0 or :: for all.  [default: 127.0.0.1]")
@click.option("--port", type=int, help="The port to listen on; 0 picks a free one.  [default: 8080]")
@data_dir_option
@config_option
@click.option("--public-url", help="The URL at which other machines reach this server.")
@click.option(
    "--allow-private-webhooks", is_flag=True, default=None,
    help="Allow webhooks at private and loopback addresses. For development.",
)  # fmt: skip
@click.option("--node-url", help="The JSON-RPC URL of the wallet's Ethereum node.")
@click.option(
    "--dev-accounts", is_flag=True, default=None,
    help="Give the wallet accounts with published private keys. For development.",
)  # fmt: skip
@click.option("--chain-id", help="The chain id of the wallet.  [default: the node's]")
@click.option(
    "--rpc-origins", metavar="ORIGINS",
    help="Origins of web pages that may call the wallet, such as http://localhost:3000,https://a.example.",
)  # fmt: skip
@click.option(
    "--test", is_flag=True, default=None,
    help="Let tests control the server by the routes at /_test. On this machine only.",
)  # fmt: skip
@set_option
@click.option(
    "--access-log", is_flag=True, default=None, help="Log every request, not only errors and slow ones."
)
@click.option(
    "--ready-file", type=click.Path(dir_okay=False, path_type=Path),
    help="Once the server is ready, write a JSON object with its url and pid to this file.",
)  # fmt: skip
@click.option(
    "--stop-with-parent", is_flag=True, help="Stop when the process that started the server has ended."
)
def serve_command(
    config_file: Path | None,
    ready_file: Path | None,
    stop_with_parent: bool,
    assignments: tuple[str, ...],
    **flags: Any,
) -> None:
    """Run the server."""
    parent = Parent() if stop_with_parent else None
    loaded = loaded_settings(config_file, assignments, **flags)
    configure_logs(loaded.settings.log_level, loaded.settings.log_format)
    try:
        _log_warnings(loaded)
        reload = partial(reread_settings, config_file, assignments, **flags)
        with _exit_deadline() as start_deadline:
            _event_loop_runner()(_serve(loaded.settings, ready_file, parent, reload, start_deadline))
    except (DataDirectoryError, NewerSchemaError, ValueError) as error:
        raise CommandError(str(error)) from error
    except sqlite3.Error as error:
        database = loaded.settings.database_file
        raise CommandError(f"the database {database} cannot be opened: {error}") from error
    except OSError as error:
        where = "" if error.filename is None else f"{error.filename}: "
        raise CommandError(f"{where}{error.strerror or error}") from error


def _log_warnings(loaded: LoadedSettings) -> None:
    """Log settings that are probably mistakes or that make the server less safe."""
    for variable in loaded.unknown_variables:
        log.warning("unknown_setting", variable=variable)
    if loaded.settings.dev_accounts:
        log.warning(
            "development_accounts", advice="everybody knows their keys: never send them anything of value"
        )
    if loaded.settings.test:
        log.warning("test_mode", advice="tests can empty this server: never keep anything of value in it")
    _warn_of_open_wallet(loaded.settings)
    descriptors = raise_descriptor_limit()
    if descriptors < _ENOUGH_DESCRIPTORS:
        log.warning(
            "few_file_descriptors", limit=descriptors, wanted=_ENOUGH_DESCRIPTORS,
            advice="each waiting client needs one: raise the hard limit (ulimit -Hn, LimitNOFILE=)",
        )  # fmt: skip


def _warn_of_open_wallet(settings: Settings) -> None:
    """Warn that a proxy without X-Forwarded-For makes every client look like one on this machine."""
    way = settings.way_through_a_proxy
    if way is None or settings.rpc_token is not None or not settings.has_wallet:
        return
    log.warning(
        "wallet_without_token", because=way,
        advice="clients come through a proxy; if it adds no X-Forwarded-For, the wallet answers all of "
        "them: set rpc_token",
    )  # fmt: skip


def _collect_less_often() -> None:
    """Run the garbage collector less often: loaded modules stay, and requests leave few reference cycles."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def _event_loop_runner() -> Callable[[Coroutine[Any, Any, None]], None]:
    """The function that runs the event loop: uvloop if it is installed (the extra `fast`), else asyncio."""
    if find_spec("uvloop") is not None:
        run: Callable[[Coroutine[Any, Any, None]], None] = import_module("uvloop").run
        return run
    return asyncio.run


@contextmanager
def _exit_deadline() -> Iterator[Callable[[], None]]:
    """Yield a function that starts a deadline, after which the process exits whatever its threads do.

    A thread may be in a long computation, such as deriving the key of a passphrase.
    """
    timer = threading.Timer(_EXIT_SECONDS, os._exit, (0,))
    timer.daemon = True
    try:
        yield timer.start
    finally:
        timer.cancel()


async def _serve(
    settings: Settings,
    ready_file: Path | None,
    parent: Parent | None,
    reload: Callable[[], LoadedSettings],
    start_deadline: Callable[[], None],
) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    built = build_app(settings)
    built.live.follow(lambda live: set_log_level(live.log_level))
    reloader = SettingsReloader(built.live, reload)
    loop.add_signal_handler(signal.SIGHUP, stop.set if hangup_stops() else reloader.request)
    with _start_and_stop_logged() as started:
        async with (
            running(reloader.run_forever()),
            running(stop_with(parent, stop)),
            listening(runner_of(built.application), settings.host, settings.port) as url,
            metrics_listening(built.metrics, settings),
            console_listening(built.console, settings, url) as console_url,
        ):
            facts = _facts(url, settings) | ({} if console_url is None else {CONSOLE_URL: console_url})
            secrets = {} if built.test_token is None else {"test_token": built.test_token}
            if sys.stdout.isatty():
                click.echo(banner(url, settings))
            started(_logged_facts(facts, settings))
            for_commands = {
                **facts,
                **secrets,
                DEVELOPMENT_ACCOUNTS: [key.address for key in keys_for_development(settings)],
            }
            with (
                server_file_at(settings.server_file, for_commands),
                ready_file_at(ready_file, {**facts, **secrets}, is_secret=bool(secrets)),
            ):
                notify_systemd("READY=1")
                _collect_less_often()
                await stop.wait()
                notify_systemd("STOPPING=1")
    start_deadline()


@contextmanager
def _start_and_stop_logged() -> Iterator[Callable[[Mapping[str, Any]], None]]:
    """Yield a function that logs the start. If it was called, the end of the block logs the stop."""
    logged: dict[str, Any] = {}

    def started(facts: Mapping[str, Any]) -> None:
        logged.update(facts)
        log.info("server_started", **facts)

    try:
        yield started
    finally:
        if logged:
            log.info("server_stopped", url=logged["url"], pid=logged["pid"])


def _facts(url: str, settings: Settings) -> dict[str, Any]:
    """The content of the ready file and the server file, for programs on this machine."""
    return {
        "url": url,
        "pid": os.getpid(),
        "public_url": settings.public_url or url,
        "rpc_url": f"{url}/rpc",
        "database": str(settings.database_file),
        "version": VERSION,
    }


def _logged_facts(facts: Mapping[str, Any], settings: Settings) -> dict[str, Any]:
    """The fields of the event `server_started`: a log is also read on other machines."""
    url = url_for_others(facts["url"], settings.host)
    return {**facts, "host": settings.host, "url": url, "public_url": settings.public_url or url}
