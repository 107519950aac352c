"""Two processes decide about one thing at once, by what each has read: as one after the other would.

The stores are asked themselves: requests of two servers meet in one moment only by chance.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

import pytest

from bridge_server.console.access import AccessStore, LinkRefusedError
from bridge_server.inbox.devices import DeviceStore
from bridge_server.inbox.models import DeviceId, NewDevice
from bridge_server.kernel.errors import BridgeError
from bridge_server.kernel.token_bucket import Limit
from bridge_server.notify.models import Failures, Notification, NotifyRequest
from bridge_server.notify.store import MissedLimits, NotifyStore, SendingLimits
from bridge_server.outbox.models import OutgoingMessage
from bridge_server.outbox.topics import Topic
from bridge_server.projects.caip10 import Account
from bridge_server.projects.models import NewSubscription, ProjectId, TypeId
from bridge_server.projects.store import ProjectStore
from bridge_server.projects.subscriptions import SubscriptionStore, account_number
from bridge_server.pubsub import v2_store as irn_sql
from bridge_server.pubsub.queues import QueueLimits, Share
from bridge_server.pubsub.v2_models import ClientKey, ClientLimits, KnownSubscribers, Rules
from bridge_server.pubsub.v2_store import IrnStore
from bridge_server.relay.models import CallId, Payload, SessionId, StoredCall
from bridge_server.relay.store import RelayStore
from bridge_server.storage.database import Statement, Transaction, json_array, scalar
from bridge_server.storage.postgres.database import PostgresDatabase
from tests.support.rows import each_row

FAR, ATTEMPTS, LIMIT = 10**15, 30, 10
PROJECT, SESSION, NEWS = ProjectId("p1"), SessionId("s1"), TypeId("news")
Processes = Sequence[PostgresDatabase]
RULES = Rules(
    1,
    QueueLimits(Share(LIMIT, FAR), Share(LIMIT, FAR), FAR),
    ClientLimits(Share(LIMIT, FAR), LIMIT, LIMIT, LIMIT, FAR, 1.0),
    FAR,
    lambda *_: _no_message(),
    KnownSubscribers(),
)


class Unlimited:
    """Every address may store anything."""

    async def hold(self, needs: Mapping[str | None, int]) -> None:
        pass

    def covers(self, address: str | None, size_bytes: int) -> bool:
        return True

    def pay(self, address: str | None, size_bytes: int) -> None:
        pass


def _no_message(*_: object) -> OutgoingMessage:
    raise AssertionError("the project has no webhook")


@pytest.fixture
async def furnished(processes: Processes) -> Processes:
    """Two processes that have a session and a project with a type."""
    await RelayStore(processes[0]).create_session(SESSION, FAR)
    await ProjectStore(processes[0]).create([PROJECT], "Shop", b"0" * 32, 1)
    await ProjectStore(processes[0]).add_type(PROJECT, lambda _: NEWS, "News", 1, LIMIT)
    return processes


Attempt = Callable[[PostgresDatabase, int], Awaitable[Any]]


def add_call(process: PostgresDatabase, number: int) -> Awaitable[Any]:
    call = StoredCall(CallId(f"c{number}"), SESSION, Payload(b"{}"), FAR, 0, FAR)
    return RelayStore(process).add_call(call, 1, LIMIT, lambda _: ())


async def add_device(process: PostgresDatabase, number: int) -> None:
    account = await process.transaction(lambda: account_number("eip155:0x1"))
    device = NewDevice("webpush", f"https://example.com/{number}", "webpush")
    await DeviceStore(process).add(account, DeviceId(f"d{number}"), device, 1, LIMIT)


def secret(number: int) -> bytes:
    return (number + 1).to_bytes(32)


ATTEMPTED: dict[str, tuple[Attempt, int]] = {
    "call": (add_call, LIMIT),
    "webhook": (lambda p, n: RelayStore(p).subscribe(Topic("t1"), f"https://a.b/{n}", 1, FAR, LIMIT), LIMIT),
    "device": (add_device, LIMIT),
    # A project begins with a secret, and this one with a type.
    "secret": (lambda p, n: ProjectStore(p).add_secret(PROJECT, secret(n), 1, LIMIT), LIMIT - 1),
    "type": (
        lambda p, n: ProjectStore(p).add_type(PROJECT, lambda _: TypeId(f"t{n}"), "News", 1, LIMIT),
        LIMIT - 1,
    ),
    "project": (lambda p, n: ProjectStore(p).create([ProjectId("p2")], "Shop", secret(n), 1), 1),
}


@each_row(("attempt", "most"), ATTEMPTED.values(), ids=ATTEMPTED)
async def test_two_processes_add_no_more_than_one(furnished: Processes, attempt: Attempt, most: int) -> None:
    attempts = [attempt(furnished[number % 2], number) for number in range(ATTEMPTS)]
    outcomes = await asyncio.gather(*attempts, return_exceptions=True)
    failures = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    assert all(isinstance(failure, BridgeError) for failure in failures), failures
    assert len(outcomes) - len(failures) == most


@each_row("signing_in", range(2))
async def test_nobody_stays_signed_in_after_all_are_signed_out(processes: Processes, signing_in: int) -> None:
    access = [AccessStore(process) for process in processes]
    for number in range(ATTEMPTS):
        link, session = b"link %d" % number, b"session %d" % number
        await access[0].add_link(link, FAR)
        signed_in, _ = await asyncio.gather(
            access[signing_in].sign_in(link, session, FAR, 1),
            access[0].sign_out_all(),
            return_exceptions=True,
        )

        assert signed_in is None or isinstance(signed_in, LinkRefusedError)
        assert await access[1].expiry(session, 1) is None
    assert scalar(int, await processes[0].read("SELECT count(*) FROM console_sessions")) == 0


async def test_an_account_is_sent_what_its_bucket_holds_and_sendings_rise(furnished: Processes) -> None:
    first, second = furnished
    new = NewSubscription(Account("a1", "a1"), None)
    await SubscriptionStore(first).subscribe(PROJECT, [new], 1, _no_message)
    request = NotifyRequest(Notification(NEWS, "Title", "Body", None), None, {"a1": "a1"})
    limits = SendingLimits(Limit("account", LIMIT, 3_600_000_000), MissedLimits(0))
    seen: list[tuple[int, int]] = []

    async def up_to(newest: int) -> int:
        return scalar(int, await first.read("SELECT count(*) FROM sendings WHERE id <= ?", (newest,)))

    async def send(number: int) -> Failures:
        store = NotifyStore(furnished[number % 2])
        failures = await store.send(PROJECT, request, limits, 1_800_000_000_000_000, _no_message)
        newest = scalar(int, await second.read("SELECT coalesce(max(id), 0) FROM sendings"))
        seen.append((newest, await up_to(newest)))
        return failures

    failures = await asyncio.gather(*map(send, range(ATTEMPTS)))

    assert sum(not each for each in failures) == LIMIT
    for newest, count in seen:  # a reader that goes on after a number misses none below it
        assert await up_to(newest) == count


async def test_a_message_acknowledged_in_two_processes_at_once_is_settled(processes: Processes) -> None:
    one, two = (IrnStore(process, Unlimited(), Unlimited(), RULES.notice) for process in processes)
    topic, clients = Topic("t1"), (ClientKey("c1"), ClientKey("c2"))

    def keep(number: int) -> Transaction[None]:
        if number == 1:
            for client in clients:
                yield Statement(irn_sql.SUBSCRIBE, (client, FAR, json_array([topic]), 1))
        yield Statement(irn_sql.INSERT_MESSAGE, (number, topic, b"{}", 2, "c0", None, 0, FAR))

    for number in range(1, ATTEMPTS):
        await processes[0].transaction(partial(keep, number))
        await asyncio.gather(
            one.apply((), 0, {(clients[0], topic): [number]}, RULES),
            two.apply((), 0, {(clients[1], topic): [number]}, RULES),
        )

    assert await processes[0].read("SELECT count(*) FROM irn_messages WHERE expires_at_ms > 0") == [(0,)]
