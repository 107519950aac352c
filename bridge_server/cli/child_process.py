"""One process of `serve --processes`: forked, with a directory and an internal address of its own."""

import os
import signal
import sys
import traceback
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NoReturn
from urllib.parse import urlsplit

import click
import orjson

from bridge_server.cli.parent import Parent
from bridge_server.cli.serving import ServerRun, Started, run_server
from bridge_server.settings.settings import Settings
from bridge_server.settings.sources import LoadedSettings

_OF_THE_SERVICE_MANAGER = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
_LOOPBACK = "127.0.0.1"


@dataclass
class Child:
    """A process, and the pipe from which its parent reads the facts about it once it answers."""

    number: int
    pid: int
    pipe: int
    facts: Mapping[str, Any] | None = None

    def read_facts(self) -> None:
        """Take what the process has written; nothing if it has ended before it answered."""
        text = os.read(self.pipe, 65_536)
        os.close(self.pipe)
        self.pipe = -1
        if text:
            self.facts = orjson.loads(text)


def forked(run: ServerRun, number: int, port: int, leave_parent: Callable[[], None]) -> Child:
    """Start the process of this number, from 1. In it, `leave_parent` undoes what only the parent needs."""
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if not pid:
        os.close(reading)
        leave_parent()
        _serve(_run_of(run, number, port, writing))
    os.close(writing)
    return Child(number, pid, reading)


def _serve(run: ServerRun) -> NoReturn:
    code = 1
    try:
        run_server(run)
        code = 0
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except BaseException:  # whatever it is, a forked process must not go on with its parent's program
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _run_of(run: ServerRun, number: int, port: int, writing: int) -> ServerRun:
    for name in _OF_THE_SERVICE_MANAGER:
        os.environ.pop(name, None)
    signal.set_wakeup_fd(-1)
    own = partial(own_settings, number=number, port=port)
    return replace(
        run,
        settings=own(run.settings),
        reload=partial(_reloaded, run.reload, own),
        companion=partial(_reporting, writing),
        ready_file=None,
        parent=Parent(),
        internal_address=_internal_address(run.settings, number),
    )


def own_settings(settings: Settings, *, number: int, port: int) -> Settings:
    """The settings of all as the process of this number has them: a directory and ports of its own."""
    changes: dict[str, Any] = {
        "data_dir": settings.data_dir / str(number),
        "keystore_dir": settings.keystore,
        "port": port,
    }
    if settings.metrics_port:
        changes["metrics_port"] = settings.metrics_port + number - 1
    if settings.internal_url is not None:
        parts = urlsplit(settings.internal_url)
        host = settings.internal_url.removeprefix(f"{parts.scheme}://").rpartition(":")[0]
        changes["internal_url"] = f"{parts.scheme}://{host}:{_first_port(settings) + number - 1}"
    return settings.model_copy(update=changes)


def _internal_address(settings: Settings, number: int) -> tuple[str, int]:
    if settings.internal_url is None:
        return _LOOPBACK, 0
    host = urlsplit(settings.internal_url).hostname
    return host or _LOOPBACK, _first_port(settings) + number - 1


def _first_port(settings: Settings) -> int:
    port = urlsplit(settings.internal_url or "").port
    assert port is not None, "the settings have been checked"
    return port


def _reloaded(reload: Callable[[], LoadedSettings], own: Callable[[Settings], Settings]) -> LoadedSettings:
    loaded = reload()
    return replace(loaded, settings=own(loaded.settings))


@asynccontextmanager
async def _reporting(writing: int, server: Started) -> AsyncIterator[Mapping[str, Any]]:
    os.write(writing, orjson.dumps({**server.facts, "internal_url": server.internal_url}))
    os.close(writing)
    yield {}
