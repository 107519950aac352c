"""Transactions of a wallet with keys of its own: filled in, signed, and sent if there is a node."""

from collections.abc import Callable
from dataclasses import replace

from bridge_server.ethereum.hex_data import hex_of, quantity
from bridge_server.ethereum.signing_key import SigningKey
from bridge_server.ethereum.transactions import FEE_MARKET_TYPE, TransactionError, sign_transaction
from bridge_server.kernel.turns import KeyedLock
from bridge_server.wallet.errors import InvalidParamsError, NodeError
from bridge_server.wallet.models import RpcCall
from bridge_server.wallet.node.node import Node
from bridge_server.wallet.transactions.filling import USUAL_GAS, Filling
from bridge_server.wallet.transactions.requests import TransactionRequest, read_signed, read_transaction

_USUAL_PRICE_WEI = 10**9
_KEPT = 1_000

FindKey = Callable[[str], SigningKey]


class Transactions:
    """Without a node a transaction is answered by its hash and kept; nonces count up from 0."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._filling = Filling(node)
        self._turns = KeyedLock()
        self._nonces: dict[tuple[str, int], int] = {}
        self.kept: list[str] = []

    def reset(self) -> None:
        """Forget what was kept, and begin with nonce 0 again."""
        self._nonces.clear()
        self.kept.clear()

    async def sign(self, value: object, chain_id: int, key_of: FindKey) -> str:
        """The signed transaction. Raises BridgeError."""
        request = await self._filled(read_transaction(value), chain_id)
        raw, _ = _signed(request, await self._nonce(request), key_of)
        return raw

    async def send(self, value: object, chain_id: int, key_of: FindKey) -> str:
        """The hash of the transaction, which the node has taken if there is one. Raises BridgeError."""
        request = read_transaction(value)
        async with self._turns.taken(request.sender):
            request = await self._filled(request, chain_id)
            nonce = await self._nonce(request)
            raw, transaction_hash = _signed(request, nonce, key_of)
            await self._hand_over(raw)
            assert request.chain_id is not None
            self._nonces[request.sender, request.chain_id] = nonce + 1
        return transaction_hash

    async def send_signed(self, value: object) -> str:
        """The hash of a transaction that somebody has signed. Raises BridgeError."""
        transaction = read_signed(value)
        await self._hand_over(str(value))
        return hex_of(transaction.hash)

    async def _filled(self, request: TransactionRequest, chain_id: int) -> TransactionRequest:
        if request.chain_id is not None and request.chain_id != chain_id:
            raise InvalidParamsError(
                f"params[0].chainId is {quantity(request.chain_id)}, and the session is on chain "
                f"{quantity(chain_id)}: switch the chain first."
            )
        request = replace(request, chain_id=chain_id)
        return await self._filling.filled(request) if self._node.exists else _with_usual_prices(request)

    async def _nonce(self, request: TransactionRequest) -> int:
        if request.nonce is not None:
            return request.nonce
        if self._node.exists:
            return await self._filling.pending_count(request.sender)
        assert request.chain_id is not None
        return self._nonces.get((request.sender, request.chain_id), 0)

    async def _hand_over(self, raw: str) -> None:
        """Send the transaction, or keep it."""
        if not self._node.exists:
            self.kept.append(raw)
            del self.kept[:-_KEPT]
            return
        (answer,) = await self._node.forward([RpcCall("eth_sendRawTransaction", [raw])])
        if isinstance(answer, NodeError):
            raise answer


def _with_usual_prices(request: TransactionRequest) -> TransactionRequest:
    filled = replace(request, gas=USUAL_GAS if request.gas is None else request.gas)
    if filled.type != FEE_MARKET_TYPE:
        return replace(filled, gas_price=_USUAL_PRICE_WEI if filled.gas_price is None else filled.gas_price)
    tip, most = filled.max_priority_fee_per_gas, filled.max_fee_per_gas
    if tip is None:
        tip = _USUAL_PRICE_WEI if most is None else min(_USUAL_PRICE_WEI, most)
    return replace(
        filled,
        max_priority_fee_per_gas=tip,
        max_fee_per_gas=2 * _USUAL_PRICE_WEI + tip if most is None else most,
    )


def _signed(request: TransactionRequest, nonce: int, key_of: FindKey) -> tuple[str, str]:
    """The signed transaction, and its hash."""
    key = key_of(request.sender)
    try:
        raw, transaction_hash, _ = sign_transaction(request.transaction(nonce), key)
    except TransactionError as error:
        raise InvalidParamsError(f"params[0]: {error}.") from error
    return hex_of(raw), hex_of(transaction_hash)
