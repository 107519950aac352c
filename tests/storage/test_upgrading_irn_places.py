"""A database from before subscriptions had places keeps the messages that wait, each for its receivers."""

import re
import sqlite3
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from bridge_server.storage.migrate import migrate, packaged_migrations
from bridge_server.storage.postgres.migrate import migrate as migrate_postgres
from bridge_server.storage.postgres.migrate import packaged_migrations as packaged_for_postgres
from tests.support.irn_client import Identity, IrnClient, irn_connected, topic_of
from tests.support.postgres import PostgresServer, connected, needs_postgres
from tests.support.server import running_server

_BEFORE = 13
_LATER = 9_000_000_000_000
_BLOB = "x'{}'"
TOPIC, OTHER, LEFT = topic_of("topic"), topic_of("other"), topic_of("left")
DAPP, ONE, TWO = Identity(), Identity(), Identity()


def key(identity: Identity) -> str:
    return identity.did.removeprefix("did:key:")


def message(number: int, topic: str, text: str, is_open: int = 0, expires_at_ms: int = _LATER) -> str:
    data = f'{{"topic":"{topic}","message":"{text}","publishedAt":1,"tag":0}}'
    values = f"'{topic}', {{}}, {len(data)}, '{key(DAPP)}', NULL, {is_open}, {expires_at_ms}"
    return f"({number}, {values.format(_BLOB.format(data.encode().hex()))})"


_SUBSCRIPTIONS = f"""
INSERT INTO irn_subscriptions (client, topic, expires_at_ms)
VALUES ('{key(ONE)}', '{TOPIC}', {_LATER}), ('{key(TWO)}', '{TOPIC}', {_LATER});
"""
_MESSAGES = f"""
INSERT INTO irn_messages (number, topic, data, size_bytes, sender, address, is_open, expires_at_ms)
VALUES {message(1, TOPIC, "for both")}, {message(2, TOPIC, "for two")}, {message(3, TOPIC, "for one")},
       {message(4, OTHER, "for the next", is_open=1)}, {message(5, TOPIC, "expired", expires_at_ms=5)},
       {message(6, LEFT, "for a client that has left")};
INSERT INTO irn_deliveries (client, number)
VALUES ('{key(ONE)}', 1), ('{key(TWO)}', 1), ('{key(TWO)}', 2), ('{key(ONE)}', 3), ('{key(ONE)}', 5),
       ('{key(TWO)}', 6);
"""
_OF_POSTGRES = f"""
SELECT setval('irn_message_numbers', 6);
UPDATE irn_deliveries SET is_received = 1 WHERE number = 6;
INSERT INTO irn_deliveries (client, number, is_received) VALUES ('{key(ONE)}', 2, 1);
"""


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


async def each_is_delivered(data_dir: Path, stack: AsyncExitStack, **settings: Any) -> None:
    server = await stack.enter_async_context(running_server(data_dir, **settings))

    async def join(identity: Identity) -> IrnClient:
        return await stack.enter_async_context(irn_connected(server.client, server.url, identity))

    one, two, dapp, three = [await join(identity) for identity in (ONE, TWO, DAPP, Identity())]
    await one.subscribe(TOPIC)
    await two.subscribe(TOPIC)
    assert await one.messages(2) == ["for both", "for one"]
    assert await two.messages(2) == ["for both", "for two"]
    await three.subscribe(TOPIC, OTHER, LEFT)
    assert await three.messages(1) == ["for the next"]

    await dapp.publish(TOPIC, "for all three")
    for client in (one, two, three):
        assert await client.messages(1) == ["for all three"]
        await client.settled()
    again = await join(ONE)
    await again.subscribe(TOPIC)
    await again.nothing()


async def test_messages_that_wait_in_a_file_are_delivered(tmp_path: Path, stack: AsyncExitStack) -> None:
    data_dir = tmp_path / "data"
    data_dir.mkdir(mode=0o700)
    migrate(data_dir / "bridge.sqlite3", packaged_migrations()[:_BEFORE])
    with closing(sqlite3.connect(data_dir / "bridge.sqlite3")) as connection:
        connection.executescript(_SUBSCRIPTIONS + _MESSAGES)

    await each_is_delivered(data_dir, stack)


@needs_postgres
async def test_messages_that_wait_in_postgres_are_delivered(
    tmp_path: Path, stack: AsyncExitStack, postgres: PostgresServer
) -> None:
    url = await postgres.bare_database("places")
    async with connected(url) as connection:
        await migrate_postgres(
            connection, [each for each in packaged_for_postgres() if each.version <= _BEFORE]
        )
        await connection.execute(_SUBSCRIPTIONS + re.sub(r"\bx'", r"'\\x", _MESSAGES) + _OF_POSTGRES)
        await migrate_postgres(connection)

    await each_is_delivered(tmp_path / "data", stack, database=url)
