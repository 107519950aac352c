"""Connections that end unnoticed, and what killed or frozen processes leave, are dealt with.

White-box: no client knows the moments at which a connection ends.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

import asyncpg
import pytest

from bridge_server.kernel.errors import UnavailableError
from bridge_server.kernel.events import Events
from bridge_server.storage.postgres import connection
from bridge_server.storage.postgres.connection import KeptConnection, connect
from bridge_server.storage.postgres.database import PostgresDatabase
from bridge_server.storage.postgres.failures import LostConnectionError
from bridge_server.storage.postgres.listening import end_silent_sessions, name_of_listener
from bridge_server.storage.postgres.statements import Texts
from tests.storage.notes import put, text_of
from tests.storage.postgres.test_wake_ups import running
from tests.support.postgres import connected
from tests.support.proxies import CuttingProxy
from tests.support.waiting import eventually

NAME = "bridge-server/kept"


@pytest.fixture(autouse=True)
def no_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """No look of every half second finds what is lost."""
    monkeypatch.setattr(connection, "_CHECK_SECONDS", 1_000.0)


@asynccontextmanager
async def kept_connection(open_connection: Any) -> AsyncIterator[KeptConnection]:
    link = KeptConnection(NAME, Texts({}), open_connection)
    async with link.held():
        await link.connect()
        yield link


async def hear_last_words(proxy: CuttingProxy, wires: Sequence[Any]) -> None:
    """The proxy says them, and every one of these connections has heard them."""
    silent = list(wires)
    for wire in wires:
        wire.add_log_listener(lambda heard, _: silent.remove(heard))
    proxy.say_last_words()
    await eventually(lambda: not silent)


async def test_a_connection_that_is_used_between_last_words_and_end_is_replaced(proxy: CuttingProxy) -> None:
    async with kept_connection(partial(connect, proxy.url, NAME)) as link:
        wire = link.wire
        await hear_last_words(proxy, [wire])
        with pytest.raises(asyncpg.InternalClientError):
            await wire.fetchval("SELECT 1")

        with pytest.raises(LostConnectionError):
            link.wire  # noqa: B018 - it raises
        await eventually(lambda: link.is_open)
        assert await link.wire.fetchval("SELECT 1") == 1


async def test_a_database_has_its_connections_again(proxy: CuttingProxy, events: Events) -> None:
    database = PostgresDatabase(proxy.url, events, {})
    async with database.opened():
        links = [database._lane_links[0], *database._readers._idle]
        former = [link.wire for link in links]
        await hear_last_words(proxy, former)
        uses = [database.transaction(put("a", "text")), *(text_of(database, "a") for _ in former[1:])]
        for use in uses:
            with pytest.raises(UnavailableError):
                await use

        await eventually(lambda: all(link.is_open and link.wire not in former for link in links))
        assert await database.transaction(put("a", "text")) == await text_of(database, "a") == "text"


async def test_a_listener_and_an_announcer_go_on(proxy: CuttingProxy) -> None:
    async with running(proxy.url) as process:

        async def is_rung() -> bool:
            process.announcer.prove()
            return process.announcer.sent > announcements

        await process.touch(("session", "a"))
        await eventually(lambda: process.announcer.sent > 0)
        announcements = process.announcer.sent
        await hear_last_words(proxy, [process.listener.wire, process.announcer._wire])
        process.listener.check_now()
        await eventually(lambda: process.gaps > 0)
        await eventually(is_rung)
        assert process.listener.troubles == []


async def test_a_connection_that_has_ended_before_anyone_listens_is_none(url: str) -> None:
    opened: list[Any] = []

    async def open_connection() -> Any:
        opened.append(await connect(url, NAME))
        if len(opened) == 2:
            opened[1].terminate()
        return opened[-1]

    async with kept_connection(open_connection) as link:
        link.drop()
        await eventually(lambda: link.is_open)
        assert link.wire is opened[2]


async def test_all_that_were_dropped_are_ended_not_only_the_last(url: str) -> None:
    async with kept_connection(partial(connect, url, NAME)) as link, connected(url) as other:

        async def is_sleeping() -> bool:
            sleeps = "SELECT 1 FROM pg_stat_activity WHERE application_name = $1 AND wait_event = 'PgSleep'"
            return bool(await other.fetchval(sleeps, NAME))

        async def is_ended() -> bool:
            return not await is_sleeping()

        sleeping = asyncio.create_task(link.wire.execute("SELECT pg_sleep(60)"))
        await eventually(is_sleeping)
        for _ in range(2):
            link.drop()
            await eventually(lambda: link.is_open)
        await asyncio.gather(sleeping, return_exceptions=True)
        assert await is_sleeping(), "the server does not miss a client while it sleeps"

        await link.end_former(link.wire)
        await eventually(is_ended)


async def test_only_the_listener_and_transactions_of_a_silent_process_are_ended(url: str) -> None:
    """Each session of the silent process has sent one statement and nothing since."""
    frozen, other = "bridge-server/7", "bridge-server/70"
    async with AsyncExitStack() as stack:

        async def session(name: str, statement: str) -> Any:
            wire = await asyncpg.connect(url, server_settings={"application_name": name})
            stack.callback(wire.terminate)
            await wire.execute(statement)
            return wire

        listener = await session(name_of_listener(frozen), "SELECT pg_advisory_lock(1, 2)")
        writing = await session(frozen, "BEGIN")
        left = [
            await session(name, statement)
            for name, statement in [(frozen, "SELECT 1"), (other, "BEGIN"), ("psql", "BEGIN")]
        ]
        async with connected(url) as wire:
            assert not await end_silent_sessions(wire, 3_600)
            assert await end_silent_sessions(wire, 0)
            await eventually(lambda: bool(listener.is_closed() and writing.is_closed()))
            assert await wire.fetchval("SELECT pg_try_advisory_lock(1, 2)")
            assert not await end_silent_sessions(wire, 0)
        assert [await each.fetchval("SELECT 1") for each in left] == [1, 1, 1]
