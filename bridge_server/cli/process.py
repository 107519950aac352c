"""The process and its environment: file descriptors, ready file, server file, systemd notification."""

import asyncio
import os
import resource
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import orjson
import structlog

from bridge_server.cli.options import CommandError

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
    """Keep a file with the facts as one JSON object during the block; it appears complete or not at all.

    Raises CommandError.
    """
    if path is None:
        yield
        return
    if path.exists() and not path.is_file():  # removing it at the end would remove a device
        raise CommandError(f"the ready file {path} is not a file: name another, or leave out --ready-file")
    try:
        _write(path, facts, 0o600 if is_secret else 0o666)
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
        _write(path, facts, 0o600)
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


def write_private(path: Path, content: bytes) -> None:
    """Write a file for its owner alone, which appears complete or not at all. Raises OSError."""
    _write_bytes(path, content, 0o600)


def _write(path: Path, facts: dict[str, Any], mode: int = 0o666) -> None:
    _write_bytes(path, orjson.dumps(facts), mode)


def _write_bytes(path: Path, content: bytes, mode: int) -> None:
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


async def notify_watchdog() -> None:
    """Tell the service manager that the event loop runs, twice in each WatchdogSec; return if it is not set.

    The service manager restarts a process that is silent for so long.
    """
    microseconds = os.environ.get("WATCHDOG_USEC", "")
    if not microseconds.isdecimal() or os.environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return
    while int(microseconds):
        notify_systemd("WATCHDOG=1")
        await asyncio.sleep(int(microseconds) / 2_000_000)


def notify_systemd(state: str) -> None:
    """Notify the service manager of a state, if there is one (the protocol sd_notify)."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.connect("\0" + address[1:] if address.startswith("@") else address)
            channel.sendall(state.encode())
    except OSError as error:
        log.warning("service_manager_not_told", state=state, error=str(error))
