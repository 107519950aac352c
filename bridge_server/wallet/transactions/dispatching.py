"""An account's transactions on their way to the node: what it owes first, then what is new."""

import json
from collections.abc import Mapping

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
from bridge_server.wallet.models import (
    Address,
    ApprovalId,
    SendRequest,
    StoredTransaction,
    TransactionId,
    TransactionState,
)
from bridge_server.wallet.node.node import Node
from bridge_server.wallet.transactions.confirming import Confirming
from bridge_server.wallet.transactions.filling import Filling
from bridge_server.wallet.transactions.offering import Offering, OtherChainError, delay_ms
from bridge_server.wallet.transactions.requests import TransactionRequest, read_transaction
from bridge_server.wallet.transactions.signing import TransactionSigning
from bridge_server.wallet.transactions.store import TransactionStore

ZERO_HASH = "0x" + "00" * 32

SEND = "eth_sendTransaction"


class Dispatching:
    """Sends for one account at a time: its turn must be held. `since` is that of `Node.ask`.

    What is queued is sent only by whoever has it approved, if `asks_for_approval`.
    """

    def __init__(
        self,
        store: TransactionStore,
        node: Node,
        filling: Filling,
        signing: TransactionSigning,
        offering: Offering,
        confirming: Confirming,
        stopping: Stopping,
        clock: Clock,
        *,
        asks_for_approval: bool,
    ) -> None:
        self._store = store
        self._node = node
        self._filling = filling
        self._signing = signing
        self._offering = offering
        self._confirming = confirming
        self._stopping = stopping
        self._clock = clock
        self._asks_for_approval = asks_for_approval

    async def send(
        self, asked: SendRequest, request: TransactionRequest, approval_id: ApprovalId | None, since: float
    ) -> str:
        """Fill in, sign, store and offer: the hash, or the zero hash while the node does not have it.

        What the account owes comes first, unless this has a nonce of its own. Raises what `Sending.send`
        does; after NoNodeError it is not signed.
        """
        count = await self._catch_up(request.sender, since)
        if request.nonce is None:
            await self._send_all(await self._store.owed(request.sender), count, since)
        return await self._send(asked, request, approval_id, count, since)

    async def offer(self, stored: StoredTransaction, since: float | None = None) -> str:
        """Offer what is new and signed: the hash, or the zero hash when the node does not take it now.

        Raises TransactionRefusedError, WrongChainError.
        """
        assert stored.signed is not None
        try:
            await self._offering.offer(stored, since)
        except NoNodeError as error:
            await self._offering.postpone({stored.request.transaction_id: stored.attempts}, error.detail)
            return ZERO_HASH
        except WrongChainError as error:  # no node has seen it
            await self._offering.refuse(stored, error.detail)
            raise
        return stored.signed.transaction_hash

    async def read_queued(self, stored: StoredTransaction, since: float | None = None) -> TransactionRequest:
        """What is queued, as it was asked for. Raises OtherChainError, NoNodeError, WrongChainError."""
        await self._offering.require_chain(stored, since)
        return read_transaction(json.loads(stored.request.params))

    async def send_owed(self, sender: Address, since: float) -> None:
        """Send what the account owes, due or not, in its order. What holds up one holds up no other.

        Raises NoNodeError, WrongChainError, NodeError: the rest comes later.
        """
        try:
            count = await self._catch_up(sender, since)
        except (NoNodeError, WrongChainError, NodeError) as error:
            await self._offering.postpone(await self._store.owed(sender), error.detail)
            raise
        await self._send_all(await self._store.owed(sender), count, since)

    async def settle(self, stored: StoredTransaction, error: BridgeError) -> None:
        """Store why a transaction that is owed was not sent, for good or for now."""
        if isinstance(error, TransactionRefusedError):
            return  # that is stored already
        if isinstance(error, UnavailableError) and self._stopping.has_begun:
            return  # it goes on after the restart
        if isinstance(error, SignatureRejectedError | InvalidInputError):
            await self._offering.refuse(stored, error.detail)
        else:  # such as an account that is locked, or a node that does not tell its price
            await self._offering.postpone({stored.request.transaction_id: stored.attempts}, error.detail)

    async def _catch_up(self, sender: Address, since: float) -> int:
        """The account's next nonce as far as the node knows. What it has dropped before is owed again."""
        chain_id = await self._node.chain_id(since)
        count = await self._filling.pending_count(sender, since)
        await self._confirming.catch_up(chain_id, sender, count)
        return count

    async def _send_all(self, owed: Mapping[TransactionId, int], count: int, since: float) -> None:
        for position, transaction_id in enumerate(owed):
            stored = await self._store.get(transaction_id)
            if stored is None:
                continue
            try:
                await self._send_one(stored, count, since)
            except OtherChainError as error:
                await self.settle(stored, error)
            except (NoNodeError, WrongChainError) as error:
                await self._offering.postpone(dict(list(owed.items())[position:]), error.detail)
                raise
            except BridgeError as error:
                await self.settle(stored, error)

    async def _send_one(self, stored: StoredTransaction, count: int, since: float) -> None:
        if stored.state is TransactionState.SIGNED:
            await self._offering.offer_again(stored, since)
        elif stored.state is TransactionState.QUEUED and not self._asks_for_approval:
            await self._send(stored.request, await self.read_queued(stored, since), None, count, since)

    async def _send(
        self,
        asked: SendRequest,
        request: TransactionRequest,
        approval_id: ApprovalId | None,
        count: int,
        since: float,
    ) -> str:
        filled = await self._filling.filled(request, since)
        assert filled.chain_id is not None
        stored = await self._store.reserve(
            asked,
            filled.chain_id,
            filled.nonce,
            count,
            self._signing.ready(SEND, filled, asked.caller, approval_id),
            self._clock.now_ms() + delay_ms(0),
        )
        return await self.offer(stored)
