"""`bridge-server serve`: start, say where, run until told to stop, leave nothing unfinished."""

import asyncio
import gc
import os
import signal
import sqlite3
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import structlog
from aiohttp import web

from bridge_server.assembly.application import build_app
from bridge_server.assembly.wallet_accounts import keys_for_development
from bridge_server.cli.banner import banner
from bridge_server.cli.hangup import Rereading, hangup_stops
from bridge_server.cli.logs import configure_logs, set_log_level
from bridge_server.cli.options import (
    CommandError,
    config_option,
    data_dir_option,
    loaded_settings,
    reread_settings,
    set_option,
)
from bridge_server.cli.process import (
    notify_systemd,
    raise_descriptor_limit,
    ready_file_at,
    server_file_at,
    url_of,
)
from bridge_server.cli.running_server import DEVELOPMENT_ACCOUNTS
from bridge_server.kernel.background import running
from bridge_server.settings.settings import Settings
from bridge_server.settings.sources import LoadedSettings
from bridge_server.storage.data_directory import DataDirectoryError
from bridge_server.storage.migrate import NewerSchemaError
from bridge_server.version import VERSION
from bridge_server.web.application import runner_of

_BACKLOG = 4096
_ENOUGH_DESCRIPTORS = 5_500
_METRICS_SHUTDOWN_SECONDS = 0.2
_LAST_MOMENT_SECONDS = 1.0

log = structlog.get_logger()


@click.command("serve")
@click.option("--host", help="The address to listen on.  [default: 127.0.0.1]")
@click.option("--port", type=int, help="The port to listen on; 0 picks a free one.  [default: 8080]")
@data_dir_option
@config_option
@click.option("--public-url", help="How others reach this server.")
@click.option(
    "--allow-private-webhooks", is_flag=True, default=None,
    help="Call webhooks at private and loopback addresses too. For development.",
)  # fmt: skip
@click.option("--node-url", help="The Ethereum node's JSON-RPC endpoint, for the wallet.")
@click.option(
    "--dev-accounts", is_flag=True, default=None,
    help="Give the wallet accounts whose keys everybody knows. For development.",
)  # fmt: skip
@click.option("--chain-id", help="The wallet's chain.  [default: the node's]")
@click.option(
    "--rpc-origins", metavar="ORIGINS",
    help="Web pages that may call the wallet, such as http://localhost:3000, separated by commas.",
)  # fmt: skip
@set_option
@click.option("--access-log", is_flag=True, default=None, help="Log every request.")
@click.option(
    "--ready-file", type=click.Path(dir_okay=False, path_type=Path),
    help="Write a JSON object with url and pid here once the server answers.",
)  # fmt: skip
def serve_command(
    config_file: Path | None, ready_file: Path | None, assignments: tuple[str, ...], **flags: Any
) -> None:
    """Run the server."""
    loaded = loaded_settings(config_file, assignments, **flags)
    configure_logs(loaded.settings.log_level, loaded.settings.log_format)
    try:
        _mention_oddities(loaded)
        read_again = partial(reread_settings, config_file, assignments, **flags)
        with _nobody_to_wait_for() as all_is_closed:
            _event_loop_runner()(_serve(loaded.settings, ready_file, read_again, all_is_closed))
    except (DataDirectoryError, NewerSchemaError, ValueError) as error:
        raise CommandError(str(error)) from error
    except sqlite3.Error as error:
        database = loaded.settings.database_file
        raise CommandError(f"the database {database} cannot be opened: {error}") from error
    except OSError as error:
        where = "" if error.filename is None else f"{error.filename}: "
        raise CommandError(f"{where}{error.strerror or error}") from error


def _mention_oddities(loaded: LoadedSettings) -> None:
    for variable in loaded.unknown_variables:
        log.warning("unknown_setting", variable=variable)
    if loaded.settings.dev_accounts:
        log.warning(
            "development_accounts", advice="everybody knows their keys: never send them anything of value"
        )
    _mention_open_wallet(loaded.settings)
    descriptors = raise_descriptor_limit()
    if descriptors < _ENOUGH_DESCRIPTORS:
        log.warning(
            "few_file_descriptors", limit=descriptors, wanted=_ENOUGH_DESCRIPTORS,
            advice="each waiting client needs one: raise the hard limit (ulimit -Hn, LimitNOFILE=)",
        )  # fmt: skip


def _mention_open_wallet(settings: Settings) -> None:
    """A proxy that does not say that it is one makes everybody a caller on this machine."""
    way = settings.way_through_a_proxy
    if way is None or settings.rpc_token is not None or not settings.has_wallet:
        return
    log.warning(
        "wallet_without_token", because=way,
        advice="others come through a proxy, and from one that adds no X-Forwarded-For the wallet answers "
        "them all: set rpc_token",
    )  # fmt: skip


def _calm_collector() -> None:
    """What is loaded now stays, and requests leave little for the collector: it need not run so often."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def _event_loop_runner() -> Callable[[Coroutine[Any, Any, None]], None]:
    """uvloop where it is installed (the extra `fast`), else asyncio."""
    if find_spec("uvloop") is not None:
        run: Callable[[Coroutine[Any, Any, None]], None] = import_module("uvloop").run
        return run
    return asyncio.run


@contextmanager
def _nobody_to_wait_for() -> Iterator[Callable[[], None]]:
    """Hands out what is to be called once everything is closed: threads have only a moment after that.

    One may be in the middle of something long, such as the key of a passphrase.
    """
    timer = threading.Timer(_LAST_MOMENT_SECONDS, os._exit, (0,))
    timer.daemon = True
    try:
        yield timer.start
    finally:
        timer.cancel()


async def _serve(
    settings: Settings,
    ready_file: Path | None,
    read_again: Callable[[], LoadedSettings],
    all_is_closed: Callable[[], None],
) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    built = build_app(settings)
    built.live.follow(lambda live: set_log_level(live.log_level))
    rereading = Rereading(built.live, read_again)
    loop.add_signal_handler(signal.SIGHUP, stop.set if hangup_stops() else rereading.ask)
    with _told_to_log() as started:
        async with (
            running(rereading.run_forever()),
            _listening(runner_of(built.application), settings.host, settings.port) as url,
            _metrics_listening(built.metrics, settings),
        ):
            facts = _facts(url, settings)
            if sys.stdout.isatty():
                click.echo(banner(url, settings))
            started(facts)
            for_commands = {
                **facts,
                DEVELOPMENT_ACCOUNTS: [key.address for key in keys_for_development(settings)],
            }
            with server_file_at(settings.server_file, for_commands), ready_file_at(ready_file, facts):
                notify_systemd("READY=1")
                _calm_collector()
                await stop.wait()
                notify_systemd("STOPPING=1")
    all_is_closed()


@contextmanager
def _told_to_log() -> Iterator[Callable[[Mapping[str, Any]], None]]:
    """A function that logs the start; whoever has called it has the stop logged at the end of the block."""
    told: dict[str, Any] = {}

    def started(facts: Mapping[str, Any]) -> None:
        told.update(facts)
        log.info("server_started", **facts)

    try:
        yield started
    finally:
        if told:
            log.info("server_stopped", url=told["url"], pid=told["pid"])


@asynccontextmanager
async def _metrics_listening(metrics: web.Application, settings: Settings) -> AsyncIterator[None]:
    if settings.metrics_port is None:
        yield
        return
    host = settings.metrics_host or settings.host
    async with _listening(runner_of(metrics, _METRICS_SHUTDOWN_SECONDS), host, settings.metrics_port) as url:
        log.info("metrics_listening", url=f"{url}/metrics")
        yield


@asynccontextmanager
async def _listening(runner: web.AppRunner, host: str, port: int) -> AsyncIterator[str]:
    """Serve the application and yield its URL; on leaving, answer what is under way and close everything."""
    try:
        await runner.setup()
        site = web.TCPSite(runner, host, port, backlog=_BACKLOG)
        try:
            await site.start()
        except OSError as error:
            raise CommandError(
                f"cannot listen on {host} port {port} ({error.strerror or error}): "
                "name another with --host and --port"
            ) from error
        yield url_of(host, runner.addresses[0][1])
    finally:
        await runner.cleanup()


def _facts(url: str, settings: Settings) -> dict[str, Any]:
    return {
        "url": url,
        "pid": os.getpid(),
        "public_url": settings.public_url or url,
        "rpc_url": f"{url}/rpc",
        "database": str(settings.database_file),
        "version": VERSION,
    }
