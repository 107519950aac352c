"""`bridge-server serve`: start, say where, run until told to stop, leave nothing unfinished."""

import asyncio
import gc
import os
import signal
import sqlite3
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import structlog
from aiohttp import web

from bridge_server.app import build_app
from bridge_server.cli.options import CommandError, config_option, data_dir_option, loaded_settings
from bridge_server.cli.process import (
    notify_systemd,
    raise_descriptor_limit,
    ready_file_at,
    server_file_at,
    url_of,
)
from bridge_server.logs import configure_logs
from bridge_server.settings import LoadedSettings, Settings
from bridge_server.storage.data_directory import DataDirectoryError
from bridge_server.storage.migrate import NewerSchemaError
from bridge_server.version import NAME, VERSION
from bridge_server.web.application import runner_of

_BACKLOG = 4096
_ENOUGH_DESCRIPTORS = 5_500

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
@click.option("--access-log", is_flag=True, default=None, help="Log every request.")
@click.option(
    "--ready-file", type=click.Path(dir_okay=False, path_type=Path),
    help="Write a JSON object with url and pid here once the server answers.",
)  # fmt: skip
def serve_command(config_file: Path | None, ready_file: Path | None, **flags: Any) -> None:
    """Run the server."""
    loaded = loaded_settings(config_file, **flags)
    configure_logs(loaded.settings.log_level, loaded.settings.log_format)
    try:
        _mention_oddities(loaded)
        _event_loop_runner()(_serve(loaded.settings, ready_file))
    except (DataDirectoryError, NewerSchemaError, ValueError) as error:
        raise CommandError(str(error)) from error
    except sqlite3.Error as error:
        database = loaded.settings.database_file
        raise CommandError(f"the database {database} cannot be opened: {error}") from error
    except OSError as error:
        raise CommandError(f"{error.filename}: {error.strerror}") from error


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


async def _serve(settings: Settings, ready_file: Path | None) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    built = build_app(settings)
    async with (
        _listening(built.application, settings.host, settings.port) as url,
        _metrics_listening(built.metrics, settings),
    ):
        click.echo(_banner(url, settings))
        facts = _facts(url, settings)
        with server_file_at(settings.server_file, facts), ready_file_at(ready_file, facts):
            notify_systemd("READY=1")
            _calm_collector()
            await stop.wait()
            notify_systemd("STOPPING=1")


@asynccontextmanager
async def _metrics_listening(metrics: web.Application, settings: Settings) -> AsyncIterator[None]:
    if settings.metrics_port is None:
        yield
        return
    host = settings.metrics_host or settings.host
    async with _listening(metrics, host, settings.metrics_port) as url:
        log.info("metrics_listening", url=f"{url}/metrics")
        yield


@asynccontextmanager
async def _listening(application: web.Application, host: str, port: int) -> AsyncIterator[str]:
    """Serve the application and yield its URL; on leaving, answer what is under way and close everything."""
    runner = runner_of(application)
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


def _banner(url: str, settings: Settings) -> str:
    return "\n".join(
        (
            f"{NAME} {VERSION}",
            f"  bridge    {settings.public_url or url}",
            f"  wallet    {url}/rpc",
            f"  database  {settings.database_file}",
            f"  try       curl -X POST {url}/session/new",
            "  stop      Ctrl-C",
        )
    )
