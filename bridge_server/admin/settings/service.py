"""The settings of the running server, and whether it can do its work."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from bridge_server.kernel.errors import UnavailableError
from bridge_server.web.health import Readiness

ShownSettings: TypeAlias = Callable[[], Mapping[str, Mapping[str, Any]]]
"""Returns the settings that hold now by name, as they may be shown."""


@dataclass(frozen=True, slots=True)
class Report:
    """The settings; why the server is not ready (None: it is), and the faults that an operator must mend."""

    settings: Mapping[str, Mapping[str, Any]]
    failure: str | None
    troubles: Sequence[str]


class SettingsDesk:
    """Reads settings and readiness. A running server's settings are changed in its file, and by SIGHUP."""

    def __init__(self, shown: ShownSettings, readiness: Readiness) -> None:
        self._shown = shown
        self._readiness = readiness

    async def report(self) -> Report:
        """The settings and the readiness at this moment."""
        failure = await self._failure()
        return Report(self._shown(), failure, self._readiness.troubles())

    async def _failure(self) -> str | None:
        try:
            await self._readiness.check()
        except UnavailableError as error:
            return error.detail
        return None
