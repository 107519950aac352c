"""`bridge-server copy`: what a server had in its file, another has in PostgreSQL afterwards."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import orjson
import pytest

from bridge_server.storage.migrate import migrate, packaged_migrations
from tests.support.bridge_client import BridgeClient
from tests.support.command import run_command
from tests.support.inbox_client import InboxClient, sign_in
from tests.support.postgres import PostgresServer, connected, make_rooms, needs_postgres
from tests.support.project import opened_app
from tests.support.proxies import open_cutting_proxy
from tests.support.server import running_server

pytestmark = [
    needs_postgres,
    pytest.mark.sqlite("it begins with a file"),
]

ODD = 'nul \0, \U0010ffff, "quotes", back\\slash, tab\t, line\n, \N{GRINNING FACE}'


@pytest.fixture
async def url(postgres: PostgresServer) -> str:
    """Of a database without any table."""
    return await postgres.bare_database("copied")


@pytest.fixture
async def data_dir(tmp_path: Path) -> Path:
    """Of a server that had a session and was stopped."""
    async with running_server(tmp_path / "data") as server:
        await server.open_session()
    return tmp_path / "data"


async def test_a_server_goes_on_with_what_was_in_its_file(url: str, tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    async with running_server(data_dir) as server:
        bridge = BridgeClient(server)
        session_id = await bridge.open_session()
        await bridge.update(session_id, ODD)
        answered, pending = [await bridge.request_call(session_id, f"call {n}") for n in range(2)]
        await bridge.answer(answered, ODD)
        async with opened_app(server) as app:
            inbox = await sign_in(server)
            await inbox.subscribe(app.project_id)
            await app.notify([inbox.account], title=ODD.replace("\0", ""), body="Body")
            before = await inbox.titles()
        await bridge.subscribe(ODD, "https://a.example/")

    done = run_command("copy", "--data-dir", data_dir, "--to", url, "--json")

    assert done.exit_code == 0, done.err
    with closing(sqlite3.connect(data_dir / "bridge.sqlite3")) as connection:
        tables = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        names = [name for (name,) in connection.execute(tables)]
        counts = [connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in names]
    assert orjson.loads(done.out)["rows"] == dict(zip(names, counts, strict=True))
    async with running_server(tmp_path / "new", server.clock, database=url) as server:
        bridge = BridgeClient(server)
        assert (await bridge.session(session_id)).json["encryptionPayload"] == ODD
        assert await bridge.pending(session_id) == [pending]
        assert (await bridge.status(answered)).json["encryptionPayload"] == ODD
        assert await InboxClient(server, inbox.wallet, inbox.token).titles() == before
        assert await bridge.request_call(session_id) not in (answered, pending)


async def test_numbers_are_not_given_again(url: str, tmp_path: Path) -> None:
    file = tmp_path / "data" / "bridge.sqlite3"
    file.parent.mkdir(mode=0o700)
    migrate(file, packaged_migrations())
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('sendings', 7000)")
        connection.execute("INSERT INTO accounts (id, account_key) VALUES (41, 'eip155:0x1')")
        connection.execute(
            "INSERT INTO irn_subscriptions (client, topic, expires_at_ms, reached) VALUES ('c', 't', 0, 40)"
        )

    assert run_command("copy", "--data-dir", file.parent, "--to", url).exit_code == 0

    async with connected(url) as connection:
        add = "INSERT INTO accounts (account_key) VALUES ('eip155:0x2') RETURNING id"
        assert await connection.fetchval(add) == 42
        assert await connection.fetchval("SELECT nextval(pg_get_serial_sequence('sendings', 'id'))") == 7_001
        assert await connection.fetchval("SELECT nextval('irn_message_numbers')") == 41


@pytest.mark.parametrize(
    ("message", "says"),
    [
        (b'COPY "', "ended during the copy: nothing of it is kept there"),
        (b"COMMIT;", "ended while the copy was committed: all of it is there, or nothing"),
    ],
)
async def test_a_copy_that_was_cut_off_says_so_and_can_be_made_again(
    url: str, data_dir: Path, message: bytes, says: str
) -> None:
    async with connected(url) as connection, open_cutting_proxy(url) as proxy:
        await make_rooms(connection)
        proxy.cut_before(message)
        cut = await asyncio.to_thread(run_command, "copy", "--data-dir", data_dir, "--to", proxy.url)

        assert cut.exit_code == 2
        assert says in cut.err
        assert await connection.fetchval("SELECT count(*) FROM sessions") == 0
        assert run_command("copy", "--data-dir", data_dir, "--to", url).exit_code == 0
        assert await connection.fetchval("SELECT count(*) FROM sessions") == 1


async def test_what_a_server_uses_and_a_database_that_is_not_empty_are_refused(
    url: str, data_dir: Path, tmp_path: Path
) -> None:
    async with running_server(data_dir):
        of_file = run_command("copy", "--data-dir", data_dir, "--to", url)
    async with running_server(tmp_path / "other", database=url):
        of_database = run_command("copy", "--data-dir", data_dir, "--to", url)
    async with connected(url) as connection:
        await connection.execute("INSERT INTO accounts (account_key) VALUES ('eip155:0x1')")
        of_rows = run_command("copy", "--data-dir", data_dir, "--to", url)
        assert await connection.fetchval("SELECT count(*) FROM sessions") == 0, "it stays as it is"

    for done, complaint in (
        (of_file, "another server"),
        (of_database, "a server uses the PostgreSQL database"),
        (of_rows, "is not empty, its table accounts has rows"),
    ):
        assert (done.exit_code, done.out) == (2, "")
        assert complaint in done.err


def test_a_source_or_a_target_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "data" / "bridge.sqlite3"
    file.parent.mkdir(mode=0o700)
    migrate(file, packaged_migrations())

    for folder, arguments, complaint in (
        ("data", ["--to", "postgresql:///nowhere?host=/nowhere"], "cannot be reached"),
        ("data", ["--to", "mysql://open-sesame@db/bridge"], "--to: must be the URL of a PostgreSQL database"),
        ("data", [], "Missing option '--to'"),
        ("none", ["--to", "postgresql:///bridge"], "there is no database in"),
    ):
        done = run_command("copy", "--data-dir", tmp_path / folder, *arguments)
        assert done.exit_code == 2
        assert complaint in done.err
        assert "sesame" not in done.err
