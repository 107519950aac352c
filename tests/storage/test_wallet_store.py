"""The store of transactions: nonces are reserved once, and settled transactions stay settled.

The store is asked on both engines: its races and its order show to clients only by chance.
"""

import asyncio
from collections.abc import Sequence

import pytest

from bridge_server.kernel.errors import ConflictError, UnavailableError
from bridge_server.kernel.events import DomainEvent, Events
from bridge_server.storage.database import Database
from bridge_server.wallet.models import (
    Address,
    Caller,
    SendRequest,
    SignedTransaction,
    StoredTransaction,
    TransactionId,
    TransactionState,
)
from bridge_server.wallet.transactions.states import TransactionEvent, TransactionsDue, TransactionsPostponed
from bridge_server.wallet.transactions.store import TransactionStore

ALICE, BOB = Address("0x" + "a1" * 20), Address("0x" + "b0" * 20)
CALLER = Caller("192.0.2.1", "https://app.example.org", "request-7")
CHAIN, OTHER_CHAIN = 1, 5
FOREVER_MS = 2**62


@pytest.fixture
def store(rooms: Database) -> TransactionStore:
    return TransactionStore(rooms)


def request(name: str, sender: Address = ALICE, asked_at_ms: int = 0) -> SendRequest:
    return SendRequest(TransactionId(name), sender, f'{{"name":"{name}"}}'.encode(), asked_at_ms, CALLER)


def signed(name: str, nonce: int, chain_id: int = CHAIN) -> SignedTransaction:
    return SignedTransaction(chain_id, nonce, f"0xhash-{name}", f"0xraw-{name}")


async def reserve(
    store: TransactionStore,
    name: str,
    nonce: int | None = None,
    *,
    lowest: int = 0,
    sender: Address = ALICE,
    chain_id: int = CHAIN,
    due_at_ms: int = 0,
) -> StoredTransaction:
    return await store.reserve(
        request(name, sender),
        chain_id,
        nonce,
        lowest,
        lambda chosen: signed(name, chosen, chain_id),
        due_at_ms,
    )


async def nonce_of(store: TransactionStore, name: str) -> int:
    stored = await store.get(TransactionId(name))
    assert stored is not None
    assert stored.signed is not None
    return stored.signed.nonce


async def state_of(store: TransactionStore, name: str) -> TransactionState:
    stored = await store.get(TransactionId(name))
    assert stored is not None
    return stored.state


async def stored_as(store: TransactionStore, *names: str) -> list[StoredTransaction]:
    found = [await store.get(TransactionId(name)) for name in names]
    return [each for each in found if each is not None]


async def send(store: TransactionStore, *names: str, sender: Address = ALICE) -> None:
    for name in names:
        await reserve(store, name, sender=sender)
        await store.accept(TransactionId(name), 1)


async def test_a_stored_transaction_is_read_unchanged(store: TransactionStore) -> None:
    returned = await reserve(store, "one", due_at_ms=7)

    assert returned == await store.get(TransactionId("one"))
    assert returned == StoredTransaction(
        request("one"), CHAIN, TransactionState.SIGNED, signed("one", 0), 0, 7, None
    )
    assert await store.get(TransactionId("another")) is None


async def test_nonces_follow_one_another(store: TransactionStore) -> None:
    await asyncio.gather(*(reserve(store, str(number), lowest=3) for number in range(20)))

    assert sorted([await nonce_of(store, str(number)) for number in range(20)]) == list(range(3, 23))


async def test_the_lowest_nonce_is_the_nodes_when_all_before_are_mined(store: TransactionStore) -> None:
    await reserve(store, "one")

    assert (await reserve(store, "two", lowest=9)).signed == signed("two", 9)


async def test_gaps_are_filled_first(store: TransactionStore) -> None:
    for nonce in (0, 1, 3):
        await reserve(store, f"given-{nonce}", nonce)

    assert [await store.next_nonce(CHAIN, ALICE, lowest) for lowest in (0, 2, 3, 4)] == [2, 2, 4, 4]
    await reserve(store, "first")
    await reserve(store, "second")

    assert [await nonce_of(store, name) for name in ("first", "second")] == [2, 4]


async def test_accounts_and_chains_have_nonces_of_their_own(store: TransactionStore) -> None:
    await reserve(store, "one")
    await reserve(store, "two", sender=BOB)
    await reserve(store, "three", chain_id=OTHER_CHAIN)

    assert [await nonce_of(store, name) for name in ("one", "two", "three")] == [0, 0, 0]


async def test_a_failure_to_sign_leaves_nothing_behind(store: TransactionStore) -> None:
    def fail(_: int) -> SignedTransaction:
        raise UnavailableError("the log is full")

    with pytest.raises(UnavailableError, match="the log is full"):
        await store.reserve(request("one"), CHAIN, None, 0, fail, 0)

    assert await store.newest() is None
    assert await store.next_nonce(CHAIN, ALICE, 0) == 0


async def test_a_queued_transaction_becomes_signed(store: TransactionStore) -> None:
    queued = await store.keep(request("one"), None, None, 5)
    assert queued == await store.get(TransactionId("one"))
    assert (queued.state, queued.chain_id, queued.signed) == (TransactionState.QUEUED, None, None)
    await store.postpone({TransactionId("one"): 9}, "away")

    await reserve(store, "one", due_at_ms=20)

    now = await store.get(TransactionId("one"))
    assert now is not None
    assert (now.state, now.signed, now.chain_id) == (TransactionState.SIGNED, signed("one", 0), CHAIN)
    assert (now.attempts, now.next_attempt_at_ms, now.error) == (1, 20, None)


async def test_a_signed_transaction_is_not_signed_again(store: TransactionStore) -> None:
    await reserve(store, "one")

    with pytest.raises(ConflictError):
        await reserve(store, "one")

    assert await nonce_of(store, "one") == 0


async def test_a_refused_nonce_is_free_and_the_refusal_stays(store: TransactionStore) -> None:
    await reserve(store, "one")
    await store.refuse(TransactionId("one"), "no funds", 10)

    await reserve(store, "two")
    await store.accept(TransactionId("one"), 11)

    assert await nonce_of(store, "two") == 0
    one = await store.get(TransactionId("one"))
    assert one is not None
    assert (one.state, one.error) == (TransactionState.REFUSED, "no funds")


async def test_an_accepted_transaction_replaces_others_with_its_nonce(store: TransactionStore) -> None:
    await reserve(store, "first")
    await store.accept(TransactionId("first"), 1)
    await reserve(store, "second", 0)
    await reserve(store, "bystander", 1)
    await reserve(store, "stranger", 0, sender=BOB)

    await store.accept(TransactionId("second"), 2)

    assert [await state_of(store, name) for name in ("first", "second", "bystander", "stranger")] == [
        TransactionState.REPLACED,
        TransactionState.SENT,
        TransactionState.SIGNED,
        TransactionState.SIGNED,
    ]


async def test_a_transaction_does_not_replace_itself(store: TransactionStore) -> None:
    for name in ("first", "again"):
        await store.keep(request(name), CHAIN, signed("same", 0), 0)
        await store.accept(TransactionId(name), 1)

    assert [await state_of(store, name) for name in ("first", "again")] == [TransactionState.SENT] * 2


async def test_transactions_are_moved_unless_their_state_has_changed(
    store: TransactionStore,
) -> None:
    await send(store, "one", "two", "three")
    read = await stored_as(store, "one", "two", "three")
    await store.move(read[:1], TransactionEvent.LOSE_NONCE, "another", 3)

    await store.move(read[:2], TransactionEvent.MINE, None, 5)
    await store.move(read[2:], TransactionEvent.SET_BACK, "set back", 6)

    assert [(each.state, each.error) for each in await stored_as(store, "one", "two", "three")] == [
        (TransactionState.REPLACED, "another"),
        (TransactionState.MINED, None),
        (TransactionState.FORGOTTEN, "set back"),
    ]


@pytest.mark.parametrize(
    ("event", "is_free"),
    [
        (TransactionEvent.DROP, False),
        (TransactionEvent.UNMINE, False),
        (TransactionEvent.MINE, True),
        (TransactionEvent.LOSE_NONCE, True),
        (TransactionEvent.SET_BACK, True),
    ],
)
async def test_a_nonce_is_taken_while_its_transaction_lives(
    store: TransactionStore, event: TransactionEvent, is_free: bool
) -> None:
    await send(store, "one")

    await store.move(await stored_as(store, "one"), event, None, 5)

    assert await store.next_nonce(CHAIN, ALICE, 0) == (0 if is_free else 1)


async def test_the_queue_is_ordered_by_nonce_and_then_by_request(store: TransactionStore) -> None:
    await store.keep(request("queued-1"), CHAIN, None, 0)
    await store.keep(request("queued-2"), CHAIN, None, 0)
    await reserve(store, "late", 5)
    await reserve(store, "early", 4)
    await send(store, "sent")
    await reserve(store, "stranger", sender=BOB)
    await store.postpone({TransactionId("early"): FOREVER_MS}, "no connection")

    assert await store.queue(ALICE) == {"early": 1, "late": 0, "queued-1": 0, "queued-2": 0}
    assert list(await store.queue(ALICE)) == ["early", "late", "queued-1", "queued-2"]
    waiting = [each.request.transaction_id for each in await store.waiting(ALICE, 100)]
    assert waiting == ["queued-1", "queued-2", "late", "early"]
    assert len(await store.waiting(None, 100)) == 5


async def test_a_postponed_transaction_is_due_at_the_given_time(store: TransactionStore) -> None:
    await reserve(store, "one", due_at_ms=10)
    await reserve(store, "two", due_at_ms=20, sender=BOB)
    assert await store.next_due() == 10

    await store.postpone({TransactionId("one"): 30}, "no connection")
    await store.postpone({TransactionId("two"): 40}, "waits", is_attempt=False)

    assert [set(await store.senders_with_due(moment)) for moment in (29, 30, 40)] == [
        set(),
        {ALICE},
        {ALICE, BOB},
    ]
    assert await store.next_due() == 30
    stored = [await store.get(TransactionId(name)) for name in ("one", "two")]
    assert [each and (each.attempts, each.error) for each in stored] == [(1, "no connection"), (0, "waits")]


async def test_nothing_is_due_when_nothing_waits(store: TransactionStore) -> None:
    await reserve(store, "one")
    await store.accept(TransactionId("one"), 1)

    assert await store.next_due() is None


async def test_a_dropped_transaction_waits_again_with_its_bytes(store: TransactionStore) -> None:
    await send(store, "one")

    await store.move(await stored_as(store, "one"), TransactionEvent.DROP, "dropped", 50)

    assert [await store.senders_with_due(moment) for moment in (49, 50)] == [[], [ALICE]]
    (one,) = await stored_as(store, "one")
    assert (one.signed, one.error) == (signed("one", 0), "dropped")


async def test_transactions_that_may_be_on_the_chain_are_followed(store: TransactionStore) -> None:
    await send(store, "mined", "sent-1", "sent-2", "refused")
    await reserve(store, "signed")
    await store.keep(request("queued"), CHAIN, None, 0)
    await store.move(await stored_as(store, "mined"), TransactionEvent.MINE, None, 5)
    await store.move(await stored_as(store, "refused"), TransactionEvent.SET_BACK, None, 5)
    await reserve(store, "stranger", sender=BOB)
    await reserve(store, "elsewhere", chain_id=OTHER_CHAIN)

    def names(stored: Sequence[StoredTransaction]) -> list[str]:
        return [each.request.transaction_id for each in stored]

    assert names(await store.followed(CHAIN, ALICE, 0)) == ["mined", "sent-1", "sent-2", "signed"]
    assert names(await store.followed(CHAIN, ALICE, 2)) == ["sent-2", "signed"]
    assert await store.lowest_sent(CHAIN) == {ALICE: 1}
    assert set(await store.senders(CHAIN)) == {ALICE, BOB}
    assert await store.senders(OTHER_CHAIN) == [ALICE]


async def test_the_newest_that_matches_is_found(store: TransactionStore) -> None:
    assert await store.newest() is None
    await reserve(store, "one")
    await reserve(store, "two")
    await reserve(store, "three", sender=BOB)
    twin = SendRequest(TransactionId("twin"), ALICE, request("one").params, 9, CALLER)
    await store.keep(twin, CHAIN, None, 0)
    await reserve(store, "last", sender=BOB)

    found = [
        await store.newest(),
        await store.newest(ALICE),
        *await store.with_params(ALICE, request("one").params, 10),
        *await store.with_params(ALICE, request("one").params, 1),
        *await store.with_params(BOB, request("one").params, 10),
        *await store.with_hash("0xhash-three", 10),
        *await store.with_hash("0xhash", 10),
    ]

    assert [each and each.request.transaction_id for each in found] == [
        *("last", "twin", "twin", "one", "twin", "three")
    ]


async def test_transactions_settled_long_ago_are_swept(store: TransactionStore) -> None:
    for name in ("mined", "refused", "sent", "signed", "later"):
        await reserve(store, name)
    await store.accept(TransactionId("mined"), 1)
    await store.move(await stored_as(store, "mined"), TransactionEvent.MINE, None, 100)
    await store.refuse(TransactionId("refused"), "no", 101)
    await store.accept(TransactionId("sent"), 1)
    await store.refuse(TransactionId("later"), "no", 200)

    assert await store.sweep(200, 1) == 1
    assert await store.get(TransactionId("mined")) is None
    assert await store.sweep(200, 10) == 1
    assert await store.sweep(200, 10) == 0

    left = [each for each in ("sent", "signed", "later") if await store.get(TransactionId(each))]
    assert left == ["sent", "signed", "later"]


@pytest.fixture
def published(events: Events) -> list[DomainEvent]:
    """The events of the store."""
    heard: list[DomainEvent] = []
    events.subscribe(TransactionsDue, heard.append)
    events.subscribe(TransactionsPostponed, heard.append)
    return heard


async def test_a_waiting_transaction_is_announced_with_its_time(
    store: TransactionStore, published: list[DomainEvent]
) -> None:
    await store.keep(request("one"), None, None, 5)
    await reserve(store, "two", due_at_ms=7)
    await store.accept(TransactionId("two"), 1)
    await store.move(await stored_as(store, "two"), TransactionEvent.DROP, None, 9)
    await store.accept(TransactionId("two"), 10)
    await store.move(await stored_as(store, "two"), TransactionEvent.MINE, None, 11)

    assert published == [TransactionsDue(5), TransactionsDue(7), TransactionsDue(9)]


async def test_a_dropped_transaction_with_a_pause_is_announced_as_postponed(
    store: TransactionStore, published: list[DomainEvent]
) -> None:
    await send(store, "one", "two")
    dropped = await stored_as(store, "one", "two")
    published.clear()
    pauses_ms = {TransactionId("one"): 30, TransactionId("two"): 20}

    await store.move(dropped, TransactionEvent.DROP, "dropped", 50, pauses_ms=pauses_ms)

    assert published == [TransactionsPostponed(70)]
    assert [each.next_attempt_at_ms for each in await stored_as(store, "one", "two")] == [80, 70]


async def test_an_event_that_does_not_concern_a_transaction_writes_nothing(
    store: TransactionStore, published: list[DomainEvent]
) -> None:
    await send(store, "one")
    await store.move(await stored_as(store, "one"), TransactionEvent.MINE, None, 5)
    before = await stored_as(store, "one")
    published.clear()

    await store.move(before, TransactionEvent.MINE, "again", 9)
    await store.move(before, TransactionEvent.DROP, "dropped", 9)

    assert await stored_as(store, "one") == before
    assert await store.sweep(6, 10) == 1
    assert published == []
