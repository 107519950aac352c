"""Processes on one database: destinations, roles and sweeps are one process's at a time.

White-box: a server shows of them only that it works.
"""

from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

import pytest

from bridge_server.kernel.background import running
from bridge_server.kernel.clock import MovableClock
from bridge_server.kernel.errors import UnavailableError
from bridge_server.kernel.events import Events
from bridge_server.kernel.sweeper import Sweeper
from bridge_server.storage.postgres import processes as processes_module
from bridge_server.storage.postgres.database import PostgresDatabase
from bridge_server.storage.postgres.processes import (
    LeasedDestinations,
    Role,
    opened_with_wake_ups,
    sweeper_hold,
)
from bridge_server.wallet.models import Address, Caller, SendRequest, SignedTransaction, TransactionId
from bridge_server.wallet.transactions.store import TransactionStore
from tests.storage.notes import put
from tests.support.clock import ManualClock
from tests.support.drivers import notes_url
from tests.support.postgres import PostgresServer, connected
from tests.support.waiting import eventually

HOOK, OTHER = "https://hook.example:443", "fcm"
LEASE_SECONDS, DELIVERY_SECONDS = 60.0, 40.0


@dataclass
class Holder:
    """The leases of one process, and its clock."""

    leases: LeasedDestinations
    clock: ManualClock
    in_use: set[str] = field(default_factory=set)


@pytest.fixture
async def url(postgres: PostgresServer) -> str:
    return await postgres.database("bridge")


@pytest.fixture(autouse=True)
def idle_leases_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """A destination that nothing is sent to is given up after a second, which a busy machine may need."""
    monkeypatch.setattr(processes_module, "_IDLE_SECONDS", 3_600.0)


@asynccontextmanager
async def holder_on(url: str) -> AsyncIterator[Holder]:
    database, clock = PostgresDatabase(url, Events(), {}), ManualClock()
    leases = LeasedDestinations(database, lambda: database.number, LEASE_SECONDS, DELIVERY_SECONDS, clock)
    process = Holder(leases, clock)
    async with database.opened(), leases.holding(lambda: process.in_use):
        yield process


async def test_a_destination_is_one_processs_until_its_lease_ends(url: str) -> None:
    async with holder_on(url) as first, holder_on(url) as second, connected(url) as connection:
        assert await first.leases.take(HOOK)

        assert not await second.leases.take(HOOK)
        assert second.leases.is_elsewhere(HOOK)
        assert await second.leases.take(OTHER)
        assert (first.leases.tenure(HOOK) > 0, second.leases.tenure(HOOK)) == (True, 0)
        assert (first.leases.was_here(HOOK), second.leases.was_here(HOOK)) == (True, False)

        await connection.execute("UPDATE outbox_lanes SET until_ms = 0")
        second.clock.advance(LEASE_SECONDS)  # it looks again
        assert await second.leases.take(HOOK)
        await first.leases._renew()
        assert not first.leases.tenure(HOOK), "the former holder has noticed"
        assert not await first.leases.take(HOOK)


async def test_nothing_begins_that_could_outlast_the_lease_until_it_is_renewed(url: str) -> None:
    async with holder_on(url) as process:
        process.in_use.add(HOOK)
        await process.leases.take(HOOK)
        tenure = process.leases.tenure(HOOK)
        process.clock.advance(LEASE_SECONDS - DELIVERY_SECONDS - 0.1)
        assert process.leases.tenure(HOOK) == tenure > 0
        process.clock.advance(0.1)
        assert not process.leases.tenure(HOOK)

        await process.leases._renew()
        assert process.leases.tenure(HOOK) == tenure


async def test_a_destination_not_in_use_is_given_up(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes_module, "_IDLE_SECONDS", 0.01)

    async def leased() -> list[str]:
        rows = await wire.fetch("SELECT destination FROM outbox_lanes ORDER BY destination")
        return [row[0] for row in rows]

    async def is_given_up() -> bool:
        return await leased() == [OTHER]

    async with connected(url) as wire:
        async with holder_on(url) as process:
            process.in_use |= {HOOK, OTHER}
            assert await process.leases.take(HOOK)
            assert await process.leases.take(OTHER)

            process.in_use.remove(HOOK)
            await eventually(is_given_up)
            assert (process.leases.tenure(HOOK), process.leases.was_here(HOOK)) == (0, True)
            assert process.leases.tenure(OTHER)
        assert await leased() == []


ALICE = Address("0x" + "a1" * 20)


@dataclass
class Process:
    """One process and its role; its resources fail to open with these failures first."""

    database: PostgresDatabase
    role: Role
    failures: list[Exception]
    opened: int = 0
    is_open: bool = False

    @asynccontextmanager
    async def resources(self) -> AsyncIterator[None]:
        if self.failures:
            raise self.failures.pop()
        self.opened += 1
        self.is_open = True
        try:
            yield
        finally:
            self.is_open = False


@asynccontextmanager
async def process_on(url: str, *failures: Exception, is_wanted: bool = True) -> AsyncIterator[Process]:
    events = Events()
    database = PostgresDatabase(url, events, {})
    process = Process(database, Role("wallet", database, is_wanted=is_wanted), list(failures))
    async with (
        opened_with_wake_ups(database, events, ()),
        running(process.role.serve_forever(process.resources)),
    ):
        await process.role.known()
        process.role.announce(f"http://{database.number}")
        yield process


async def until_served(process: Process) -> None:
    await eventually(lambda: process.role.is_served)


def reserve(process: Process, name: str) -> Awaitable[object]:
    store = TransactionStore(process.database, process.role.fence)
    request = SendRequest(TransactionId(name), ALICE, b"{}", 0, Caller("192.0.2.1", None, "request"))

    def sign(nonce: int) -> SignedTransaction:
        return SignedTransaction(1, nonce, f"0xhash-{name}", f"0xraw-{name}")

    return store.reserve(request, 1, None, 0, sign, 0)


async def test_the_next_one_has_the_role_when_its_holder_leaves(url: str) -> None:
    async with process_on(url) as waiting:
        pass
    async with process_on(url) as first:
        await until_served(first)
        async with process_on(url) as second:
            assert not second.role.is_served
        assert first.role.is_served
    async with process_on(url) as third:
        await until_served(third)  # the server may notice the end of a connection with a lock a moment later
    assert not any(process.is_open for process in (waiting, first, second, third))


async def test_a_process_that_does_not_want_the_role_leaves_it(url: str) -> None:
    async with process_on(url, is_wanted=False) as process:
        assert not process.role.is_served
        assert await process.role.holder_url() is None
        with pytest.raises(UnavailableError, match="Nothing was stored"):
            await reserve(process, "refused")


async def test_a_holder_that_was_silent_does_not_count_on_the_role_before_it_has_looked(url: str) -> None:
    async with process_on(url) as process:
        listener, clock = process.database.listener, MovableClock()
        assert listener is not None
        listener._clock = clock
        listener.check_now()
        await until_served(process)
        clock.advance(7_500_000)
        assert (process.role.is_held, process.role.is_served) == (False, False)

        listener.check_now()
        await until_served(process)
        assert process.opened == 1


async def test_a_former_holder_that_has_not_noticed_writes_nothing(url: str) -> None:
    async with process_on(url) as former, process_on(url) as next_one:
        await until_served(former)
        await reserve(former, "a")
        async with connected(url) as connection:
            await connection.execute("UPDATE roles SET epoch = epoch + 1")

        refusal = TransactionStore(former.database, former.role.fence).refuse(TransactionId("a"), "no", 0)
        for write in (reserve(former, "b"), refusal):
            with pytest.raises(UnavailableError, match="another process has taken over the wallet"):
                await write
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
    monkeypatch.setattr(processes_module, "_ROLE_PAUSE_SECONDS", 0.01)
    failures = (ConnectionResetError("lost"), UnavailableError("not now"), ValueError("a bug"))
    async with process_on(url, *failures) as process:
        await until_served(process)
        assert process.failures == []


@pytest.fixture
async def sweepers(url: str) -> AsyncIterator[Sequence[PostgresDatabase]]:
    async with AsyncExitStack() as stack:
        found = []
        for _ in range(2):
            events = Events()
            found.append(PostgresDatabase(url, events, {}))
            await stack.enter_async_context(opened_with_wake_ups(found[-1], events, []))
        yield found


async def may_sweep(database: PostgresDatabase) -> bool:
    try:
        async with sweeper_hold(database)() as is_held:
            return is_held
    except UnavailableError:
        return False


async def test_sweepers_of_two_processes_take_turns(sweepers: Sequence[PostgresDatabase]) -> None:
    sweeping: set[int] = set()
    most, done = 0, [0, 0]

    def sweep_of(number: int) -> Sweeper:
        async def sweep(_: int) -> int:
            nonlocal most
            sweeping.add(number)
            most = max(most, len(sweeping))
            try:
                await sweepers[number].read("SELECT 1")
            finally:  # the test ends one sweep, and the other may begin
                sweeping.discard(number)
            done[number] += 1
            return 0

        return Sweeper([sweep], ManualClock(), 0.001, hold=sweeper_hold(sweepers[number]))

    async with running(sweep_of(0).run_forever()), running(sweep_of(1).run_forever()):
        await eventually(lambda: min(done) >= 5)
    assert most == 1


async def test_a_process_without_connection_loses_the_hold(sweepers: Sequence[PostgresDatabase]) -> None:
    first, second = sweepers
    async with sweeper_hold(first)():
        assert first.listener is not None
        first.listener.wire.terminate()
        await eventually(lambda: may_sweep(second))
    await eventually(lambda: may_sweep(first))


async def test_a_process_that_hears_no_others_does_not_sweep(database: PostgresDatabase) -> None:
    assert not await may_sweep(database)


async def test_commits_of_commands_are_seen_and_those_of_servers_are_not(postgres: PostgresServer) -> None:
    url = await notes_url(postgres)
    server, other, command = (PostgresDatabase(url, Events(), {}) for _ in range(3))
    async with server.opened(), other.opened(), command.opened():
        await processes_module.Processes(server).announce("http://server")
        await processes_module.Processes(other).announce("http://other")
        outside = processes_module.OutsideCommits(server)
        assert not await outside.have_come()

        for number in range(3):
            await server.transaction(put(f"own {number}", "x"))
            await other.transaction(put(f"other {number}", "x"))
        assert not await outside.have_come()
        await command.transaction(put("command", "x"))
        assert [await outside.have_come() for _ in range(2)] == [True, False]
