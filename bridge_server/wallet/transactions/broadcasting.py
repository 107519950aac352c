"""Broadcasting: a signed transaction is given to the node, and the outcome is stored."""

from collections.abc import Coroutine, Mapping
from typing import Any

import structlog

from bridge_server.kernel.clock import Clock
from bridge_server.kernel.errors import BridgeError, InvalidInputError, UnavailableError
from bridge_server.kernel.stopping import Stopping
from bridge_server.wallet.errors import (
    NodeError,
    NoNodeError,
    SignatureRejectedError,
    TransactionRefusedError,
    WrongChainError,
)
from bridge_server.wallet.models import RpcCall, StoredTransaction, TransactionId
from bridge_server.wallet.node.errors import says_known, says_not_at_this_price, says_not_now
from bridge_server.wallet.node.node import Node
from bridge_server.wallet.node.pool import Attempt
from bridge_server.wallet.transactions.backoff import delay_ms
from bridge_server.wallet.transactions.store import TransactionStore

ZERO_HASH = "0x" + "00" * 32

log = structlog.get_logger()


class OtherChainError(WrongChainError):
    """The transaction was requested for another chain than the wallet is on now."""


class Broadcasting:
    """Broadcasts transactions, an account's one after the other: the account's lock must be held.

    `attempt` is passed to `Node.ask`.
    """

    def __init__(self, store: TransactionStore, node: Node, stopping: Stopping, clock: Clock) -> None:
        self._store = store
        self._node = node
        self._stopping = stopping
        self._clock = clock

    async def broadcast(self, stored: StoredTransaction, attempt: Attempt | None = None) -> str:
        """Broadcast a new transaction: its hash, or the zero hash when the node does not take it now.

        Raises TransactionRefusedError when the node calls it invalid, WrongChainError.
        """
        assert stored.signed is not None
        try:
            refusal = await self._try(stored, attempt)
        except NoNodeError as error:
            await self.postpone({stored.request.transaction_id: stored.attempts}, error.detail)
            return ZERO_HASH
        except WrongChainError as error:  # no node has seen it
            await self.refuse(stored, error.detail)
            raise
        if refusal is not None:
            await self.refuse(stored, refusal.detail)
            raise TransactionRefusedError(refusal.detail, refusal.data)
        return stored.signed.transaction_hash

    async def broadcast_again(self, stored: StoredTransaction, attempt: Attempt | None = None) -> None:
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
            await self.refuse(stored, refusal.detail)

    async def require_chain(self, stored: StoredTransaction, attempt: Attempt | None = None) -> None:
        """Raise OtherChainError unless it is for the wallet's chain, and NoNodeError when that is unknown."""
        chain_id = await self._node.chain_id(attempt)
        if stored.chain_id not in (None, chain_id):
            raise OtherChainError(
                f"It is for chain {stored.chain_id}, and the wallet is on chain {chain_id}."
            )

    async def settle(self, stored: StoredTransaction, error: BridgeError) -> None:
        """Store the reason why a waiting transaction was not broadcast, for good or for now."""
        if isinstance(error, TransactionRefusedError):
            return  # that is stored already
        if isinstance(error, UnavailableError) and self._stopping.has_begun:
            return  # it goes on after the restart
        if isinstance(error, SignatureRejectedError | InvalidInputError):
            await self.refuse(stored, error.detail)
        else:  # such as an account that is locked, or a node that gives no price
            await self.postpone({stored.request.transaction_id: stored.attempts}, error.detail)

    async def refuse(self, stored: StoredTransaction, error: str) -> None:
        """Give the transaction up, and its nonce back."""
        transaction_id = stored.request.transaction_id
        log.info("transaction_refused", transaction_id=transaction_id, reason=error)
        await _try_to_store(self._store.refuse(transaction_id, error, self._clock.now_ms()))

    async def postpone(self, attempts: Mapping[TransactionId, int], error: str) -> None:
        """Try these again later, and later still after each attempt that fails."""
        now_ms = self._clock.now_ms()
        due = {transaction_id: now_ms + delay_ms(number) for transaction_id, number in attempts.items()}
        await _try_to_store(self._store.postpone(due, error))

    async def _try(self, stored: StoredTransaction, attempt: Attempt | None) -> NodeError | None:
        """None when the node has it now, and that is stored; otherwise the reason why it is invalid."""
        signed = stored.signed
        assert signed is not None
        await self.require_chain(stored, attempt)
        (answer,) = await self._node.ask([RpcCall("eth_sendRawTransaction", [signed.raw])], attempt)
        if isinstance(answer, NodeError) and not await self._has_it_anyway(answer, signed.transaction_hash):
            return answer
        accepted = self._store.accept(stored.request.transaction_id, self._clock.now_ms())
        await _try_to_store(accepted)
        return None

    async def _has_it_anyway(self, error: NodeError, transaction_hash: str) -> bool:
        """Whether the node, which did not take the transaction, has it already, in its pool or in a block."""
        if says_known(error):
            return True
        if says_not_now(error):
            raise NoNodeError(f"The node does not take it now: {error.detail}")
        (found,) = await self._node.ask([RpcCall("eth_getTransactionByHash", [transaction_hash])])
        if isinstance(found, NodeError):
            raise NoNodeError(f"The node does not report whether it has it: {found.detail}") from error
        return found is not None


async def _try_to_store(change: Coroutine[Any, Any, None]) -> None:
    """Store it if that is possible. Otherwise the transaction still waits, and is broadcast once more."""
    try:
        await change
    except UnavailableError as error:
        log.warning("transaction_not_settled", reason=error.detail)
