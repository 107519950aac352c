"""Giving a signed transaction to the node, and storing what became of it."""

from collections.abc import Coroutine, Mapping
from typing import Any

import structlog

from bridge_server.kernel.clock import Clock
from bridge_server.kernel.errors import UnavailableError
from bridge_server.wallet.errors import NodeError, NoNodeError, TransactionRefusedError, WrongChainError
from bridge_server.wallet.models import RpcCall, StoredTransaction, TransactionId
from bridge_server.wallet.node.errors import says_known, says_not_at_this_price, says_not_now
from bridge_server.wallet.node.node import Node
from bridge_server.wallet.transactions.store import TransactionStore

_FIRST_DELAY_MS = 1_000
_LONGEST_DELAY_MS = 60_000
_MOST_DOUBLINGS = 6

log = structlog.get_logger()


def delay_ms(attempts: int) -> int:
    """How long to wait after so many attempts that did not reach the node: twice as long each time."""
    return min(_LONGEST_DELAY_MS, _FIRST_DELAY_MS << min(attempts, _MOST_DOUBLINGS))


class OtherChainError(WrongChainError):
    """The transaction was asked for on another chain than the wallet is on now."""


class Offering:
    """Offers transactions to the node. Those of one account must be offered one after the other."""

    def __init__(self, store: TransactionStore, node: Node, clock: Clock) -> None:
        self._store = store
        self._node = node
        self._clock = clock

    async def offer(self, stored: StoredTransaction, since: float | None = None) -> None:
        """Return once the node has the transaction, and it is stored as sent.

        Raises TransactionRefusedError when the node calls it invalid, and it is stored as refused;
        NoNodeError when the node cannot be asked or does not take it now, and WrongChainError: it is signed
        still. `since` is that of `Node.ask`.
        """
        refusal = await self._offer(stored, since)
        if refusal is not None:
            await self.refuse(stored, refusal.detail)
            raise TransactionRefusedError(refusal.detail, refusal.data)

    async def offer_again(self, stored: StoredTransaction, since: float | None = None) -> None:
        """The same for one that may have been given out: it keeps its nonce while it may become valid.

        A refusal is stored, and not raised.
        """
        refusal = await self._offer(stored, since)
        if refusal is None:
            return
        if says_not_at_this_price(refusal):
            transaction_id = stored.request.transaction_id
            if refusal.detail != stored.error:
                log.warning("transaction_postponed", transaction_id=transaction_id, reason=refusal.detail)
            await self.postpone({transaction_id: stored.attempts}, refusal.detail)
        else:
            await self.refuse(stored, refusal.detail)

    async def require_chain(self, stored: StoredTransaction, since: float | None = None) -> None:
        """Raise OtherChainError unless it is for the wallet's chain, and NoNodeError when that is unknown."""
        chain_id = await self._node.chain_id(since)
        if stored.chain_id not in (None, chain_id):
            raise OtherChainError(
                f"It is for chain {stored.chain_id}, and the wallet is on chain {chain_id}."
            )

    async def refuse(self, stored: StoredTransaction, error: str) -> None:
        """It is not sent, and will not be."""
        transaction_id = stored.request.transaction_id
        log.info("transaction_refused", transaction_id=transaction_id, reason=error)
        await _try_to_store(self._store.settle_refused(transaction_id, error, self._clock.now_ms()))

    async def postpone(self, attempts: Mapping[TransactionId, int], error: str) -> None:
        """Another attempt for these was in vain: the next comes later, and later still each time."""
        now_ms = self._clock.now_ms()
        due = {transaction_id: now_ms + delay_ms(number) for transaction_id, number in attempts.items()}
        await _try_to_store(self._store.postpone(due, error))

    async def _offer(self, stored: StoredTransaction, since: float | None) -> NodeError | None:
        """None when the node has it now, and it is stored as sent; otherwise why it is called invalid."""
        signed = stored.signed
        assert signed is not None
        await self.require_chain(stored, since)
        (answer,) = await self._node.ask([RpcCall("eth_sendRawTransaction", [signed.raw])], since)
        if isinstance(answer, NodeError) and not await self._has_it_anyway(answer, signed.transaction_hash):
            return answer
        sent = self._store.settle_sent(stored.request.transaction_id, self._clock.now_ms())
        await _try_to_store(sent)
        return None

    async def _has_it_anyway(self, error: NodeError, transaction_hash: str) -> bool:
        """Whether the node, which did not take the transaction, has it already: sent before, or mined."""
        if says_known(error):
            return True
        if says_not_now(error):
            raise NoNodeError(f"The node does not take it now: {error.detail}")
        (found,) = await self._node.ask([RpcCall("eth_getTransactionByHash", [transaction_hash])])
        if isinstance(found, NodeError):
            raise NoNodeError(f"The node does not tell whether it has it: {found.detail}") from error
        return found is not None


async def _try_to_store(change: Coroutine[Any, Any, None]) -> None:
    """What is not stored now comes up again: the transaction is owed still, and is offered once more."""
    try:
        await change
    except UnavailableError as error:
        log.warning("transaction_not_settled", reason=error.detail)
