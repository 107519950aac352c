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
    """Where data is stored, and how much of it."""

    data_dir: Directory = Field(
        default_factory=_default_data_dir,
        description="Where the database lives. For its owner alone (mode 0700).",
    )
    database_limit: PositiveInt | None = Field(
        None, description="The database may hold so many bytes, its log included; by default any number."
    )
    cache_bytes: PositiveInt = Field(32 * 2**20, description="Memory for what is read again and again.")
    sweep_interval: Duration = Field(60, description="How often expired things are deleted.")

    @property
    def server_file(self) -> Path:
        """Where a running server answers is written here, for commands."""
        return self.data_dir / "server.json"

    @property
    def database_file(self) -> Path:
        """The SQLite file."""
        return self.data_dir / "bridge.sqlite3"
