"""Two processes decide about one thing at once, by what each has read: as one after the other would.

The stores are asked themselves: requests of two servers meet in one moment only by chance.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
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
from bridge_server.projects.models import IdAmong, NewSubscription, ProjectId, TypeId
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
from tests.support.postgres import needs_postgres
from tests.support.rows import each_row

pytestmark = needs_postgres


FAR = 10**15
ATTEMPTS = 30
LIMIT = 10
NOW_US = 1_800_000_000_000_000
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


Processes = Sequence[PostgresDatabase]


def _always(type_id: TypeId) -> IdAmong:
    return lambda _: type_id


async def successes(attempts: Sequence[Awaitable[Any]]) -> int:
    """How many succeed of attempts that are made at once. Each of the others is refused by a rule."""
    outcomes = await asyncio.gather(*attempts, return_exceptions=True)
    for outcome in outcomes:
        assert not isinstance(outcome, BaseException) or isinstance(outcome, BridgeError), outcome
    return sum(not isinstance(outcome, BaseException) for outcome in outcomes)


PROJECT = ProjectId("p1")
SESSION = SessionId("s1")


@pytest.fixture
async def furnished(processes: Processes) -> Processes:
    """Two processes that have a session and a project."""
    await RelayStore(processes[0]).create_session(SESSION, FAR)
    await ProjectStore(processes[0]).create([PROJECT], "Shop", b"0" * 32, 1)
    return processes


def add_call(process: PostgresDatabase, number: int) -> Awaitable[Any]:
    call = StoredCall(CallId(f"c{number}"), SESSION, Payload(b"{}"), FAR, 0, FAR)
    return RelayStore(process).add_call(call, 1, LIMIT, lambda _: ())


def add_webhook(process: PostgresDatabase, number: int) -> Awaitable[Any]:
    return RelayStore(process).subscribe(Topic("t1"), f"https://example.com/{number}", 1, FAR, LIMIT)


async def add_device(process: PostgresDatabase, number: int) -> None:
    account = await process.transaction(lambda: account_number("eip155:0x1"))
    device = NewDevice("webpush", f"https://example.com/{number}", "webpush")
    await DeviceStore(process).add(account, DeviceId(f"d{number}"), device, 1, LIMIT)


def add_secret(process: PostgresDatabase, number: int) -> Awaitable[Any]:
    return ProjectStore(process).add_secret(PROJECT, (number + 1).to_bytes(32), 1, LIMIT)


def add_type(process: PostgresDatabase, number: int) -> Awaitable[Any]:
    return ProjectStore(process).add_type(PROJECT, _always(TypeId(f"t{number}")), "News", 1, LIMIT)


def create_project(process: PostgresDatabase, number: int) -> Awaitable[Any]:
    return ProjectStore(process).create([ProjectId("p2")], "Shop", (number + 1).to_bytes(32), 1)


@each_row(
    ("attempt", "most"),
    [
        (add_call, LIMIT),
        (add_webhook, LIMIT),
        (add_device, LIMIT),
        (add_secret, LIMIT - 1),  # beside the secret that the project began with
        (add_type, LIMIT),
        (create_project, 1),
    ],
)
async def test_two_processes_together_add_no_more_than_one_may(
    furnished: Processes, attempt: Callable[[PostgresDatabase, int], Awaitable[Any]], most: int
) -> None:
    added = await successes([attempt(furnished[number % 2], number) for number in range(ATTEMPTS)])

    assert added == most


@each_row("signing_in", range(2))
async def test_nobody_stays_signed_in_after_all_are_signed_out(processes: Processes, signing_in: int) -> None:
    access = [AccessStore(process) for process in processes]
    for number in range(ATTEMPTS):
        link, session = b"link %d" % number, b"session %d" % number
        await access[0].add_link(link, FAR)

        outcomes = await asyncio.gather(
            access[signing_in].sign_in(link, session, FAR, 1),
            access[0].sign_out_all(),
            return_exceptions=True,
        )

        assert outcomes[0] is None or isinstance(outcomes[0], LinkRefusedError)
        assert await access[1].expiry(session, 1) is None
    assert scalar(int, await processes[0].read("SELECT count(*) FROM console_sessions")) == 0


async def test_an_account_is_sent_no_more_than_its_bucket_holds_and_numbers_of_sendings_rise(
    processes: Processes,
) -> None:
    project, limit = ProjectId("p1"), Limit("account", LIMIT, 3_600_000_000)
    await ProjectStore(processes[0]).create([project], "Shop", b"0" * 32, 1)
    await ProjectStore(processes[0]).add_type(project, _always(TypeId("news")), "News", 1, LIMIT)
    new = NewSubscription(Account("a1", "a1"), None)
    await SubscriptionStore(processes[0]).subscribe(project, [new], 1, _no_message)
    seen: list[tuple[int, int]] = []

    async def up_to(newest: int) -> int:
        return scalar(int, await processes[0].read("SELECT count(*) FROM sendings WHERE id <= ?", (newest,)))

    async def send(number: int) -> Failures:
        failures = await NotifyStore(processes[number % 2]).send(
            project,
            NotifyRequest(Notification(TypeId("news"), "Title", "Body", None), None, {"a1": "a1"}),
            SendingLimits(limit, MissedLimits(0)),
            NOW_US,
            _no_message,
        )
        newest = scalar(int, await processes[1].read("SELECT coalesce(max(id), 0) FROM sendings"))
        seen.append((newest, await up_to(newest)))
        return failures

    failures = await asyncio.gather(*map(send, range(ATTEMPTS)))

    assert sum(not each for each in failures) == LIMIT
    for newest, count in seen:  # a reader that goes on after a number misses none below it
        assert await up_to(newest) == count


async def test_a_message_that_its_receivers_acknowledge_in_two_processes_at_once_is_settled(
    processes: Processes,
) -> None:
    stores = [IrnStore(process, Unlimited(), Unlimited(), RULES.notice) for process in processes]
    topic, clients = Topic("t1"), (ClientKey("c1"), ClientKey("c2"))

    def subscribe() -> Transaction[None]:
        for client in clients:
            yield Statement(irn_sql.SUBSCRIBE, (client, FAR, json_array([topic]), 1))

    await processes[0].transaction(subscribe)
    for number in range(1, ATTEMPTS):

        def keep(number: int = number) -> Transaction[None]:
            yield Statement(irn_sql.INSERT_MESSAGE, (number, topic, b"{}", 2, "c0", None, 0, FAR))

        await processes[0].transaction(keep)
        await asyncio.gather(
            *(
                store.apply((), 0, {(client, topic): [number]}, RULES)
                for store, client in zip(stores, clients, strict=True)
            )
        )

    assert await processes[0].read("SELECT count(*) FROM irn_messages WHERE expires_at_ms > 0") == [(0,)]


def _no_message(*_: object) -> OutgoingMessage:
    raise AssertionError("the project has no webhook")
