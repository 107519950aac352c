"""Transactions in SQL."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

from bridge_server.kernel.errors import ConflictError
from bridge_server.storage.database import (
    Database,
    Row,
    Statement,
    Step,
    Transaction,
    Turn,
    Turns,
    adding_transaction,
    scalar,
    transaction,
)
from bridge_server.storage.turns import alone, each_once, sweeping
from bridge_server.wallet.models import (
    Address,
    SendRequest,
    SignedTransaction,
    StoredTransaction,
    TransactionId,
)
from bridge_server.wallet.transactions import sql
from bridge_server.wallet.transactions.events import (
    TransactionsMoved,
    TransactionsOwed,
    TransactionsPostponed,
)
from bridge_server.wallet.transactions.moves import moves
from bridge_server.wallet.transactions.rows import (
    queued_transaction,
    read_all,
    read_one,
    signed_transaction,
    values_of,
)
from bridge_server.wallet.transactions.states import TransactionEvent

Fence: TypeAlias = Callable[[], Transaction[None]]
"""Statements that find out whether this process has the wallet still, and keep it until the commit.

Raises UnavailableError when another one has it.
"""

_NO_PAUSES: Mapping[TransactionId, int] = MappingProxyType({})


def _of_request(request: SendRequest, *_: object, **__: object) -> Turns:
    return alone("wallet", request.sender)


def _of_senders(_: Iterable[Step], senders: Collection[Address] = ()) -> Turns:
    return each_once(Turn("wallet", sender) for sender in sorted(senders))


class TransactionStore:
    """Transactions and their states, durable from the moment that a method returns.

    A commit that has a transaction wait for the node publishes `TransactionsOwed`.
    """

    def __init__(self, database: Database, fence: Fence | None = None) -> None:
        """Each write but a sweep begins with the `fence` of the process that has the wallet."""
        self.database = database
        self._fence = fence

    @transaction(turns=_of_request)
    def reserve(
        self,
        request: SendRequest,
        chain_id: int,
        nonce: int | None,
        lowest_nonce: int,
        sign: Callable[[int], SignedTransaction],
        due_at_ms: int,
    ) -> Transaction[StoredTransaction]:
        """Reserve a nonce, sign with it and store the signed bytes, in one transaction.

        Without a `nonce`, it is the lowest from `lowest_nonce` on which no live transaction of the account
        (signed or sent) has. With a given `nonce`, the transaction may replace another. `sign` runs in
        another thread, perhaps more than once; when it raises, nothing is stored. A queued request becomes
        signed; raises ConflictError when it is queued no longer.
        """
        yield from self._fenced()
        if self.database.is_full and not (yield Statement(sql.GET, (request.transaction_id,))):
            self.database.require_room()
        chosen = nonce
        if chosen is None:
            rows = yield Statement(sql.LIVE_NONCES, (chain_id, request.sender, lowest_nonce))
            chosen = _first_gap(rows, lowest_nonce)
        stored = signed_transaction(request, sign(chosen), due_at_ms)
        ((changed,),) = yield Statement(sql.UPSERT, values_of(stored))
        if not changed:
            raise ConflictError("The transaction is queued no longer.")
        yield TransactionsOwed(due_at_ms)
        return stored

    @adding_transaction(turns=_of_request)
    def keep(
        self, request: SendRequest, chain_id: int | None, signed: SignedTransaction | None, due_at_ms: int
    ) -> Transaction[StoredTransaction]:
        """Keep a request: queued as it came, or signed already (raw transactions)."""
        yield from self._fenced()
        stored = queued_transaction(request, chain_id, due_at_ms)
        if signed is not None:
            stored = signed_transaction(request, signed, due_at_ms)
        yield Statement(sql.UPSERT, values_of(stored))
        yield TransactionsOwed(due_at_ms)
        return stored

    async def next_nonce(self, chain_id: int, sender: Address, lowest_nonce: int) -> int:
        """The nonce that `reserve` would take, without taking it."""
        rows = await self.database.read(sql.LIVE_NONCES, (chain_id, sender, lowest_nonce))
        return _first_gap(rows, lowest_nonce)

    async def get(self, transaction_id: TransactionId) -> StoredTransaction | None:
        """A transaction by its id."""
        return read_one(await self.database.read(sql.GET, (transaction_id,)))

    @transaction
    def accept(self, transaction_id: TransactionId, now_ms: int) -> Transaction[None]:
        """The node has it. Others of its account with the same nonce are replaced."""
        yield from self._fenced()
        rows = yield Statement(sql.ACCEPT, (transaction_id,))
        for *place, transaction_hash in rows:
            error = f"Transaction {transaction_hash} has its nonce."
            yield Statement(sql.REPLACE_OTHERS, (error, now_ms, *place, transaction_hash))
        yield TransactionsMoved()

    async def refuse(self, transaction_id: TransactionId, error: str, now_ms: int) -> None:
        """The node or the approving person refused it: its nonce is free."""
        await self._write([Statement(sql.REFUSE, (error, now_ms, transaction_id))])

    async def move(
        self,
        stored: Sequence[StoredTransaction],
        event: TransactionEvent,
        error: str | None,
        now_ms: int,
        *,
        pauses_ms: Mapping[TransactionId, int] = _NO_PAUSES,
    ) -> None:
        """Move these to the state after the event. Skip any whose state has changed since it was read.

        Skip also any which the event does not concern. Transactions that wait for the node then are due at
        once, or after their pauses.
        """
        steps = moves(stored, event, error, now_ms, pauses_ms)
        if steps:
            await self._write(steps, {each.request.sender for each in stored})

    async def postpone(
        self, due_at_ms: Mapping[TransactionId, int], error: str, *, is_attempt: bool = True
    ) -> None:
        """Make the next attempts for these at the given times, and note why the last ones failed.

        Publishes `TransactionsPostponed` with the first of the times.
        """
        await self._write(
            [
                Statement(sql.POSTPONE, (int(is_attempt), moment_ms, error, transaction_id))
                for transaction_id, moment_ms in due_at_ms.items()
            ]
            + [TransactionsPostponed(moment_ms) for moment_ms in sorted(due_at_ms.values())[:1]]
        )

    async def senders_with_due(self, due_at_ms: int) -> Sequence[Address]:
        """The accounts with a transaction that waits for the node and is due until then."""
        rows = await self.database.read(sql.SENDERS_WITH_DUE, (due_at_ms,))
        return list({Address(sender): None for (sender,) in rows})

    async def queue(self, sender: Address) -> Mapping[TransactionId, int]:
        """The account's transactions that wait for the node, due or not, with their numbers of attempts.

        They are in the order in which they must be broadcast: by nonce, then in the order of the requests.
        """
        rows = await self.database.read(sql.QUEUE, (sender,))
        return {TransactionId(transaction_id): attempts for transaction_id, attempts in rows}

    async def next_due(self) -> int | None:
        """The time of the next attempt; None when nothing waits for the node."""
        due_at_ms: int | None
        ((due_at_ms,),) = await self.database.read(sql.NEXT_DUE)
        return due_at_ms

    async def senders(self, chain_id: int) -> Sequence[Address]:
        """The accounts with signed, sent or mined transactions."""
        rows = await self.database.read(sql.SENDERS, (chain_id,))
        return [Address(sender) for (sender,) in rows]

    async def lowest_sent(self, chain_id: int) -> Mapping[Address, int]:
        """The accounts with sent transactions, and the lowest nonce among these."""
        rows = await self.database.read(sql.LOWEST_SENT, (chain_id,))
        return {Address(sender): nonce for sender, nonce in rows}

    async def followed(self, chain_id: int, sender: Address, from_nonce: int) -> Sequence[StoredTransaction]:
        """The account's signed, sent and mined transactions from this nonce on, by nonce."""
        return read_all(await self.database.read(sql.FOLLOWED_TRANSACTIONS, (chain_id, sender, from_nonce)))

    async def newest(self, sender: Address | None = None) -> StoredTransaction | None:
        """The newest transaction, of one account or of all."""
        if sender is None:
            return read_one(await self.database.read(sql.NEWEST))
        return read_one(await self.database.read(sql.NEWEST_OF_SENDER, (sender,)))

    async def with_params(self, sender: Address, params: bytes, limit: int) -> Sequence[StoredTransaction]:
        """The account's transactions with these params, newest first."""
        return read_all(await self.database.read(sql.WITH_PARAMS, (sender, params, limit)))

    async def with_hash(self, transaction_hash: str, limit: int) -> Sequence[StoredTransaction]:
        """The transactions with this hash (DATA in lower case), newest first."""
        return read_all(await self.database.read(sql.WITH_HASH, (transaction_hash, limit)))

    async def waiting(self, sender: Address | None, limit: int) -> Sequence[StoredTransaction]:
        """Transactions that wait for the node, of one account or of all, in the order of the requests."""
        return read_all(await self.database.read(sql.WAITING_TRANSACTIONS, (sender, limit)))

    @transaction(turns=sweeping("transactions"))
    def sweep(self, before_ms: int, limit: int) -> Transaction[int]:
        """Delete transactions that were settled before then; returns how many."""
        return scalar(int, (yield Statement(sql.SWEEP, (before_ms, limit))))

    @transaction(turns=_of_senders)
    def _write(self, steps: Iterable[Step], senders: Collection[Address] = ()) -> Transaction[None]:
        yield from self._fenced()
        steps = list(steps)
        for step in steps:  # noqa: UP028  a list takes no rows
            yield step
        yield TransactionsMoved()

    def _fenced(self) -> Transaction[None]:
        if self._fence is not None:
            yield from self._fence()


def _first_gap(rows: Sequence[Row], lowest: int) -> int:
    """The lowest nonce from `lowest` on that is not in the rows, which are in order."""
    for (nonce,) in rows:
        if nonce != lowest:
            break
        lowest += 1
    return lowest
