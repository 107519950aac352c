"""Broadcasting and confirming: the node is given a signed transaction, and asked for its block."""

import re
from collections import Counter, defaultdict
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

import structlog

from bridge_server.ethereum.address import HexError
from bridge_server.kernel.background import KeyedLock, Stopping
from bridge_server.kernel.clock import Clock
from bridge_server.kernel.errors import BridgeError, InvalidInputError, UnavailableError
from bridge_server.wallet import models
from bridge_server.wallet.models import NodeError, NoNodeError, RpcCall, StoredTransaction
from bridge_server.wallet.node.connections import Attempt
from bridge_server.wallet.node.node import Node
from bridge_server.wallet.transactions.requests import Filling, nonce_of
from bridge_server.wallet.transactions.states import DropPauses, TransactionEvent, delay_ms, next_state
from bridge_server.wallet.transactions.store import TransactionStore

ZERO_HASH = "0x" + "00" * 32

log = structlog.get_logger()


# Each kind of node has its own words: geth, erigon, reth, nethermind, besu, openethereum, anvil, and earlier
# versions of them. These say that it has the transaction already.
_KNOWN = re.compile(
    r"already ?known|\bknown transaction|already (?:been )?imported|same hash"
    r"|already (?:in|exists in) (?:the )?(?:mem|tx|transaction )?pool",
    re.IGNORECASE,
)
# The node cannot take it now; nothing is said of the transaction itself.
_PASSING_CODES = frozenset({-32603, -32005, -32002, 429})
_PASSING = re.compile(
    r"pool is full|pool limit|queue is full|txpool.*overflow|timed? ?out|too many requests|rate limit"
    r"|syncing|not synced|try again|temporarily|unavailable|internal error|overloaded|shutting down",
    re.IGNORECASE,
)
# These are about the transaction, whatever code comes with them: besu's -32005 is too much gas.
_INVALID = re.compile(
    r"nonce|underpriced|insufficient|intrinsic|gas ?limit|gas ?price|fee|balance|signature|chain ?id|invalid"
    r"|exceeds|rlp|revert|size|sender",
    re.IGNORECASE,
)
# These may pass: the account gets funds, the base fee falls, the transaction with its nonce goes.
_PRICE = re.compile(
    r"underpriced|insufficient ?(?:funds|balance)|account balance|fee ?too ?low|base ?fee|gas ?price"
    r"|(?:fee|tip)\b.*\b(?:low|less|below|minimum)|could not replace",
    re.IGNORECASE,
)


def says_not_at_this_price(error: NodeError) -> bool:
    """Whether an invalid transaction is so only for its price or its account's funds, which change."""
    return _PRICE.search(error.detail) is not None


class OtherChainError(models.WrongChainError):
    """The transaction was requested for another chain than the wallet is on now."""


# Log lines for transactions that the node has lost: one a minute for each account and reason.

_MINUTE_US = 60_000_000


class LossReport:
    """Writes `transactions_lost`. The count of a line includes all losses since the last line."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._written_at_us: dict[tuple[models.Address, str], int] = {}
        self._unwritten: Counter[tuple[models.Address, str]] = Counter()

    def add(self, account: models.Address, count: int, reason: str) -> None:
        """Count transactions of the account that were lost."""
        key, now_us = (account, reason), self._clock.elapsed_us()
        while self._written_at_us and now_us - next(iter(self._written_at_us.values())) >= _MINUTE_US:
            del self._written_at_us[next(iter(self._written_at_us))]
        self._unwritten[key] += count
        if key not in self._written_at_us:
            self._written_at_us[key] = now_us
            log.warning("transactions_lost", account=account, count=self._unwritten.pop(key), reason=reason)


_ASKED_AT_ONCE = 50

_REASONS = {
    TransactionEvent.DROP: "The node has dropped it.",
    TransactionEvent.LOSE_NONCE: "Its nonce is used on the chain, and the node does not know it.",
    TransactionEvent.SET_BACK: "The node's chain was set back.",
}
_LOSSES = (TransactionEvent.DROP, TransactionEvent.SET_BACK)


class Broadcasting:
    """Gives transactions to the node, an account's one after the other, and compares what is stored, sent or
    mined, with what the node knows. The account's `turn` must be held. A transaction that the node has
    dropped is broadcast again, after growing pauses. When the node does not know a mined one, the chain was
    set back, as development nodes do: all transactions of the account that it does not know are forgotten.
    `attempt` is passed to `Node.ask`.
    """

    def __init__(self, store: TransactionStore, node: Node, stopping: Stopping, clock: Clock) -> None:
        self._store = store
        self._node = node
        self._stopping = stopping
        self._clock = clock
        self.filling = Filling(node)
        """Asks the node for what a request leaves open."""
        self._locks = KeyedLock()
        self._pauses = DropPauses(clock)
        self._losses = LossReport(clock)
        self._is_set_back = False  # and not every account has been read since
        self._awaits_blocks = True
        self._announced = 0
        node.on_set_back(self._forget)

    def turn(self, sender: models.Address) -> AbstractAsyncContextManager[None]:
        """Have the account for oneself inside."""
        return self._locks.taken(sender)

    async def broadcast(self, stored: StoredTransaction, attempt: Attempt) -> str:
        """Broadcast a new transaction: its hash, or the zero hash when the node does not take it now. Raises
        TransactionRefusedError when the node calls it invalid, WrongChainError.
        """
        assert stored.signed is not None
        try:
            refusal = await self._try(stored, attempt)
        except NoNodeError as error:
            await self.postpone({stored.request.transaction_id: stored.attempts}, error.detail)
            return ZERO_HASH
        except models.WrongChainError as error:  # no node has seen it
            await self._refuse(stored, error.detail)
            raise
        if refusal is not None:
            await self._refuse(stored, refusal.detail)
            raise models.TransactionRefusedError(refusal.detail, refusal.data)
        return stored.signed.transaction_hash

    async def broadcast_again(self, stored: StoredTransaction, attempt: Attempt) -> None:
        """Broadcast a transaction whose hash a client may know: it keeps its nonce while it may become valid.
        A refusal is stored, and not raised. Raises NoNodeError, WrongChainError: it waits still.
        """
        refusal = await self._try(stored, attempt)
        if refusal is None:
            return
        if says_not_at_this_price(refusal):
            transaction_id = stored.request.transaction_id
            if refusal.detail != stored.error:
                log.warning("transaction_postponed", transaction_id=transaction_id, reason=refusal.detail)
            await self.postpone({transaction_id: stored.attempts}, refusal.detail)
        else:
            await self._refuse(stored, refusal.detail)

    async def require_chain(self, stored: StoredTransaction, attempt: Attempt) -> None:
        """Raise OtherChainError unless it is for the wallet's chain, and NoNodeError when that is unknown."""
        own = await self._node.chain_id(attempt)
        if stored.chain_id not in (None, own):
            raise OtherChainError(f"It is for chain {stored.chain_id}, and the wallet is on chain {own}.")

    async def settle(self, stored: StoredTransaction, error: BridgeError) -> None:
        """Store the reason why a waiting transaction was not broadcast, for good or for now."""
        if isinstance(error, models.TransactionRefusedError):
            return  # that is stored already
        if isinstance(error, UnavailableError) and self._stopping.has_begun:
            return  # it goes on after the restart
        if isinstance(error, models.SignatureRejectedError | InvalidInputError):
            await self._refuse(stored, error.detail)
        else:  # such as an account that is locked, or a node that gives no price
            await self.postpone({stored.request.transaction_id: stored.attempts}, error.detail)

    async def _refuse(self, stored: StoredTransaction, error: str) -> None:
        """Give the transaction up, and its nonce back."""
        transaction_id = stored.request.transaction_id
        log.info("transaction_refused", transaction_id=transaction_id, reason=error)
        await _try_to_store(self._store.refuse(transaction_id, error, self._clock.now_ms()))

    async def postpone(self, attempts: Mapping[models.TransactionId, int], error: str) -> None:
        """Try these again later, and later still after each attempt that fails."""
        now_ms = self._clock.now_ms()
        due = {transaction_id: now_ms + delay_ms(number) for transaction_id, number in attempts.items()}
        await _try_to_store(self._store.postpone(due, error))

    async def catch_up(self, sender: models.Address, attempt: Attempt) -> int:
        """The account's next nonce as far as the node knows; transactions from there on are read, and what
        the node has dropped is in the account's queue then. Raises NoNodeError, WrongChainError, NodeError.
        """
        chain_id = await self._node.chain_id(attempt)
        count = await self.filling.pending_count(sender, attempt)
        await self._examine(chain_id, sender, count, count)
        return count

    def is_paused(self, transaction_id: models.TransactionId) -> bool:
        """Whether the node has dropped it too often for an immediate broadcast."""
        return self._pauses.is_paused(transaction_id)

    @property
    def awaits_blocks(self) -> bool:
        """Whether a transaction may be sent and not yet known to be mined."""
        return self._awaits_blocks

    def expect_blocks(self) -> None:
        """Note that a transaction is on its way."""
        self._announced += 1
        self._awaits_blocks = True

    async def settle_mined(self, transaction_hash: str) -> None:
        """Store that a transaction is mined: an answer of the node to a client has named its block."""
        found = await self._store.with_hash(transaction_hash, _ASKED_AT_ONCE)
        await self._store.move(found, TransactionEvent.MINE, None, self._clock.now_ms())

    async def check(self) -> None:
        """Read each account of which something is sent or mined. Raises NoNodeError, WrongChainError."""
        is_set_back = self._is_set_back
        await self._check_all()
        if is_set_back:  # from the beginning: all of them were read after that
            self._is_set_back = False

    async def _try(self, stored: StoredTransaction, attempt: Attempt) -> NodeError | None:
        """None when the node has it now, and that is stored; otherwise the reason why it is invalid."""
        signed = stored.signed
        assert signed is not None
        await self.require_chain(stored, attempt)
        (answer,) = await self._node.ask([RpcCall("eth_sendRawTransaction", [signed.raw])], attempt)
        if isinstance(answer, NodeError) and not await self._has_it_anyway(answer, signed.transaction_hash):
            return answer
        await _try_to_store(self._store.accept(stored.request.transaction_id, self._clock.now_ms()))
        return None

    async def _has_it_anyway(self, error: NodeError, transaction_hash: str) -> bool:
        """Whether the node, which did not take the transaction, has it already, in its pool or in a block."""
        if _KNOWN.search(error.detail):
            return True
        is_passing = error.rpc_code in _PASSING_CODES and not _INVALID.search(error.detail)
        if is_passing or _PASSING.search(error.detail):
            raise NoNodeError(f"The node does not take it now: {error.detail}")
        (found,) = await self._node.ask([RpcCall("eth_getTransactionByHash", [transaction_hash])])
        if isinstance(found, NodeError):
            raise NoNodeError(f"The node does not report whether it has it: {found.detail}") from error
        return found is not None

    async def _check_all(self) -> None:
        chain_id = await self._node.chain_id()
        announced = self._announced
        is_any_waiting = await self._store.next_due() is not None
        lowest_sent = await self._store.lowest_sent(chain_id)
        self._awaits_blocks = is_any_waiting or bool(lowest_sent) or announced != self._announced
        for sender in await self._store.senders(chain_id):
            async with self.turn(sender):
                count = await self._count(sender)
                if count is not None:
                    await self._examine(chain_id, sender, count, lowest_sent.get(sender, count))

    async def _examine(self, chain_id: int, sender: models.Address, count: int, from_nonce: int) -> None:
        """Read those from the lower of both nonces on. The node says that the account has sent `count`."""
        followed = [
            each
            for each in await self._store.followed(chain_id, sender, min(from_nonce, count))
            if each.state is not models.TransactionState.MINED or _nonce(each) >= count
        ]
        if all(each.state is models.TransactionState.SIGNED for each in followed) and not self._is_set_back:
            return
        found = await self._find(followed)
        pairs = list(zip(followed, found, strict=True))
        if any(each.state is models.TransactionState.MINED and answer is None for each, answer in pairs):
            self._is_set_back = True  # for the other accounts too, which are read next
        events: dict[TransactionEvent, list[StoredTransaction]] = defaultdict(list)
        for each, answer in pairs:
            event = _event(answer, _nonce(each) < count, self._is_set_back)
            if event is not None and next_state(each.state, event) is not each.state:
                events[event].append(each)
        if TransactionEvent.LOSE_NONCE in events and await self._count(sender) != count:
            return  # the chain has moved meanwhile, perhaps back: the next check reads everything anew
        for event, transactions in events.items():
            await self._store_event(sender, event, transactions)

    async def _forget(self) -> None:
        """Read all accounts: a client has set the chain back."""
        self._is_set_back = True
        try:
            await self.check()
        except BridgeError as error:  # the next check knows it still
            log.warning("node_not_asked", reason=error.detail)

    async def _count(self, sender: models.Address) -> int | None:
        """The number of the account's transactions on the chain; None when the node gives no number."""
        (answer,) = await self._node.ask([RpcCall("eth_getTransactionCount", [sender, "latest"])])
        try:
            return nonce_of(answer)
        except HexError:
            return None

    async def _find(self, followed: Sequence[StoredTransaction]) -> list[Any]:
        """The node's answer to the hash of each."""
        hashes = [each.signed and each.signed.transaction_hash for each in followed]
        calls = [RpcCall("eth_getTransactionByHash", [each]) for each in hashes]
        found: list[Any] = []
        for start in range(0, len(calls), _ASKED_AT_ONCE):
            found += await self._node.ask(calls[start : start + _ASKED_AT_ONCE])
        return found

    async def _store_event(
        self, sender: models.Address, event: TransactionEvent, transactions: Sequence[StoredTransaction]
    ) -> None:
        reason = _REASONS.get(event)
        if reason is not None and event in _LOSSES:
            self._losses.add(sender, len(transactions), reason)
        pauses_ms = {}
        if event is TransactionEvent.DROP:
            ids = (each.request.transaction_id for each in transactions)
            pauses_ms = {each: self._pauses.add(each) for each in ids}
        await self._store.move(transactions, event, reason, self._clock.now_ms(), pauses_ms=pauses_ms)


async def _try_to_store(change: Awaitable[None]) -> None:
    """Store it if that is possible. Otherwise the transaction still waits, and is broadcast once more."""
    try:
        await change
    except UnavailableError as error:
        log.warning("transaction_not_settled", reason=error.detail)


def _nonce(stored: StoredTransaction) -> int:
    assert stored.signed is not None
    return stored.signed.nonce


def _event(answer: Any, is_nonce_used: bool, is_set_back: bool) -> TransactionEvent | None:
    """The event that the node's answer to a transaction's hash stands for, if any."""
    if isinstance(answer, dict):
        if answer.get("blockNumber") is None:
            return TransactionEvent.UNMINE
        # Several nodes may answer, and some lag behind: the account's count must include its nonce.
        return TransactionEvent.MINE if is_nonce_used or is_set_back else None
    if answer is not None:  # such as an error
        return None
    if is_set_back:
        return TransactionEvent.SET_BACK
    return TransactionEvent.LOSE_NONCE if is_nonce_used else TransactionEvent.DROP
