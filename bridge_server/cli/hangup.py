"""SIGHUP: the server's terminal is gone, or somebody wants its settings to be read again."""

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
    """Whether SIGHUP stops this process. One that was started to outlive its terminal (nohup) goes on.

    To be asked at the start: a terminal that is gone cannot be recognised as one.
    """
    outlives_terminal = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return os.isatty(_STANDARD_INPUT) and not outlives_terminal


class Rereading:
    """Reads the settings again when asked to. `run_forever` must be running."""

    def __init__(self, live: LiveSettings, read: Callable[[], LoadedSettings]) -> None:
        self._live = live
        self._read = read
        self._asked = asyncio.Event()

    def ask(self) -> None:
        """Have them read again, soon; asking twice at once is asking once."""
        self._asked.set()

    async def run_forever(self) -> None:
        """Read whenever asked, until cancelled."""
        while True:
            await self._asked.wait()
            self._asked.clear()
            await self._read_again()

    async def _read_again(self) -> None:
        """Take what can be taken, and tell names and no values; a fault changes nothing."""
        try:
            loaded = await asyncio.to_thread(self._read)
            taken = self._live.take(loaded.settings)
        except SettingsError as error:
            log.error("settings_not_taken", reason="; ".join(str(error).splitlines()))
            return
        except Exception:  # the server must outlive whatever this was
            log.exception("settings_not_taken")
            return
        tell = log.warning if taken.needs_restart else log.info
        tell("settings_taken", changed=taken.changed, needs_restart=taken.needs_restart)
