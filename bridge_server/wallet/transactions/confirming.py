"""What has become of what the node has taken: on the chain, replaced, dropped, or lost with the chain."""

from collections.abc import Sequence
from typing import Any

import structlog

from bridge_server.ethereum.hex_data import HexError
from bridge_server.kernel.clock import Clock
from bridge_server.kernel.errors import BridgeError
from bridge_server.kernel.turns import KeyedLock
from bridge_server.wallet.models import Address, RpcCall, StoredTransaction, TransactionState
from bridge_server.wallet.node.node import Node
from bridge_server.wallet.transactions.requests import nonce_of
from bridge_server.wallet.transactions.store import TransactionStore

_ASKED_AT_ONCE = 50

_REASONS = {
    TransactionState.SIGNED: "The node has dropped it.",
    TransactionState.REPLACED: "Its nonce is used on the chain, and the node does not know it.",
    TransactionState.FORGOTTEN: "The node's chain was set back.",
}

log = structlog.get_logger()


class Confirming:
    """Compares what the wallet takes for sent or mined with what the node knows.

    What the node has dropped is to be sent again. But when it does not know what was on the chain, the chain
    was set back, as development nodes do: then all that it does not know of the account is forgotten, for it
    was meant for a history that is gone.
    """

    def __init__(self, store: TransactionStore, node: Node, turns: KeyedLock, clock: Clock) -> None:
        self._store = store
        self._node = node
        self._turns = turns
        self._clock = clock
        self._is_set_back = False  # and what was sent before that is not looked at yet
        self._awaits_blocks = True
        self._announced = 0
        node.on_set_back(self._forget)

    @property
    def awaits_blocks(self) -> bool:
        """Whether something may be sent and not known to be mined."""
        return self._awaits_blocks

    def expect_blocks(self) -> None:
        """Something is being sent."""
        self._announced += 1
        self._awaits_blocks = True

    async def settle_mined(self, transaction_hash: str) -> None:
        """The node has told somebody which block it is in."""
        found = await self._store.with_hash(transaction_hash, _ASKED_AT_ONCE)
        sent = [each for each in found if each.state is TransactionState.SENT]
        if sent:
            await self._store.change(sent, TransactionState.MINED, None, self._clock.now_ms())

    async def check(self) -> None:
        """Look at each account of which something is sent or mined. Raises NoNodeError, WrongChainError."""
        is_set_back = self._is_set_back
        await self._check_all()
        if is_set_back:  # from the beginning: all of them were looked at with that in mind
            self._is_set_back = False

    async def _check_all(self) -> None:
        chain_id = await self._node.chain_id()
        announced = self._announced
        is_owing = await self._store.next_due() is not None
        lowest_sent = await self._store.lowest_sent(chain_id)
        self._awaits_blocks = is_owing or bool(lowest_sent) or announced != self._announced
        for sender in await self._store.senders(chain_id):
            async with self._turns.taken(sender):
                count = await self._count(sender)
                if count is not None:
                    lowest = lowest_sent.get(sender)
                    await self.catch_up(chain_id, sender, count, from_nonce=lowest)

    async def catch_up(
        self, chain_id: int, sender: Address, count: int, *, from_nonce: int | None = None
    ) -> None:
        """Look at everything from the `count` on, or from a lower nonce if one is given.

        `count` is how many transactions of the account the node says there are. The account's turn must be
        held. Raises NoNodeError, WrongChainError.
        """
        first = count if from_nonce is None else min(from_nonce, count)
        followed = [
            each
            for each in await self._store.followed(chain_id, sender, first)
            if each.state is not TransactionState.MINED or _nonce(each) >= count
        ]
        if all(each.state is TransactionState.SIGNED for each in followed) and not self._is_set_back:
            return
        found = await self._find(followed)
        pairs = list(zip(followed, found, strict=True))
        if any(each.state is TransactionState.MINED and answer is None for each, answer in pairs):
            self._is_set_back = True  # for the other accounts too, which are looked at next
        changes: dict[TransactionState, list[StoredTransaction]] = {}
        for each, answer in pairs:
            state = _new_state(each, answer, count, self._is_set_back)
            if state is not each.state:
                changes.setdefault(state, []).append(each)
        await self._store_changes(sender, changes)

    async def _forget(self) -> None:
        """Somebody has set the chain back: nothing is sent again into another history."""
        self._is_set_back = True
        try:
            await self.check()
        except BridgeError as error:  # the next check knows it still
            log.warning("node_not_asked", reason=error.detail)

    async def _count(self, sender: Address) -> int | None:
        """How many transactions of the account are on the chain; None when the node does not tell."""
        (answer,) = await self._node.ask([RpcCall("eth_getTransactionCount", [sender, "latest"])])
        try:
            return nonce_of(answer)
        except HexError:
            return None

    async def _find(self, followed: Sequence[StoredTransaction]) -> list[Any]:
        """What the node answers to the hash of each."""
        calls = [
            RpcCall("eth_getTransactionByHash", [each.signed and each.signed.transaction_hash])
            for each in followed
        ]
        found: list[Any] = []
        for start in range(0, len(calls), _ASKED_AT_ONCE):
            found += await self._node.ask(calls[start : start + _ASKED_AT_ONCE])
        return found

    async def _store_changes(
        self, sender: Address, changes: dict[TransactionState, list[StoredTransaction]]
    ) -> None:
        for state, transactions in changes.items():
            if state in (TransactionState.SIGNED, TransactionState.FORGOTTEN):
                reason = _REASONS[state]
                log.warning("transactions_lost", account=sender, count=len(transactions), reason=reason)
            await self._store.change(transactions, state, _REASONS.get(state), self._clock.now_ms())


def _nonce(stored: StoredTransaction) -> int:
    assert stored.signed is not None
    return stored.signed.nonce


def _new_state(stored: StoredTransaction, answer: Any, count: int, is_set_back: bool) -> TransactionState:
    if stored.state is TransactionState.SIGNED and not (is_set_back and answer is None):
        return stored.state  # it is offered again, and the answer to that tells more
    if isinstance(answer, dict):
        if answer.get("blockNumber") is None:
            return TransactionState.SENT
        # What answers may be several nodes, of which some know less than others: its nonce must be used too.
        is_used = _nonce(stored) < count or is_set_back
        return TransactionState.MINED if is_used else stored.state
    if answer is not None:  # the node does not tell
        return stored.state
    if is_set_back:
        return TransactionState.FORGOTTEN
    return TransactionState.REPLACED if _nonce(stored) < count else TransactionState.SIGNED
