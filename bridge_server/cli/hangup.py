"""SIGHUP: the terminal was closed, or the operator asks the server to reload its settings."""

import asyncio
import os
import signal
from collections.abc import Callable

import structlog

from bridge_server.settings.live import LiveSettings
from bridge_server.settings.sources import LoadedSettings, SettingsError

_STANDARD_INPUT = 0

log = structlog.get_logger()


def hangup_stops() -> bool:
    """Whether SIGHUP stops this process: it does on a terminal, unless SIGHUP is ignored (nohup).

    Call this at the start: a closed terminal cannot be recognised as a terminal.
    """
    outlives_terminal = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return os.isatty(_STANDARD_INPUT) and not outlives_terminal


class SettingsReloader:
    """Reloads the settings on request. `run_forever` must be running."""

    def __init__(self, live: LiveSettings, read: Callable[[], LoadedSettings]) -> None:
        self._live = live
        self._read = read
        self._requested = asyncio.Event()

    def request(self) -> None:
        """Request a reload. Requests that come before it starts are merged into one."""
        self._requested.set()

    async def run_forever(self) -> None:
        """Reload at each request, until cancelled."""
        while True:
            await self._requested.wait()
            self._requested.clear()
            await self._reload()

    async def _reload(self) -> None:
        """Apply what can change without a restart, and log names without values. A fault changes nothing."""
        try:
            loaded = await asyncio.to_thread(self._read)
            taken = self._live.take(loaded.settings, loaded.origins)
        except SettingsError as error:
            log.error("settings_not_taken", reason="; ".join(str(error).splitlines()))
            return
        except Exception:  # a failed reload must not stop the server
            log.exception("settings_not_taken")
            return
        write = log.warning if taken.needs_restart else log.info
        write("settings_taken", changed=taken.changed, needs_restart=taken.needs_restart)
