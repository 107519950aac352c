"""A role is one process's at a time, and what a former holder writes is refused."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass

import pytest
from structlog.testing import capture_logs

from bridge_server.kernel.background import running
from bridge_server.kernel.clock import MovableClock
from bridge_server.kernel.errors import UnavailableError
from bridge_server.kernel.events import Events
from bridge_server.storage.postgres import processes
from bridge_server.storage.postgres.database import PostgresDatabase
from bridge_server.storage.postgres.migrate import migrate
from bridge_server.storage.postgres.processes import Role, opened_with_wake_ups
from bridge_server.wallet.models import Address, Caller, SendRequest, SignedTransaction, TransactionId
from bridge_server.wallet.transactions.store import TransactionStore
from tests.support.eventually import eventually
from tests.support.postgres import PostgresServer, connected, needs_postgres

pytestmark = needs_postgres

ALICE = Address("0x" + "a1" * 20)
END_EAR = """
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE datname = current_database() AND query LIKE '%seen_at_ms > %' AND pid <> pg_backend_pid()
"""


@dataclass
class Process:
    """One process and its role."""

    database: PostgresDatabase
    role: Role
    opened: int = 0
    is_open: bool = False

    @asynccontextmanager
    async def resources(self) -> AsyncIterator[None]:
        self.opened += 1
        self.is_open = True
        try:
            yield
        finally:
            self.is_open = False


@pytest.fixture
async def url(postgres: PostgresServer) -> str:
    return await postgres.database("bridge", migrate)


@asynccontextmanager
async def process_on(url: str, *, is_wanted: bool = True) -> AsyncIterator[Process]:
    events = Events()
    database = PostgresDatabase(url, events, {})
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(opened_with_wake_ups(database, events, ()))
        process = Process(database, Role("wallet", database, is_wanted=is_wanted))
        await stack.enter_async_context(running(process.role.serve_forever(process.resources)))
        await process.role.known()
        process.role.announce(f"http://{database.number}")
        yield process


async def until_served(process: Process) -> None:
    async def is_served() -> bool:
        return process.role.is_served

    await eventually(is_served)


async def until_url(process: Process, url: str | None) -> None:
    async def is_told() -> bool:
        return await process.role.holder_url() == url

    await eventually(is_told)


def reserve(process: Process, name: str) -> "asyncio.Task[object]":
    store = TransactionStore(process.database, process.role.fence)
    request = SendRequest(TransactionId(name), ALICE, b"{}", 0, Caller("192.0.2.1", None, "request"))

    def sign(nonce: int) -> SignedTransaction:
        return SignedTransaction(1, nonce, f"0xhash-{name}", f"0xraw-{name}")

    async def work() -> object:
        return await store.reserve(request, 1, None, 0, sign, 0)

    return asyncio.create_task(work())


async def test_the_first_has_the_role_and_tells_the_others_its_url(url: str) -> None:
    async with process_on(url) as first, process_on(url) as second:
        assert (first.role.is_served, second.role.is_served) == (True, False)
        assert (first.is_open, second.is_open) == (True, False)
        await until_url(second, f"http://{first.database.number}")
        assert await first.role.holder_url() is None


async def test_the_next_one_has_the_role_when_its_holder_leaves(url: str) -> None:
    async with process_on(url) as waiting:
        pass
    async with process_on(url) as first:
        async with process_on(url) as second:
            assert not second.role.is_served
        assert first.role.is_served
    async with process_on(url) as third:
        assert third.role.is_served
    assert not any(process.is_open for process in (waiting, first, second, third))


async def test_a_process_that_does_not_want_the_role_leaves_it(url: str) -> None:
    async with process_on(url, is_wanted=False) as process:
        assert not process.role.is_served
        assert await process.role.holder_url() is None
        with pytest.raises(UnavailableError, match="Nothing was stored"):
            await reserve(process, "refused")


async def test_the_role_is_lost_with_the_connection_and_its_resources_are_closed(url: str) -> None:
    async with process_on(url) as process:
        assert process.opened == 1

        async with connected(url) as connection:

            async def has_ended() -> bool:
                return bool(await connection.fetchval(END_EAR) == 1)

            await eventually(has_ended)

        async def is_served_again() -> bool:
            return process.opened == 2 and process.role.is_served

        await eventually(is_served_again)
        await reserve(process, "again")


async def test_a_holder_that_was_silent_does_not_count_on_the_role_before_it_has_looked(url: str) -> None:
    async with process_on(url) as process:
        ear, clock = process.database.ear, MovableClock()
        assert ear is not None
        ear._clock = clock
        ear.look_now()
        await until_served(process)

        clock.advance(7_500_000)
        assert not process.role.is_held
        assert not process.role.is_served

        ear.look_now()
        await until_served(process)
        assert process.opened == 1


async def test_a_reservation_of_a_former_holder_is_refused(url: str) -> None:
    async with process_on(url) as former, process_on(url) as next_one:
        await reserve(former, "a")
        # The former holder has not noticed yet that the role is another's.
        async with connected(url) as connection:
            await connection.execute("UPDATE roles SET epoch = epoch + 1")

        with pytest.raises(UnavailableError, match="another process has taken over the wallet"):
            await reserve(former, "b")
        with pytest.raises(UnavailableError, match="another process has taken over the wallet"):
            await TransactionStore(former.database, former.role.fence).refuse(TransactionId("a"), "no", 0)
        assert not next_one.role.is_served


async def test_taking_over_waits_for_a_write_that_is_under_way(url: str) -> None:
    async with connected(url) as connection:
        await connection.execute("INSERT INTO roles (name, epoch) VALUES ('wallet', 6)")
        writing = connection.transaction()
        await writing.start()
        await connection.execute("SELECT 1 FROM roles WHERE name = 'wallet' AND epoch = 6 FOR SHARE")
        async with process_on(url) as process:
            assert not process.role.is_served
            await writing.commit()
            await until_served(process)
            assert await connection.fetchval("SELECT epoch FROM roles") == 7


async def test_resources_that_do_not_open_are_tried_again(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_ROLE_PAUSE_SECONDS", 0.01)
    failures = [ConnectionResetError("lost"), UnavailableError("not now"), ValueError("a bug")]

    class Failing(Process):
        @asynccontextmanager
        async def resources(self) -> AsyncIterator[None]:
            if failures:
                raise failures.pop()
            yield

    events = Events()
    database = PostgresDatabase(url, events, {})
    with capture_logs() as lines:
        async with opened_with_wake_ups(database, events, ()):
            process = Failing(database, Role("wallet", database, is_wanted=True))
            async with running(process.role.serve_forever(process.resources)):
                await until_served(process)
    assert failures == []
    told = [line for line in lines if line["event"] == "role_not_served"]
    assert [(line.get("reason"), "exc_info" in line) for line in told] == [
        (None, True),
        ("not now", False),
        ("lost", False),
    ]
    with suppress(UnavailableError):
        await reserve(process, "after")
