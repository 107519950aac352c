"""Settings of the server: addresses, storage, limits, logs, admin API, console, test mode."""

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, Field, PositiveInt, model_validator

from bridge_server.kernel.fields import is_loopback
from bridge_server.settings import types
from bridge_server.settings.types import HOUR, networks, setting

SERVER_FILE = "server.json"
"""The file of a running server in its data directory."""
DATABASE_FILE = "bridge.sqlite3"
"""The SQLite file in the data directory."""


class ServerSettings(BaseModel, defer_build=True):
    """The addresses of the server and of proxies in front of it."""

    host: types.Host = setting("127.0.0.1", "The address to listen on; 0.0.0.0 or :: for every one.")
    port: types.Port = setting(8080, "The port to listen on; 0 picks a free one.")
    public_url: types.Url | None = setting(
        None, "The URL at which clients reach this server; by default its own address."
    )
    trusted_proxies: types.Networks = setting((), "Proxies whose X-Forwarded-For is trusted.")
    internal_url: types.Url | None = setting(
        None,
        "The URL at which other processes on the PostgreSQL database reach this one; by default where it "
        "listens.",
    )
    processes: Annotated[int, Field(ge=1, le=64)] = setting(
        1, "Processes of this server on this machine; several need a PostgreSQL database."
    )
    drain_seconds: Annotated[float, Field(ge=0, le=HOUR)] = setting(
        0, "After SIGTERM, /readyz is 503 for this long before anything ends: for a load balancer."
    )

    @model_validator(mode="after")
    def _each_process_has_an_internal_port(self) -> Self:
        if self.processes > 1 and self.internal_url is not None and urlsplit(self.internal_url).port is None:
            raise ValueError(
                "internal_url: each of the processes listens at a port of its own: name the first one, as in "
                "http://10.0.0.5:9001"
            )
        return self

    @property
    def way_through_a_proxy(self) -> str | None:
        """The setting that shows that clients come through a proxy; None without one."""
        if self.trusted_proxies:
            return "trusted_proxies"
        public_host = urlsplit(self.public_url or "").hostname
        return "public_url" if public_host is not None and not is_loopback(public_host) else None


def _default_data_dir() -> Path:
    state = os.environ.get("STATE_DIRECTORY")
    if state:
        return Path(state.split(":")[0])
    share = Path(os.environ.get("XDG_DATA_HOME", ""))
    return (share if share.is_absolute() else Path.home() / ".local" / "share") / "bridge-server"


class StorageSettings(ServerSettings, defer_build=True):
    """The data directory, the database, the cache and the sweeper."""

    data_dir: types.Directory = Field(
        default_factory=_default_data_dir,
        description="The directory of the database. Only its owner can read it (mode 0700).",
    )
    database: types.PostgresUrl | None = setting(
        None, "The URL of a PostgreSQL database; by default the database is a file in `data_dir`."
    )
    database_direct: types.PostgresUrl | None = setting(
        None, "Its URL without the pooler, if `database` names one."
    )
    database_limit: PositiveInt | None = setting(
        None, "The largest size of the database, its log included; by default unlimited."
    )
    cache_bytes: PositiveInt = setting(32 * 2**20, "Memory for cached answers.")
    sweep_interval: types.Duration = setting(60, "Interval at which expired rows are deleted.")

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
        return self.data_dir / SERVER_FILE

    @property
    def database_file(self) -> Path:
        """The SQLite file; there is none with PostgreSQL."""
        return self.data_dir / DATABASE_FILE

    @property
    def database_name(self) -> str:
        """The database as messages name it: its file, or its URL without the password."""
        return str(self.database_file if self.database is None else self.database)


class WebSettings(BaseModel, defer_build=True):
    """Limits of a client address: requests, connections, unread bytes, and times."""

    quota_exempt: types.Networks = setting(
        networks("127.0.0.0/8,::1/128"), "Clients that no quota per address applies to."
    )
    requests_per_second: types.Rate = setting(100, "Requests per client address, in the long run.")
    requests_burst: types.Burst = setting(1000, "Requests per client address, at once.")
    max_wait: Annotated[PositiveInt, Field(le=300)] = setting(25, "The longest long poll.")
    max_address_connections: PositiveInt | None = setting(
        None, "Open connections per client address; by default a quarter of the open files."
    )
    head_timeout: types.Duration = setting(
        10, "A new connection without a request is closed after this time."
    )
    unread_timeout: types.Duration = setting(
        30, "A client that reads none of its answer for this long is cut off."
    )
    max_address_unread_bytes: PositiveInt = setting(
        32 * 2**20, "Bytes that wait in memory for the clients at one address to read them."
    )
    max_unread_bytes: PositiveInt = setting(64 * 2**20, "Bytes that wait in memory for clients to read them.")


class ReportingSettings(ServerSettings, defer_build=True):
    """The log and the metrics."""

    log_level: Literal["debug", "info", "warning", "error"] = setting(
        "info", "The lowest level that is logged."
    )
    log_format: Literal["auto", "console", "json"] = setting(
        "auto", "auto: console on a terminal, JSON otherwise."
    )
    access_log: bool = setting(False, "Log every request, not only errors and slow ones.")
    slow_request_seconds: types.Duration = setting(1.0, "A request that takes longer is logged.")
    metrics_port: types.Port | None = setting(None, "A separate port for /metrics.")
    metrics_host: types.Host | None = setting(
        None, "The address of metrics_port; by default the value of host."
    )
    metrics_token: types.Token | None = setting(
        None, "The bearer token of /metrics; without one, the main port has no /metrics."
    )
    metrics_token_previous: types.Token | None = setting(
        None, "The former metrics_token, which is accepted too while its bearers change."
    )

    @model_validator(mode="after")
    def _metrics_for_others_want_a_token(self) -> Self:
        if self.metrics_are_guarded and self.metrics_token is None:
            raise ValueError(
                f"metrics_port: others than this machine can reach {self._metrics_host}: set metrics_token, "
                "which they must then send, or listen on 127.0.0.1"
            )
        return self

    @property
    def metrics_are_guarded(self) -> bool:
        """Whether the port of the metrics asks for `metrics_token`, since others can reach it."""
        return self.metrics_port is not None and not is_loopback(self._metrics_host)

    @property
    def _metrics_host(self) -> str:
        return self.metrics_host or self.host


class AdminSettings(BaseModel, defer_build=True):
    """The admin API: authentication, and whether its bearer may sign."""

    admin_token: types.Token | None = setting(
        None, "The bearer token of the admin API; without one, there is no admin API."
    )
    admin_token_previous: types.Token | None = setting(
        None, "The former admin_token, which is accepted too while its bearers change."
    )
    admin_wallet: bool = setting(False, "The bearer of admin_token may approve, reject, unlock and lock.")
    traffic: bool | None = setting(
        None, "Keep the last requests in memory for the operator; by default if there is a console."
    )


class ConsoleSettings(ServerSettings, defer_build=True):
    """Whether there is a console, and its address."""

    console: bool = setting(False, "Pages for the operator at /console: on or off.")
    console_port: types.Port | None = setting(
        None, "A separate port for /console; by default it is on the server's port."
    )
    console_host: types.Host = setting("127.0.0.1", "The address of console_port.")

    @model_validator(mode="after")
    def _a_port_is_for_a_console(self) -> Self:
        if self.console_port is not None and not self.console:
            raise ValueError("console_port: the console is off: set console=on too, or leave the port out")
        return self


class TestModeSettings(ServerSettings, defer_build=True):
    """Whether tests control the server."""

    __test__ = False

    test: bool = setting(False, "Let tests control the server by the routes at /_test, on this machine only.")

    @model_validator(mode="after")
    def _tests_are_on_this_machine(self) -> Self:
        if self.test and self.processes > 1:
            raise ValueError("test: tests control one process: leave out processes, or test")
        if self.test and not is_loopback(self.host):
            raise ValueError(
                f"test: tests control the server, and host {self.host} is open to others than this machine: "
                "listen on 127.0.0.1, or leave it out"
            )
        if self.test and self.way_through_a_proxy is not None:
            raise ValueError(
                f"test: tests control the server, and {self.way_through_a_proxy} says that others than this "
                "machine come through a proxy: leave out one of the two"
            )
        return self
