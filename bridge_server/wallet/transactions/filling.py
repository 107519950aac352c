"""Filling in the fields that a request leaves open: the chain, the gas, and the node's price."""

from collections.abc import Callable
from dataclasses import replace

from bridge_server.ethereum.hex_data import HexError, quantity, quantity_of
from bridge_server.ethereum.transactions import FEE_MARKET_TYPE, MAX_WEI
from bridge_server.wallet.errors import InvalidParamsError, NoChainError, NodeError, NoNodeError
from bridge_server.wallet.models import Address, RpcCall
from bridge_server.wallet.node.node import Node
from bridge_server.wallet.node.pool import Attempt
from bridge_server.wallet.transactions.requests import TransactionRequest, nonce_of

USUAL_GAS = 90_000
_USUAL_TIP_WEI = 10**9  # where the node suggests none
_GAS_PRICE = RpcCall("eth_gasPrice", [])
_TIP = RpcCall("eth_maxPriorityFeePerGas", [])
_LATEST_BLOCK = RpcCall("eth_getBlockByNumber", ["latest", False])


class Filling:
    """Fills in all but the nonce. Raises NoNodeError when it takes a node and there is none to ask.

    `attempt` is passed to `Node.ask`.
    """

    def __init__(self, node: Node) -> None:
        self._node = node

    async def filled(self, request: TransactionRequest, attempt: Attempt | None = None) -> TransactionRequest:
        """The request with nothing left open but the nonce.

        Raises InvalidParamsError when it is for another chain, NoChainError when the chain is unknown,
        NodeError when the node answers with an error.
        """
        chain_id = await self._chain_id(request, attempt)
        if request.chain_id is not None and request.chain_id != chain_id:
            raise InvalidParamsError(
                f"params[0].chainId is {quantity(request.chain_id)}, and the wallet is on chain "
                f"{quantity(chain_id)}: it signs for no other."
            )
        gas = USUAL_GAS if request.gas is None else request.gas
        return await self._priced(replace(request, chain_id=chain_id, gas=gas), attempt)

    async def pending_count(self, address: Address, attempt: Attempt | None = None) -> int:
        """The lowest nonce that no transaction of the account known to the node has."""
        call = RpcCall("eth_getTransactionCount", [address, "pending"])
        (answer,) = await self._node.ask([call], attempt)
        return _quantity(call, answer, nonce_of)

    async def _chain_id(self, request: TransactionRequest, attempt: Attempt | None) -> int:
        try:
            return await self._node.chain_id(attempt)
        except NoChainError:
            if request.chain_id is None:
                raise
            return request.chain_id

    async def _priced(self, request: TransactionRequest, attempt: Attempt | None) -> TransactionRequest:
        if request.type == FEE_MARKET_TYPE:
            return await self._with_fees(request, attempt)
        if request.gas_price is not None:
            return request
        self._require_node("gasPrice")
        (answer,) = await self._node.ask([_GAS_PRICE], attempt)
        return replace(request, gas_price=_quantity(_GAS_PRICE, answer))

    async def _with_fees(self, request: TransactionRequest, attempt: Attempt | None) -> TransactionRequest:
        tip, most = request.max_priority_fee_per_gas, request.max_fee_per_gas
        if tip is not None and most is not None:
            return request
        self._require_node("maxFeePerGas and maxPriorityFeePerGas")
        suggested, block = await self._node.ask([_TIP, _LATEST_BLOCK], attempt)
        if tip is None:
            tip = _USUAL_TIP_WEI if isinstance(suggested, NodeError) else _quantity(_TIP, suggested)
            tip = tip if most is None else min(tip, most)
        if most is None:  # the base fee may double before the transaction is left behind
            most = min(2 * _base_fee(block) + tip, MAX_WEI)
        return replace(request, max_priority_fee_per_gas=tip, max_fee_per_gas=most)

    def _require_node(self, names: str) -> None:
        if not self._node.exists:
            raise NoNodeError(f"There is no node to ask for {names}: name it in params[0], or set node_url.")


def _base_fee(block: object) -> int:
    if isinstance(block, NodeError):
        raise block
    base_fee = block.get("baseFeePerGas") if isinstance(block, dict) else None
    if base_fee is None:
        raise InvalidParamsError(
            "params[0].type is 0x2, and the node's chain has no base fee (EIP-1559): use gasPrice instead."
        )
    return _quantity(_LATEST_BLOCK, base_fee)


def _quantity(call: RpcCall, answer: object, read: Callable[[object], int] = quantity_of) -> int:
    if isinstance(answer, NodeError):
        raise answer
    try:
        return read(answer)
    except HexError as error:
        raise NoNodeError(f"The node's answer to {call.method} {error}.") from error
