"""The errors of a server whose PostgreSQL database cannot be used, at its start or later.

White-box: no machine has a server of PostgreSQL that is too old, so the oldest one is moved.
"""

import asyncio
import socket
import ssl
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import asyncpg
import pytest

from bridge_server.assembly.command_line import operations
from bridge_server.settings.settings import Settings
from bridge_server.storage.database import DatabaseAwayError, DatabaseRefusedError
from bridge_server.storage.migrate import NewerSchemaError
from bridge_server.storage.postgres import failures as refusals
from tests.support.asking import ask
from tests.support.command import run_command
from tests.support.postgres import PostgresServer, connected, make_rooms, needs_postgres
from tests.support.postgres_cluster import PostgresCluster
from tests.support.rows import each_row
from tests.support.server import RunningServer, running_server
from tests.support.waiting import eventually

pytestmark = needs_postgres


@pytest.fixture
async def bare(postgres: PostgresServer) -> str:
    """A database without tables."""
    return await postgres.bare_database("refusals")


async def refusal_of(url: str, tmp_path: Path) -> str:
    """The error of a server that is started on the database, which must be one line."""
    with pytest.raises((DatabaseRefusedError, NewerSchemaError)) as caught:
        async with running_server(tmp_path / "data", database=url):
            pass
    said = str(caught.value)
    assert "\n" not in said
    return said


async def test_a_server_makes_the_tables_and_a_command_does_not(bare: str, tmp_path: Path) -> None:
    with pytest.raises(DatabaseRefusedError, match="has no tables: start the server"):
        async with operations(Settings(data_dir=tmp_path, database=bare), may_create=False):
            pass

    async with running_server(tmp_path / "data", database=bare) as server:
        await server.open_session()

    async with connected(bare) as connection:
        others = "datname = current_database() AND pid <> pg_backend_pid()"

        async def all_closed() -> bool:
            return not await connection.fetchval(f"SELECT count(*) FROM pg_stat_activity WHERE {others}")

        await eventually(all_closed)
        assert await connection.fetchval("SELECT count(*) FROM sessions") == 1


async def test_no_server_there(tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"postgresql://bridge:sesame@127.0.0.1:{unused.getsockname()[1]}/bridge"
        said = await refusal_of(url, tmp_path)
    assert "cannot be reached" in said
    assert "start it, or correct the host and the port" in said
    assert "sesame" not in said


async def test_permissions_and_connections(postgres: PostgresServer, bare: str, tmp_path: Path) -> None:
    url = bare.replace("bridge@", "weak@", 1)
    async with connected(postgres.url) as wire, connected(bare) as owner:
        await wire.execute("DROP ROLE IF EXISTS weak")
        await wire.execute("CREATE ROLE weak LOGIN CONNECTION LIMIT 20")
        await owner.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
        said = await refusal_of(url, tmp_path)
        assert "permission denied" in said
        assert "must be allowed to create tables" in said
        await wire.execute("ALTER ROLE weak CONNECTION LIMIT 2")
        said = await refusal_of(url, tmp_path)
        assert "allows 2 connections, and each process of the server needs 9" in said
        await wire.execute("DROP ROLE weak")


async def test_newer_schema_or_old_server(bare: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with connected(bare) as connection:
        await make_rooms(connection)
        await connection.execute("INSERT INTO schema_versions VALUES (9999, 9999, 0)")
    assert "schema version 9999" in await refusal_of(bare, tmp_path)
    monkeypatch.setattr(refusals, "_OLDEST_SERVER", 99)
    assert "99 is the oldest that works: upgrade its server" in await refusal_of(bare, tmp_path)


async def test_another_encoding(postgres: PostgresServer, tmp_path: Path) -> None:
    async with connected(postgres.url) as connection:
        await connection.execute("DROP DATABASE IF EXISTS ascii")
        await connection.execute(
            "CREATE DATABASE ascii TEMPLATE template0 ENCODING 'SQL_ASCII' LOCALE_PROVIDER libc LOCALE 'C'"
        )
        try:
            said = await refusal_of(postgres.url_of("ascii"), tmp_path)
        finally:
            await connection.execute("DROP DATABASE ascii")
    assert "is encoded as SQL_ASCII: create it anew" in said


@each_row(
    ("error", "said", "passes"),
    [
        (asyncpg.InvalidPasswordError("password authentication failed"), "refuses the login", False),
        (asyncpg.InvalidCatalogNameError("database does not exist"), "is not there", False),
        (asyncpg.ProtocolViolationError("unsupported startup parameter: jit"), "refuses settings", False),
        (asyncpg.exceptions.ClientConfigurationError("bad sslmode"), "correct `database`", False),
        (ssl.SSLCertVerificationError("self-signed certificate"), "fails the TLS handshake", False),
        (ConnectionError('PostgreSQL server at "db:5432" rejected SSL upgrade'), "has no TLS", False),
        (asyncpg.TooManyConnectionsError("sorry, too many clients already"), "has no free connection", True),
        (asyncpg.CannotConnectNowError("the database system is starting up"), "try again shortly", True),
        (asyncpg.ReadOnlySQLTransactionError("cannot execute INSERT"), "only reads", True),
        (asyncpg.AdminShutdownError("terminating connection"), "cannot be used", True),
        (asyncpg.ConnectionDoesNotExistError("connection was closed"), "ended the connection", True),
        (asyncpg.InterfaceError("connection is closed"), "ended the connection", True),
        (asyncpg.ProtocolViolationError("server login has been failing"), "behind a pooler", True),
        (ssl.SSLEOFError("EOF occurred"), "ended the connection", True),
        (refusals.StandbyError(), "is a standby", True),
        (ConnectionRefusedError(111, "Connection refused"), "cannot be reached", True),
        (TimeoutError(), "does not answer", True),
    ],
)
def test_errors_of_server_and_network_have_texts(error: Exception, said: str, passes: bool) -> None:
    with (
        pytest.raises(DatabaseRefusedError, match=said) as caught,
        refusals.refusals_explained("postgresql://b:c@h/d"),
    ):
        raise error
    assert isinstance(caught.value, DatabaseAwayError) is passes


def test_copies_of_the_file_are_refused(tmp_path: Path) -> None:
    environment = {"BRIDGE_DATABASE": "postgresql://bridge@127.0.0.1:1/bridge"}
    for command, instead in (("backup", "pg_dump"), ("restore", "pg_restore")):
        finished = run_command(
            command, tmp_path / "file", "--data-dir", tmp_path / "data", environment=environment
        )
        assert (finished.exit_code, instead in finished.err) == (2, True), command


async def test_config_check_and_doctor_connect(bare: str, tmp_path: Path) -> None:
    def run(*arguments: str) -> Any:
        return run_command(*arguments, "--data-dir", tmp_path, environment={"BRIDGE_DATABASE": bare})

    checked = await asyncio.to_thread(run, "config", "check")
    examined = await asyncio.to_thread(run, "doctor")

    assert (checked.exit_code, checked.err) == (0, "")
    assert f"host={parse_qs(urlsplit(bare).query)['host'][0]}" in checked.out
    assert any("database" in line and "answers" in line for line in examined.out.splitlines())


async def test_a_server_without_its_database_stops(cluster: PostgresCluster, tmp_path: Path) -> None:
    async with asyncio.timeout(120):
        async with running_server(tmp_path / "data", database=cluster.url()) as server:
            await server.open_session()
            await asyncio.to_thread(cluster.stop, "immediate")
        assert not cluster.is_running


async def until_readiness(server: RunningServer, status: int, said: bytes) -> None:
    async def is_said() -> bool:
        answer = await ask(server, "GET", "/readyz")
        assert b"sesame" not in answer.body
        return answer.status == status and said in answer.body and b"\nbut " not in answer.body

    await eventually(is_said)


async def test_a_standby_is_named_and_serves_once_promoted(cluster: PostgresCluster, tmp_path: Path) -> None:
    with (cluster.data / "postgresql.conf").open("a") as options:
        options.write("wal_level = replica\n")
    await asyncio.to_thread(cluster.stop)
    await asyncio.to_thread(cluster.start)
    async with running_server(tmp_path / "data", database=cluster.url()) as server:
        await server.open_session()
        await asyncio.to_thread(cluster.stop, "fast")
        (cluster.data / "standby.signal").touch()
        await asyncio.to_thread(cluster.start)

        await until_readiness(server, 503, b"is a standby that only reads: name the primary")
        assert "is a standby that only reads" in await refusal_of(cluster.url(), tmp_path / "other")

        await asyncio.to_thread(cluster.promote)
        await until_readiness(server, 200, b"ready\n")

        async def is_written() -> bool:
            return (await ask(server, "POST", "/session/new")).status == 200

        await eventually(is_written)


async def test_a_login_that_is_refused_later_is_named(cluster: PostgresCluster, tmp_path: Path) -> None:
    access = cluster.data / "pg_hba.conf"
    access.write_text(f"local all guarded scram-sha-256\n{access.read_text()}")
    url = cluster.url().replace("bridge@", "guarded:sesame@", 1)
    async with connected(cluster.url()) as wire:
        await wire.execute("CREATE ROLE guarded SUPERUSER LOGIN PASSWORD 'sesame'")
        await wire.execute("SELECT pg_reload_conf()")
        async with running_server(tmp_path / "data", database=url) as server:
            await wire.execute("ALTER ROLE guarded PASSWORD 'another'")
            end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'guarded'"
            await wire.execute(end)
            refusal = "refuses the login: correct the user and the password"
            await until_readiness(server, 503, refusal.encode())
            said = await refusal_of(url, tmp_path / "other")
            assert "refuses the login" in said
            assert ": correct the user" in said

            await wire.execute("ALTER ROLE guarded PASSWORD 'sesame'")
            await until_readiness(server, 200, b"ready\n")
