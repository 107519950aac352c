"""What a process owes its surroundings: file descriptors, a ready file, a word to systemd."""

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
    """Raise the soft limit of open files as far as allowed; returns what it is then."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _WANTED_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(_WANTED_DESCRIPTORS, hard)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return soft


@contextmanager
def ready_file_at(path: Path | None, facts: dict[str, Any]) -> Iterator[None]:
    """Keep the facts there as one JSON object; a reader sees the whole of it or no file.

    Raises CommandError.
    """
    if path is None:
        yield
        return
    if path.exists() and not path.is_file():  # a device would be gone when the server stops
        raise CommandError(f"the ready file {path} is no file: name one, or none")
    try:
        _write(path, facts)
    except OSError as error:
        raise CommandError(f"the ready file {path} cannot be written: {error.strerror or error}") from error
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


@contextmanager
def server_file_at(path: Path, facts: dict[str, Any]) -> Iterator[None]:
    """Keep the facts for commands, readable by the owner alone. Without the file the server goes on."""
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
    """The facts that a server left there; None when there are none."""
    try:
        facts = orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return None
    return facts if isinstance(facts, dict) else None


def _write(path: Path, facts: dict[str, Any], mode: int = 0o666) -> None:
    partial = path.with_name(f"{path.name}.partial")
    partial.unlink(missing_ok=True)
    try:
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, mode), "wb") as stream:
            stream.write(orjson.dumps(facts))
        partial.replace(path)
    except OSError:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise


def notify_systemd(state: str) -> None:
    """Tell the service manager, if there is one (sd_notify)."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.connect("\0" + address[1:] if address.startswith("@") else address)
            channel.sendall(state.encode())
    except OSError as error:
        log.warning("service_manager_not_told", state=state, error=str(error))


def url_of(host: str, port: int) -> str:
    """Where this machine reaches what listens there."""
    reachable = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - it is only read here
    return f"http://[{reachable}]:{port}" if ":" in reachable else f"http://{reachable}:{port}"
