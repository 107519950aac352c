"""Transactions of clients: signed alone, or signed, stored and broadcast (docs/protocol.md, D).

A request is stored before anything is answered, and the signed bytes before the node sees them. The answer is
the hash when the node has the transaction, and the zero hash while it does not.
"""

import json
from collections.abc import Mapping

from bridge_server.ethereum.hex_data import hex_of
from bridge_server.ethereum.raw_transactions import RawTransaction
from bridge_server.kernel.clock import Clock
from bridge_server.kernel.errors import BridgeError
from bridge_server.kernel.turns import KeyedLock
from bridge_server.wallet.errors import InvalidParamsError, NodeError, NoNodeError, WrongChainError
from bridge_server.wallet.models import (
    Address,
    ApprovalId,
    Caller,
    SendRequest,
    SignedTransaction,
    StoredTransaction,
    TransactionId,
    TransactionState,
)
from bridge_server.wallet.node.node import Node
from bridge_server.wallet.node.pool import Attempt
from bridge_server.wallet.transactions.backoff import delay_ms
from bridge_server.wallet.transactions.broadcasting import ZERO_HASH, Broadcasting, OtherChainError
from bridge_server.wallet.transactions.confirming import Confirming
from bridge_server.wallet.transactions.filling import Filling
from bridge_server.wallet.transactions.requests import TransactionRequest, read_transaction
from bridge_server.wallet.transactions.signing import TransactionSigning
from bridge_server.wallet.transactions.store import TransactionStore

SEND = "eth_sendTransaction"
SIGN = "eth_signTransaction"

_SWEEP_SLICE = 500


class TransactionService:
    """Signs and broadcasts transactions, an account's one after the other: first its queue, then new ones.

    `locks` has a lock for each account. `attempt` is passed to `Node.ask`.
    """

    def __init__(
        self,
        store: TransactionStore,
        node: Node,
        filling: Filling,
        signing: TransactionSigning,
        broadcasting: Broadcasting,
        confirming: Confirming,
        locks: KeyedLock,
        clock: Clock,
        kept_ms: int,
    ) -> None:
        self._store = store
        self._node = node
        self._filling = filling
        self._signing = signing
        self._broadcasting = broadcasting
        self._confirming = confirming
        self._locks = locks
        self._clock = clock
        self._kept_ms = kept_ms

    async def send(self, asked: SendRequest, request: TransactionRequest) -> str:
        """Send a transaction object; queue it when the node cannot be reached.

        Raises InvalidParamsError, UnknownAccountError, LockedError, SignatureRejectedError, WrongChainError,
        NodeError, TransactionRefusedError; NoNodeError when there is no node at all.
        """
        self._signing.require_key(request.sender)
        try:
            return await self._send(asked, request)
        except NoNodeError:  # if it was approved already, it is shown again, filled in anew
            if not self._node.exists:
                raise
        await self._store.keep(asked, self._node.known_chain_id, None, self._first_attempt_at_ms())
        return ZERO_HASH

    async def send_signed(self, asked: SendRequest, transaction: RawTransaction, raw: str) -> str:
        """Send a transaction that was signed elsewhere: `raw` is its DATA, as it came.

        Raises InvalidParamsError, WrongChainError, TransactionRefusedError; NoNodeError when there is no
        node at all.
        """
        if not self._node.exists:
            raise NoNodeError("There is no node to send it to: set node_url.")
        attempt = self._node.attempt()
        chain_id = await self._chain_of(transaction)
        signed = SignedTransaction(chain_id, transaction.nonce, hex_of(transaction.hash), raw)
        async with self._locks.taken(asked.sender):
            stored = await self._store.keep(asked, chain_id, signed, self._first_attempt_at_ms())
            return await self._broadcasting.broadcast(stored, attempt)

    async def sign(self, request: TransactionRequest, caller: Caller) -> str:
        """Sign a transaction object without sending it, as DATA. Its nonce is not reserved.

        Raises InvalidParamsError, UnknownAccountError, LockedError, SignatureRejectedError, NoChainError,
        WrongChainError, NodeError; NoNodeError when only the node could fill a missing field.
        """
        self._signing.require_key(request.sender)
        filled = await self._filling.filled(request)
        approval_id = await self._signing.approved(SIGN, filled, caller)
        nonce = await self._next_nonce(filled) if filled.nonce is None else filled.nonce
        return self._signing.ready(SIGN, filled, caller, approval_id)(nonce).raw

    async def send_queued(self, queued: StoredTransaction) -> None:
        """Have a queued request approved, and send it. Raises what `send` raises; it stays queued then."""
        await self._send(queued.request, await self._read_queued(queued))

    async def work_off(self, sender: Address) -> None:
        """Broadcast the account's queue in its order, due or not. A fault of one transaction delays no other.

        Requests that a person must approve are left to `send_queued`. Raises NoNodeError, WrongChainError,
        NodeError: the rest comes later.
        """
        async with self._locks.taken(sender):
            attempt = self._node.attempt()
            try:
                count = await self._confirming.catch_up(sender, attempt)
            except (NoNodeError, WrongChainError, NodeError) as error:
                await self._broadcasting.postpone(await self._store.queue(sender), error.detail)
                raise
            await self._work_off(await self._store.queue(sender), count, attempt)

    async def sweep(self, now_ms: int) -> int:
        """Delete a slice of the transactions settled longer ago than `kept_ms`; returns how many."""
        return await self._store.sweep(now_ms - self._kept_ms, _SWEEP_SLICE)

    async def _send(self, asked: SendRequest, request: TransactionRequest) -> str:
        """Have it approved, and send it.

        An approval may take minutes: meanwhile other transactions of the account go on. Without approval,
        they are sent in the order in which they came.
        """
        approval_id = None
        if self._signing.asks_for_approval:
            request = await self._filling.filled(request)
            approval_id = await self._signing.approved(SEND, request, asked.caller)
        attempt = self._node.attempt()
        async with self._locks.taken(request.sender):
            count = await self._confirming.catch_up(request.sender, attempt)
            if request.nonce is None:
                await self._work_off(await self._store.queue(request.sender), count, attempt)
            return await self._sign_and_broadcast(asked, request, approval_id, count, attempt)

    async def _work_off(self, queue: Mapping[TransactionId, int], count: int, attempt: Attempt) -> None:
        for position, transaction_id in enumerate(queue):
            if self._confirming.is_paused(transaction_id):
                continue
            stored = await self._store.get(transaction_id)
            if stored is None:
                continue
            try:
                await self._take_on(stored, count, attempt)
            except OtherChainError as error:
                await self._broadcasting.settle(stored, error)
            except (NoNodeError, WrongChainError) as error:
                await self._broadcasting.postpone(dict(list(queue.items())[position:]), error.detail)
                raise
            except BridgeError as error:
                await self._broadcasting.settle(stored, error)

    async def _take_on(self, stored: StoredTransaction, count: int, attempt: Attempt) -> None:
        if stored.state is TransactionState.SIGNED:
            await self._broadcasting.broadcast_again(stored, attempt)
        elif stored.state is TransactionState.QUEUED and not self._signing.asks_for_approval:
            request = await self._read_queued(stored, attempt)
            await self._sign_and_broadcast(stored.request, request, None, count, attempt)

    async def _sign_and_broadcast(
        self,
        asked: SendRequest,
        request: TransactionRequest,
        approval_id: ApprovalId | None,
        count: int,
        attempt: Attempt,
    ) -> str:
        """Raises NoNodeError when it cannot be filled in, and it is not signed."""
        filled = await self._filling.filled(request, attempt)
        assert filled.chain_id is not None
        sign = self._signing.ready(SEND, filled, asked.caller, approval_id)
        stored = await self._store.reserve(
            asked, filled.chain_id, filled.nonce, count, sign, self._first_attempt_at_ms()
        )
        return await self._broadcasting.broadcast(stored)

    async def _read_queued(
        self, stored: StoredTransaction, attempt: Attempt | None = None
    ) -> TransactionRequest:
        """The request as it came. Raises OtherChainError, NoNodeError, WrongChainError."""
        await self._broadcasting.require_chain(stored, attempt)
        return read_transaction(json.loads(stored.request.params))

    async def _next_nonce(self, filled: TransactionRequest) -> int:
        if not self._node.exists:
            raise NoNodeError("There is no node to ask for the nonce: name it in params[0], or set node_url.")
        assert filled.chain_id is not None
        lowest = await self._filling.pending_count(filled.sender)
        return await self._store.next_nonce(filled.chain_id, filled.sender, lowest)

    async def _chain_of(self, transaction: RawTransaction) -> int:
        """The chain to send it on: the wallet's."""
        try:
            chain_id = await self._node.chain_id()
        except NoNodeError:
            if transaction.chain_id is None:
                raise
            return transaction.chain_id  # the wallet's is not known; the node is asked before the broadcast
        if transaction.chain_id not in (None, chain_id):
            raise InvalidParamsError(
                f"params[0] is for chain {transaction.chain_id}, and the wallet is on chain {chain_id}."
            )
        return chain_id

    def _first_attempt_at_ms(self) -> int:
        """The time of the next attempt if this one fails unnoticed, as in a crash."""
        return self._clock.now_ms() + delay_ms(0)
