"""Settings of the data directory, the database, the cache and the sweeper."""

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Self

from pydantic import Field, PositiveInt, model_validator

from bridge_server.settings.server import ServerSettings
from bridge_server.settings.types import Directory, Duration, PostgresUrl


def _default_data_dir() -> Path:
    state = os.environ.get("STATE_DIRECTORY")
    if state:
        return Path(state.split(":")[0])
    share = Path(os.environ.get("XDG_DATA_HOME", ""))
    return (share if share.is_absolute() else Path.home() / ".local" / "share") / "bridge-server"


class StorageSettings(ServerSettings, defer_build=True):
    """The data directory, and limits of stored and cached data."""

    data_dir: Directory = Field(
        default_factory=_default_data_dir,
        description="The directory of the database. Only its owner can read it (mode 0700).",
    )
    database: PostgresUrl | None = Field(
        None, description="The URL of a PostgreSQL database; by default the database is a file in `data_dir`."
    )
    database_direct: PostgresUrl | None = Field(
        None, description="Its URL without the pooler, if `database` names one."
    )
    database_limit: PositiveInt | None = Field(
        None, description="The largest size of the database, its log included; by default unlimited."
    )
    cache_bytes: PositiveInt = Field(32 * 2**20, description="Memory for cached answers.")
    sweep_interval: Duration = Field(60, description="Interval at which expired rows are deleted.")

    @model_validator(mode="after")
    def _postgresql_is_complete(self) -> Self:
        if self.database is None:
            if self.database_direct is not None:
                raise ValueError("database_direct: works beside database only: set database too")
            if self.processes > 1:
                raise ValueError(
                    "processes: the file in data_dir is for one process: set database to the URL of a "
                    "PostgreSQL database, which several share, or leave processes out"
                )
            return self
        if find_spec("asyncpg") is None:
            raise ValueError(
                "database: PostgreSQL needs a driver that is not installed: "
                'pip install "bridge-server[postgres]"'
            )
        if self.database_limit is not None:
            raise ValueError(
                "database_limit: limits the file in data_dir only: leave it out, and watch the size of the "
                "PostgreSQL database by its own means"
            )
        return self

    @property
    def server_file(self) -> Path:
        """The file with a running server's address, for commands."""
        return self.data_dir / "server.json"

    @property
    def database_file(self) -> Path:
        """The SQLite file; there is none with PostgreSQL."""
        return self.data_dir / "bridge.sqlite3"

    @property
    def database_name(self) -> str:
        """The database as messages name it: its file, or its URL without the password."""
        return str(self.database_file if self.database is None else self.database)
