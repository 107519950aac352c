"""Confirmation of broadcast transactions: mined, replaced, dropped by the node, or lost with their chain."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import structlog

from bridge_server.ethereum.hex_data import HexError
from bridge_server.kernel.clock import Clock
from bridge_server.kernel.errors import BridgeError
from bridge_server.kernel.turns import KeyedLock
from bridge_server.wallet.models import (
    Address,
    RpcCall,
    StoredTransaction,
    TransactionId,
    TransactionState,
)
from bridge_server.wallet.node.node import Node
from bridge_server.wallet.node.pool import Attempt
from bridge_server.wallet.transactions.backoff import DropPauses
from bridge_server.wallet.transactions.filling import Filling
from bridge_server.wallet.transactions.loss_report import LossReport
from bridge_server.wallet.transactions.requests import nonce_of
from bridge_server.wallet.transactions.states import TransactionEvent, next_state
from bridge_server.wallet.transactions.store import TransactionStore

_ASKED_AT_ONCE = 50

_REASONS = {
    TransactionEvent.DROP: "The node has dropped it.",
    TransactionEvent.LOSE_NONCE: "Its nonce is used on the chain, and the node does not know it.",
    TransactionEvent.SET_BACK: "The node's chain was set back.",
}
_LOSSES = (TransactionEvent.DROP, TransactionEvent.SET_BACK)

log = structlog.get_logger()


class Confirming:
    """Compares the stored transactions, sent or mined, with the node's.

    A transaction that the node has dropped is broadcast again, after growing pauses. But when the node does
    not know a mined one, the chain was set back, as development nodes do. Then all transactions of the
    account that the node does not know are forgotten: they were meant for a history that is gone.
    """

    def __init__(
        self, store: TransactionStore, node: Node, filling: Filling, locks: KeyedLock, clock: Clock
    ) -> None:
        self._store = store
        self._node = node
        self._filling = filling
        self._locks = locks
        self._clock = clock
        self._pauses = DropPauses(clock)
        self._losses = LossReport(clock)
        self._is_set_back = False  # and not every account has been looked at since
        self._awaits_blocks = True
        self._announced = 0
        node.on_set_back(self._forget)

    def is_paused(self, transaction_id: TransactionId) -> bool:
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
        """Look at the transaction soon: an answer of the node to a client has named its block."""
        found = await self._store.with_hash(transaction_hash, _ASKED_AT_ONCE)
        await self._store.move(found, TransactionEvent.MINE, None, self._clock.now_ms())

    async def check(self) -> None:
        """Look at each account of which something is sent or mined. Raises NoNodeError, WrongChainError."""
        is_set_back = self._is_set_back
        await self._check_all()
        if is_set_back:  # from the beginning: all of them were looked at with that in mind
            self._is_set_back = False

    async def _check_all(self) -> None:
        chain_id = await self._node.chain_id()
        announced = self._announced
        is_any_waiting = await self._store.next_due() is not None
        lowest_sent = await self._store.lowest_sent(chain_id)
        self._awaits_blocks = is_any_waiting or bool(lowest_sent) or announced != self._announced
        for sender in await self._store.senders(chain_id):
            async with self._locks.taken(sender):
                count = await self._count(sender)
                if count is not None:
                    await self._look_at(chain_id, sender, count, lowest_sent.get(sender, count))

    async def catch_up(self, sender: Address, attempt: Attempt) -> int:
        """The account's next nonce as far as the node knows; transactions from there on are looked at.

        Transactions that the node has dropped are in the account's queue after that. The account's lock must
        be held; `attempt` is passed to `Node.ask`. Raises NoNodeError, WrongChainError, NodeError.
        """
        chain_id = await self._node.chain_id(attempt)
        count = await self._filling.pending_count(sender, attempt)
        await self._look_at(chain_id, sender, count, count)
        return count

    async def _look_at(self, chain_id: int, sender: Address, count: int, from_nonce: int) -> None:
        """Look at everything from the `count` on, or from a lower nonce if that is one.

        `count` is how many transactions of the account the node says there are.
        """
        followed = [
            each
            for each in await self._store.followed(chain_id, sender, min(from_nonce, count))
            if each.state is not TransactionState.MINED or _nonce(each) >= count
        ]
        if all(each.state is TransactionState.SIGNED for each in followed) and not self._is_set_back:
            return
        found = await self._find(followed)
        pairs = list(zip(followed, found, strict=True))
        if any(each.state is TransactionState.MINED and answer is None for each, answer in pairs):
            self._is_set_back = True  # for the other accounts too, which are looked at next
        events: dict[TransactionEvent, list[StoredTransaction]] = defaultdict(list)
        for each, answer in pairs:
            event = _event(answer, _nonce(each) < count, self._is_set_back)
            if event is not None and next_state(each.state, event) is not each.state:
                events[event].append(each)
        for event, transactions in events.items():
            await self._store_event(sender, event, transactions)

    async def _forget(self) -> None:
        """Look at all accounts: a client has set the chain back."""
        self._is_set_back = True
        try:
            await self.check()
        except BridgeError as error:  # the next check knows it still
            log.warning("node_not_asked", reason=error.detail)

    async def _count(self, sender: Address) -> int | None:
        """The number of the account's transactions on the chain; None when the node gives no number."""
        (answer,) = await self._node.ask([RpcCall("eth_getTransactionCount", [sender, "latest"])])
        try:
            return nonce_of(answer)
        except HexError:
            return None

    async def _find(self, followed: Sequence[StoredTransaction]) -> list[Any]:
        """The node's answer to the hash of each."""
        calls = [
            RpcCall("eth_getTransactionByHash", [each.signed and each.signed.transaction_hash])
            for each in followed
        ]
        found: list[Any] = []
        for start in range(0, len(calls), _ASKED_AT_ONCE):
            found += await self._node.ask(calls[start : start + _ASKED_AT_ONCE])
        return found

    async def _store_event(
        self, sender: Address, event: TransactionEvent, transactions: Sequence[StoredTransaction]
    ) -> None:
        reason = _REASONS.get(event)
        if reason is not None and event in _LOSSES:
            self._losses.add(sender, len(transactions), reason)
        pauses_ms = {}
        if event is TransactionEvent.DROP:
            ids = [each.request.transaction_id for each in transactions]
            pauses_ms = {transaction_id: self._pauses.add(transaction_id) for transaction_id in ids}
        await self._store.move(transactions, event, reason, self._clock.now_ms(), pauses_ms=pauses_ms)


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
