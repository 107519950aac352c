"""The arguments of every check of the doctor."""

from dataclasses import dataclass
from pathlib import Path

from bridge_server.settings.settings import Settings
from bridge_server.settings.sources import LoadedSettings


@dataclass(frozen=True, slots=True)
class Examination:
    """The settings with their sources, the running server's URL (None: none runs), and whether to mend."""

    loaded: LoadedSettings
    config_file: Path | None
    url: str | None
    fixes: bool
    now_ms: int

    @property
    def settings(self) -> Settings:
        """The settings that the server would have at its next start."""
        return self.loaded.settings
