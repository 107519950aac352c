"""Settings of the data directory, the database, the cache and the sweeper."""

import os
from pathlib import Path

from pydantic import BaseModel, Field, PositiveInt

from bridge_server.settings.types import Directory, Duration


def _default_data_dir() -> Path:
    state = os.environ.get("STATE_DIRECTORY")
    if state:
        return Path(state.split(":")[0])
    share = Path(os.environ.get("XDG_DATA_HOME", ""))
    return (share if share.is_absolute() else Path.home() / ".local" / "share") / "bridge-server"


class StorageSettings(BaseModel, defer_build=True):
    """The data directory, and limits of stored and cached data."""

    data_dir: Directory = Field(
        default_factory=_default_data_dir,
        description="The directory of the database. Only its owner can read it (mode 0700).",
    )
    database_limit: PositiveInt | None = Field(
        None, description="The largest size of the database, its log included; by default unlimited."
    )
    cache_bytes: PositiveInt = Field(32 * 2**20, description="Memory for cached answers.")
    sweep_interval: Duration = Field(60, description="Interval at which expired rows are deleted.")

    @property
    def server_file(self) -> Path:
        """The file with a running server's address, for commands."""
        return self.data_dir / "server.json"

    @property
    def database_file(self) -> Path:
        """The SQLite file."""
        return self.data_dir / "bridge.sqlite3"
