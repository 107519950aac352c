"""Requests (docs/protocol.md, D): the transaction object and the signed transaction, read and written.

Unknown fields are ignored. Fields of another kind of transaction are refused.
"""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from bridge_server.ethereum import transactions
from bridge_server.ethereum.address import HexError, address_of, data_of, hex_of, quantity, quantity_of
from bridge_server.wallet import models, parameters
from bridge_server.wallet.models import Address, InvalidParamsError, NodeError, NoNodeError, RpcCall
from bridge_server.wallet.node.connections import Attempt
from bridge_server.wallet.node.node import Node
from bridge_server.wallet.parameters import PLACE, RequestFields, access_list, chain_id, up_to, whole_number

MAX_NONCE = 2**63 - 1
"""The greatest that is stored. EIP-2681 allows one bit more, and no account gets there."""

nonce_of = up_to(MAX_NONCE)
"""Reads a QUANTITY that is a nonce, or how many transactions an account has. Raises HexError."""

_NAMES_OF_TYPES = {
    transactions.LEGACY_TYPE: "a legacy transaction",
    transactions.ACCESS_LIST_TYPE: "a transaction with an access list (EIP-2930)",
    transactions.FEE_MARKET_TYPE: "a fee market transaction (EIP-1559)",
}
_PRICES_OF_FEE_MARKET = ("maxFeePerGas", "maxPriorityFeePerGas")


class TransactionRequest(NamedTuple):
    """A requested transaction. A field that is left open is None. Prices and values are in wei."""

    sender: Address
    to: Address | None
    data: bytes
    value: int
    type: int
    gas: int | None
    gas_price: int | None
    max_fee_per_gas: int | None
    max_priority_fee_per_gas: int | None
    nonce: int | None
    chain_id: int | None
    access_list: transactions.AccessList

    def transaction(self, nonce: int) -> transactions.Transaction:
        """The transaction to sign; everything else must be filled in. Raises TransactionError."""
        assert self.chain_id is not None
        assert self.gas is not None
        if self.type == transactions.FEE_MARKET_TYPE:
            assert self.max_fee_per_gas is not None
            assert self.max_priority_fee_per_gas is not None
            return transactions.FeeMarketTransaction(
                chain_id=self.chain_id, nonce=nonce, gas=self.gas, to=self.to, value=self.value,
                data=self.data, access_list=self.access_list, max_fee_per_gas=self.max_fee_per_gas,
                max_priority_fee_per_gas=self.max_priority_fee_per_gas,
            )  # fmt: skip
        assert self.gas_price is not None
        if self.type == transactions.ACCESS_LIST_TYPE:
            return transactions.AccessListTransaction(
                chain_id=self.chain_id, nonce=nonce, gas=self.gas, to=self.to, value=self.value,
                data=self.data, access_list=self.access_list, gas_price=self.gas_price,
            )  # fmt: skip
        return transactions.LegacyTransaction(
            chain_id=self.chain_id, nonce=nonce, gas=self.gas, to=self.to, value=self.value,
            data=self.data, gas_price=self.gas_price,
        )  # fmt: skip


def read_transaction(value: object) -> TransactionRequest:
    """Read the parameter; raises InvalidParamsError that names every fault with its place."""
    if not isinstance(value, dict):
        raise InvalidParamsError(f"{PLACE} must be a transaction object, such as {{from, to, value}}.")
    fields = RequestFields(value)
    sender, to = fields.read("from", address_of), fields.read("to", address_of)
    data, same = fields.read("data", data_of), fields.read("input", data_of)
    if data is not None and same is not None and data != same:
        fields.fault("input", "must be the same as data: they are two names of one field.")
    request = TransactionRequest(
        sender=Address(sender or ""),
        to=None if to is None else Address(to),
        data=data or same or b"",
        value=fields.read("value", quantity_of) or 0,
        type=_type(fields),
        gas=fields.read("gas", up_to(transactions.MAX_GAS)),
        gas_price=fields.read("gasPrice", quantity_of),
        max_fee_per_gas=fields.read("maxFeePerGas", quantity_of),
        max_priority_fee_per_gas=fields.read("maxPriorityFeePerGas", quantity_of),
        nonce=fields.read("nonce", nonce_of),
        chain_id=fields.read("chainId", chain_id),
        access_list=fields.read("accessList", access_list) or (),
    )
    if not fields.has("from"):
        fields.fault("from", "is missing: whose transaction is it?")
    _check_together(fields, request)
    fields.raise_faults()
    return request


def read_signed(value: object) -> transactions.RawTransaction:
    """Read the parameter of eth_sendRawTransaction; raises InvalidParamsError."""
    try:
        return transactions.read_raw_transaction(parameters.data(value, PLACE))
    except transactions.RawTransactionError as error:
        raise InvalidParamsError(f"{PLACE} is not a signed transaction: {error}.") from None


def params_text(value: Any) -> bytes:
    """The parameter as JSON, the same text for every order of its members. Integers may have any size."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()


def write_transaction(request: TransactionRequest) -> dict[str, Any]:
    """The transaction object, spelled as a node spells it, without the fields that are open."""
    numbers = {
        "gas": request.gas,
        "gasPrice": request.gas_price,
        "maxFeePerGas": request.max_fee_per_gas,
        "maxPriorityFeePerGas": request.max_priority_fee_per_gas,
        "value": request.value,
        "nonce": request.nonce,
        "chainId": request.chain_id,
    }
    document: dict[str, Any] = {"type": quantity(request.type), "from": request.sender}
    if request.to is not None:
        document["to"] = request.to
    document |= {name: quantity(number) for name, number in numbers.items() if number is not None}
    document["data"] = hex_of(request.data)
    if request.type != transactions.LEGACY_TYPE:
        document["accessList"] = parameters.written_access_list(request.access_list)
    return document


def _type(fields: RequestFields) -> int:
    """The type that is named, or that has the fields that there are."""
    if fields.has("type"):
        kind = fields.read("type", whole_number)
        if kind is not None and kind not in _NAMES_OF_TYPES:
            fields.fault("type", "must be 0x0, 0x1 or 0x2: this wallet signs no others.")
        return transactions.LEGACY_TYPE if kind is None else kind
    if fields.first(*_PRICES_OF_FEE_MARKET):
        return transactions.FEE_MARKET_TYPE
    return transactions.ACCESS_LIST_TYPE if fields.has("accessList") else transactions.LEGACY_TYPE


def _check_together(fields: RequestFields, request: TransactionRequest) -> None:
    """Find the faults that no field shows by itself."""
    if not fields.has("to") and not request.data and fields.are_sound("data", "input"):
        sent = fields.first("data", "input")
        lack = "is missing" if sent is None else "is empty"
        fields.fault(sent or "data", f"{lack}: without to, it is the code of the contract to create.")
    if fields.has("gasLimit") and fields.read("gasLimit", quantity_of) != request.gas:
        fields.fault("gasLimit", "is called gas.")
    if fields.are_sound("type"):
        _check_type(fields, request, _NAMES_OF_TYPES[request.type])
    tip, most = request.max_priority_fee_per_gas, request.max_fee_per_gas
    if tip is not None and most is not None and tip > most:
        fields.fault("maxPriorityFeePerGas", "must not be greater than maxFeePerGas.")


def _check_type(fields: RequestFields, request: TransactionRequest, kind: str) -> None:
    price = fields.first(*_PRICES_OF_FEE_MARKET)
    if request.type == transactions.FEE_MARKET_TYPE and fields.has("gasPrice"):
        fields.fault("gasPrice", f"does not belong to {kind}: leave it out, or name no other price.")
    if request.type != transactions.FEE_MARKET_TYPE and price is not None:
        fields.fault(price, f"does not belong to {kind}: leave out the type, or make it 0x2.")
    if request.type == transactions.LEGACY_TYPE and fields.has("accessList"):
        fields.fault("accessList", f"does not belong to {kind}: leave out the type, or make it 0x1 or 0x2.")


# Filling in the fields that a request leaves open: the chain, the gas, and the node's price.

USUAL_GAS = 90_000
_USUAL_TIP_WEI = 10**9  # where the node suggests none
_GAS_PRICE = RpcCall("eth_gasPrice", [])
_TIP = RpcCall("eth_maxPriorityFeePerGas", [])
_LATEST_BLOCK = RpcCall("eth_getBlockByNumber", ["latest", False])


class Filling:
    """Fills in all but the nonce. Raises NoNodeError without a node to ask. `attempt` is for `Node.ask`."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def filled(self, request: TransactionRequest, attempt: Attempt | None = None) -> TransactionRequest:
        """The request with nothing left open but the nonce. Raises InvalidParamsError when it is for another
        chain, NoChainError when the chain is unknown, NodeError when the node answers with an error.
        """
        try:
            chain_id = await self._node.chain_id(attempt)
        except models.NoChainError:
            if request.chain_id is None:
                raise
            chain_id = request.chain_id
        if request.chain_id not in (None, chain_id):
            raise InvalidParamsError(
                f"params[0].chainId is {quantity(request.chain_id)}, and the wallet is on chain "
                f"{quantity(chain_id)}: it signs for no other."
            )
        gas = USUAL_GAS if request.gas is None else request.gas
        return await self._priced(request._replace(chain_id=chain_id, gas=gas), attempt)

    async def pending_count(self, address: Address, attempt: Attempt | None = None) -> int:
        """The lowest nonce that no transaction of the account known to the node has."""
        call = RpcCall("eth_getTransactionCount", [address, "pending"])
        (answer,) = await self._node.ask([call], attempt)
        return _quantity(call, answer, nonce_of)

    async def _priced(self, request: TransactionRequest, attempt: Attempt | None) -> TransactionRequest:
        if request.type == transactions.FEE_MARKET_TYPE:
            return await self._with_fees(request, attempt)
        if request.gas_price is not None:
            return request
        self._require_node("gasPrice")
        (answer,) = await self._node.ask([_GAS_PRICE], attempt)
        return request._replace(gas_price=_quantity(_GAS_PRICE, answer))

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
            most = min(2 * _base_fee(block) + tip, transactions.MAX_WEI)
        return request._replace(max_priority_fee_per_gas=tip, max_fee_per_gas=most)

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
