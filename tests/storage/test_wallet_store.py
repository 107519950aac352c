"""The store of transactions: nonces are reserved once, and settled transactions stay settled.

The store is asked on both engines: its races and its order show to clients only by chance.
"""

import pytest

from bridge_server.kernel.errors import ConflictError, UnavailableError
from bridge_server.storage.database import Database
from bridge_server.wallet.models import Address, Caller, SendRequest, SignedTransaction, StoredTransaction
from bridge_server.wallet.models import TransactionId as Id
from bridge_server.wallet.models import TransactionState as State
from bridge_server.wallet.transactions.states import TransactionEvent
from bridge_server.wallet.transactions.store import TransactionStore

ALICE, BOB = Address("0x" + "a1" * 20), Address("0x" + "b0" * 20)
CALLER = Caller("192.0.2.1", "https://app.example.org", "request-7")
CHAIN = 1


@pytest.fixture
def store(rooms: Database) -> TransactionStore:
    return TransactionStore(rooms)


def request(name: str, sender: Address = ALICE) -> SendRequest:
    return SendRequest(Id(name), sender, f'{{"name":"{name}"}}'.encode(), 0, CALLER)


def signed(name: str, nonce: int, chain_id: int = CHAIN) -> SignedTransaction:
    return SignedTransaction(chain_id, nonce, f"0xhash-{name}", f"0xraw-{name}")


async def reserve(
    store: TransactionStore,
    name: str,
    nonce: int | None = None,
    *,
    sender: Address = ALICE,
    chain_id: int = CHAIN,
    due_at_ms: int = 0,
) -> StoredTransaction:
    def sign(chosen: int) -> SignedTransaction:
        return signed(name, chosen, chain_id)

    return await store.reserve(request(name, sender), chain_id, nonce, 0, sign, due_at_ms)


async def stored_as(store: TransactionStore, *names: str) -> list[StoredTransaction]:
    found = [await store.get(Id(name)) for name in names]
    return [each for each in found if each is not None]


async def nonces(store: TransactionStore, *names: str) -> list[int]:
    return [each.signed.nonce for each in await stored_as(store, *names) if each.signed is not None]


async def states(store: TransactionStore, *names: str) -> list[tuple[State, str | None]]:
    return [(each.state, each.error) for each in await stored_as(store, *names)]


async def send(store: TransactionStore, *names: str) -> None:
    for name in names:
        await reserve(store, name)
        await store.accept(Id(name), 1)


async def test_gaps_are_filled_first_for_each_account_and_chain(store: TransactionStore) -> None:
    for nonce in (0, 1, 3):
        await reserve(store, f"given-{nonce}", nonce)
    assert [await store.next_nonce(CHAIN, ALICE, lowest) for lowest in (0, 2, 3, 4)] == [2, 2, 4, 4]

    await reserve(store, "first")
    await reserve(store, "second")
    await reserve(store, "of another account", sender=BOB)
    await reserve(store, "on another chain", chain_id=5)
    assert await nonces(store, "first", "second", "of another account", "on another chain") == [2, 4, 0, 0]


async def test_a_failure_to_sign_leaves_nothing_behind(store: TransactionStore) -> None:
    def fail(_: int) -> SignedTransaction:
        raise UnavailableError("the log is full")

    with pytest.raises(UnavailableError, match="the log is full"):
        await store.reserve(request("one"), CHAIN, None, 0, fail, 0)
    assert await store.newest() is None
    assert await store.next_nonce(CHAIN, ALICE, 0) == 0


async def test_a_queued_transaction_is_signed_once(store: TransactionStore) -> None:
    queued = await store.keep(request("one"), None, None, 5)
    assert [queued] == await stored_as(store, "one")
    assert (queued.state, queued.chain_id, queued.signed) == (State.QUEUED, None, None)
    await store.postpone({Id("one"): 9}, "away")

    await reserve(store, "one", due_at_ms=20)
    (now,) = await stored_as(store, "one")
    assert (now.state, now.signed, now.chain_id) == (State.SIGNED, signed("one", 0), CHAIN)
    assert (now.attempts, now.next_attempt_at_ms, now.error) == (1, 20, None)

    with pytest.raises(ConflictError):
        await reserve(store, "one")
    assert await stored_as(store, "one") == [now]


async def test_a_refused_nonce_is_free_and_the_refusal_stays(store: TransactionStore) -> None:
    await reserve(store, "one")
    await store.refuse(Id("one"), "no funds", 10)
    await reserve(store, "two")
    await store.accept(Id("one"), 11)
    assert await nonces(store, "two") == [0]
    assert await states(store, "one") == [(State.REFUSED, "no funds")]


async def test_an_accepted_transaction_replaces_others_with_its_nonce(store: TransactionStore) -> None:
    await send(store, "first")
    await reserve(store, "second", 0)
    await reserve(store, "bystander", 1)
    await reserve(store, "stranger", 0, sender=BOB)
    await store.accept(Id("second"), 2)

    found = await stored_as(store, "first", "second", "bystander", "stranger")
    assert [each.state for each in found] == [State.REPLACED, State.SENT, State.SIGNED, State.SIGNED]


async def test_transactions_are_moved_unless_their_state_has_changed(store: TransactionStore) -> None:
    names = ("one", "two", "three")
    await send(store, *names)
    read = await stored_as(store, *names)
    await store.move(read[:1], TransactionEvent.LOSE_NONCE, "another", 3)
    await store.move(read[:2], TransactionEvent.MINE, None, 5)
    await store.move(read[2:], TransactionEvent.SET_BACK, "set back", 6)

    moved = await stored_as(store, *names)
    assert await states(store, *names) == [
        (State.REPLACED, "another"),
        (State.MINED, None),
        (State.FORGOTTEN, "set back"),
    ]
    await store.move(moved[1:2], TransactionEvent.MINE, "again", 9)
    await store.move(moved[1:2], TransactionEvent.DROP, "dropped", 9)
    assert await stored_as(store, *names) == moved, "neither event concerns a mined transaction"


@pytest.mark.parametrize(
    ("event", "next_nonce"),
    [
        (TransactionEvent.DROP, 1),
        (TransactionEvent.UNMINE, 1),
        (TransactionEvent.MINE, 0),
        (TransactionEvent.LOSE_NONCE, 0),
        (TransactionEvent.SET_BACK, 0),
    ],
)
async def test_the_free_nonces(store: TransactionStore, event: TransactionEvent, next_nonce: int) -> None:
    await send(store, "one")
    await store.move(await stored_as(store, "one"), event, None, 5)
    assert await store.next_nonce(CHAIN, ALICE, 0) == next_nonce
