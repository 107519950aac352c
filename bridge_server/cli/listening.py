"""The sockets on which a process listens: for the server, for metrics and for the console."""

import errno
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog
from aiohttp import web

from bridge_server.cli.options import CommandError
from bridge_server.cli.reachable_url import local_url
from bridge_server.settings.settings import Settings
from bridge_server.web.serving.application import runner_of

_BACKLOG = 4096
_OPERATORS_SHUTDOWN_SECONDS = 0.2
_LAN_SHUTDOWN_SECONDS = 2.0
_LAN_OPTIONS = "--port, or leave out --lan"
_METRICS_SETTINGS = "metrics_host and metrics_port"
_CONSOLE_SETTINGS = "console_host and console_port"

log = structlog.get_logger()


@asynccontextmanager
async def listening(
    runner: web.AppRunner, host: str, port: int, set_by: str, *, shares_port: bool = False
) -> AsyncIterator[str]:
    """Serve the application and yield its local URL; at the end finish open requests and close.

    With `shares_port` other processes listen at the address too. Raises CommandError if it cannot be used;
    `set_by` names the options that change it.
    """
    try:
        await runner.setup()
        await _start(
            web.TCPSite(runner, host, port, backlog=_BACKLOG, reuse_port=shares_port or None),
            host,
            port,
            set_by,
        )
        yield local_url(host, runner.addresses[0][1])
    finally:
        await runner.cleanup()


async def listen_beside(runner: web.AppRunner, host: str, port: int) -> str:
    """Serve what `listening` serves at a second address, too; returns its local URL. Raises CommandError."""
    await _start(web.TCPSite(runner, host, port, backlog=_BACKLOG), host, port, "internal_url")
    return local_url(host, runner.addresses[-1][1])


async def _start(site: web.TCPSite, host: str, port: int, set_by: str) -> None:
    try:
        await site.start()
    except OSError as error:
        raise CommandError(
            f"cannot listen on {host} port {port} ({_reason(error)}): choose another with {set_by}"
        ) from error


@asynccontextmanager
async def lan_listening(application: web.Application, address: str, port: int) -> AsyncIterator[str]:
    """Serve the application at an address of the local network, and yield its URL."""
    runner = runner_of(application, _LAN_SHUTDOWN_SECONDS)
    async with listening(runner, address, port, _LAN_OPTIONS) as url:
        yield url


@asynccontextmanager
async def metrics_listening(metrics: web.Application, settings: Settings) -> AsyncIterator[None]:
    """Serve the metrics on their own port, if `metrics_port` is set."""
    if settings.metrics_port is None:
        yield
        return
    host = settings.metrics_host or settings.host
    runner = runner_of(metrics, _OPERATORS_SHUTDOWN_SECONDS)
    async with listening(runner, host, settings.metrics_port, _METRICS_SETTINGS) as url:
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
    port = settings.console_port or 0
    async with listening(
        runner, settings.console_host, port, _CONSOLE_SETTINGS, shares_port=shares_port
    ) as own_url:
        log.info("console_listening", url=f"{own_url}/console")
        yield f"{own_url}/console"


def _reason(error: OSError) -> str:
    """The system's own words: asyncio repeats the address in its text."""
    if error.errno is not None and error.errno in errno.errorcode:
        return os.strerror(error.errno)
    return error.strerror or str(error)
