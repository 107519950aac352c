"""Transactions: filled in, approved, signed, stored, sent; or signed alone (docs/protocol.md, D).

What was asked for is stored before anything is answered, and what is signed before the node sees it. The
answer is the transaction's hash when the node has it, and the zero hash when that is still to come.
"""

from typing import Any

import orjson

from bridge_server.ethereum.hex_data import hex_of
from bridge_server.ethereum.raw_transactions import RawTransaction
from bridge_server.kernel.clock import Clock
from bridge_server.kernel.ids import IdMaker
from bridge_server.kernel.turns import KeyedLock
from bridge_server.wallet import parameters
from bridge_server.wallet.accounts import Accounts
from bridge_server.wallet.approvals import Approvals
from bridge_server.wallet.errors import InvalidParamsError, NoNodeError
from bridge_server.wallet.models import (
    Address,
    ApprovalId,
    Caller,
    SendRequest,
    SignedTransaction,
    StoredTransaction,
    TransactionId,
)
from bridge_server.wallet.node.node import Node
from bridge_server.wallet.transactions.dispatching import SEND, ZERO_HASH, Dispatching
from bridge_server.wallet.transactions.filling import Filling
from bridge_server.wallet.transactions.offering import delay_ms
from bridge_server.wallet.transactions.queued import params_text, read_signed
from bridge_server.wallet.transactions.requests import (
    MAX_NONCE,
    TransactionRequest,
    read_transaction,
    write_transaction,
)
from bridge_server.wallet.transactions.signing import TransactionSigning
from bridge_server.wallet.transactions.store import TransactionStore

_SIGN = "eth_signTransaction"
_SEND_RAW = "eth_sendRawTransaction"


class Sending:
    """Sends and signs transactions; those of one account are signed and sent one after the other.

    `turns` is shared with whoever else sends for an account.
    """

    def __init__(
        self,
        accounts: Accounts,
        approvals: Approvals,
        store: TransactionStore,
        node: Node,
        filling: Filling,
        signing: TransactionSigning,
        dispatching: Dispatching,
        turns: KeyedLock,
        clock: Clock,
        ids: IdMaker,
    ) -> None:
        self._accounts = accounts
        self._approvals = approvals
        self._store = store
        self._node = node
        self._filling = filling
        self._signing = signing
        self._dispatching = dispatching
        self._turns = turns
        self._clock = clock
        self._ids = ids

    @property
    def asks_for_approval(self) -> bool:
        """Whether sending may take as long as a human does."""
        return self._approvals.is_on

    async def send(self, params: parameters.Params, caller: Caller) -> str:
        """eth_sendTransaction: the hash, or the zero hash when the node cannot be reached.

        Raises InvalidParamsError, UnknownAccountError, LockedError, RejectedError, WrongChainError,
        NodeError, TransactionRefusedError; NoNodeError when there is no node at all.
        """
        [value] = parameters.arguments(SEND, params, 1, "transaction")
        request = read_transaction(value)
        self._accounts.key(request.sender)
        asked = self._asked(request.sender, value, caller)
        try:
            return await self._send(asked, request)
        except NoNodeError:  # if it was approved already, whoever approves sees it again, filled in anew
            if not self._node.exists:
                raise
        await self._store.keep(asked, self._node.known_chain_id, None, self._first_attempt_at_ms())
        return ZERO_HASH

    async def resume(self, queued: StoredTransaction) -> None:
        """Have what is queued approved, and send it. Raises what `send` does, and is queued still."""
        await self._send(queued.request, await self._dispatching.read_queued(queued))

    async def send_raw(self, params: parameters.Params, caller: Caller) -> str:
        """eth_sendRawTransaction: the hash, or the zero hash when the node does not take it now.

        Raises InvalidParamsError, WrongChainError, TransactionRefusedError; NoNodeError when there is no
        node at all.
        """
        [value] = parameters.arguments(_SEND_RAW, params, 1, "signed transaction")
        transaction = read_signed(value)
        if transaction.nonce > MAX_NONCE:
            raise InvalidParamsError(f"params[0] has a nonce above {MAX_NONCE:#x}, which is not stored.")
        if not self._node.exists:
            raise NoNodeError("There is no node to send it to: set node_url.")
        since = self._node.now()
        chain_id = await self._chain_of(transaction)
        signed = SignedTransaction(chain_id, transaction.nonce, hex_of(transaction.hash), value)
        sender = Address(transaction.sender)
        async with self._turns.taken(sender):
            asked = self._asked(sender, value, caller)
            stored = await self._store.keep(asked, chain_id, signed, self._first_attempt_at_ms())
            return await self._dispatching.offer(stored, since)

    async def sign(self, params: parameters.Params, caller: Caller) -> str:
        """eth_signTransaction: the signed transaction, as DATA. Its nonce is not reserved.

        Raises InvalidParamsError, UnknownAccountError, LockedError, RejectedError, NoChainError,
        WrongChainError, NodeError; NoNodeError when something is left open that only the node could tell.
        """
        [value] = parameters.arguments(_SIGN, params, 1, "transaction")
        request = read_transaction(value)
        self._accounts.key(request.sender)
        filled = await self._filling.filled(request)
        approval_id = await self._approved(_SIGN, filled, caller)
        nonce = await self._next_nonce(filled) if filled.nonce is None else filled.nonce
        return self._signing.ready(_SIGN, filled, caller, approval_id)(nonce).raw

    async def _send(self, asked: SendRequest, request: TransactionRequest) -> str:
        """Have it approved, and send it.

        A human may take minutes: meanwhile others of the account go on. Without one, they are sent in the
        order in which they came.
        """
        approval_id = None
        if self._approvals.is_on:
            request = await self._filling.filled(request)
            approval_id = await self._approved(SEND, request, asked.caller)
        since = self._node.now()
        async with self._turns.taken(request.sender):
            return await self._dispatching.send(asked, request, approval_id, since)

    async def _approved(self, method: str, filled: TransactionRequest, caller: Caller) -> ApprovalId | None:
        if not self._approvals.is_on:
            return None
        subject = orjson.dumps(write_transaction(filled))
        return await self._approvals.approved(method, filled.sender, subject, caller)

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
            return transaction.chain_id  # the wallet's is not known; the node's is asked for before sending
        if transaction.chain_id not in (None, chain_id):
            raise InvalidParamsError(
                f"params[0] is for chain {transaction.chain_id}, and the wallet is on chain {chain_id}."
            )
        return chain_id

    def _asked(self, sender: Address, value: Any, caller: Caller) -> SendRequest:
        now_ms = self._clock.now_ms()
        transaction_id = TransactionId(self._ids.ordered_uuid(now_ms))
        return SendRequest(transaction_id, sender, params_text(value), now_ms, caller)

    def _first_attempt_at_ms(self) -> int:
        """When another is made if this one is never heard of."""
        return self._clock.now_ms() + delay_ms(0)
