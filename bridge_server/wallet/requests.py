"""The transaction object (contract, section 2, D): JSON to what is asked for, and back for whoever approves.

Unknown fields are ignored, but for those that would make it another transaction than the one signed.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from bridge_server.ethereum.hex_data import HexError, address_of, data_of, hex_of, quantity, quantity_of
from bridge_server.ethereum.transactions import (
    ACCESS_LIST_TYPE,
    FEE_MARKET_TYPE,
    LEGACY_TYPE,
    MAX_CHAIN_ID,
    MAX_GAS,
    STORAGE_KEY_BYTES,
    AccessList,
    AccessListEntry,
    AccessListTransaction,
    FeeMarketTransaction,
    LegacyTransaction,
    Transaction,
)
from bridge_server.kernel.errors import Fault
from bridge_server.wallet.errors import InvalidParamsError
from bridge_server.wallet.models import Address

Value = TypeVar("Value")

MAX_NONCE = 2**63 - 1
"""The greatest that is stored. EIP-2681 allows one bit more, and no account gets there."""

_PLACE = "params[0]"
_NAMES_OF_TYPES = {
    LEGACY_TYPE: "a legacy transaction",
    ACCESS_LIST_TYPE: "a transaction with an access list (EIP-2930)",
    FEE_MARKET_TYPE: "a fee market transaction (EIP-1559)",
}
_PRICES_OF_FEE_MARKET = ("maxFeePerGas", "maxPriorityFeePerGas")

_NOT_SIGNED = {
    **dict.fromkeys(
        ("blobVersionedHashes", "maxFeePerBlobGas", "blobs", "commitments", "proofs", "sidecars"),
        "belongs to a blob transaction (EIP-4844), which this wallet does not sign",
    ),
    "authorizationList": "hands an account to a contract's code (EIP-7702), which this wallet does not sign",
    **dict.fromkeys(
        ("privateFrom", "privateFor", "privacyGroupId", "restriction"),
        "asks for a private transaction, and what this wallet sends is public",
    ),
    **dict.fromkeys(
        ("feeCurrency", "gatewayFee", "gatewayFeeRecipient", "eip712Meta", "customData", "condition"),
        "belongs to a chain with transactions of its own, which this wallet does not sign",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionRequest:
    """A transaction as it is asked for; None is what was left open. Prices and values are in wei."""

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
    access_list: AccessList

    def transaction(self, nonce: int) -> Transaction:
        """The transaction to sign; everything else must be filled in. Raises TransactionError."""
        assert self.chain_id is not None
        assert self.gas is not None
        if self.type == FEE_MARKET_TYPE:
            assert self.max_fee_per_gas is not None
            assert self.max_priority_fee_per_gas is not None
            return FeeMarketTransaction(
                chain_id=self.chain_id,
                nonce=nonce,
                max_priority_fee_per_gas=self.max_priority_fee_per_gas,
                max_fee_per_gas=self.max_fee_per_gas,
                gas=self.gas,
                to=self.to,
                value=self.value,
                data=self.data,
                access_list=self.access_list,
            )
        assert self.gas_price is not None
        if self.type == ACCESS_LIST_TYPE:
            return AccessListTransaction(
                chain_id=self.chain_id,
                nonce=nonce,
                gas_price=self.gas_price,
                gas=self.gas,
                to=self.to,
                value=self.value,
                data=self.data,
                access_list=self.access_list,
            )
        return LegacyTransaction(
            chain_id=self.chain_id,
            nonce=nonce,
            gas_price=self.gas_price,
            gas=self.gas,
            to=self.to,
            value=self.value,
            data=self.data,
        )


def read_transaction(value: object) -> TransactionRequest:
    """Read the parameter; raises InvalidParamsError that names every fault with its place."""
    if not isinstance(value, dict):
        raise InvalidParamsError(f"{_PLACE} must be a transaction object, such as {{from, to, value}}.")
    fields = _Fields(value)
    sender = fields.read("from", address_of)
    request = TransactionRequest(
        sender=Address(sender or ""),
        to=_address(fields.read("to", address_of)),
        data=_data(fields),
        value=fields.read("value", quantity_of) or 0,
        type=_type(fields),
        gas=fields.read("gas", _up_to(MAX_GAS)),
        gas_price=fields.read("gasPrice", quantity_of),
        max_fee_per_gas=fields.read("maxFeePerGas", quantity_of),
        max_priority_fee_per_gas=fields.read("maxPriorityFeePerGas", quantity_of),
        nonce=fields.read("nonce", _up_to(MAX_NONCE)),
        chain_id=fields.read("chainId", _chain_id),
        access_list=fields.read("accessList", _access_list) or (),
    )
    if not fields.has("from"):
        fields.fault("from", "is missing: whose transaction is it?")
    _check_together(fields, request)
    fields.raise_faults()
    return request


def write_transaction(request: TransactionRequest) -> dict[str, Any]:
    """The transaction object, spelled as a node spells it; what is open is left out."""
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
    if request.type != LEGACY_TYPE:
        document["accessList"] = [
            {"address": entry.address, "storageKeys": [hex_of(key) for key in entry.storage_keys]}
            for entry in request.access_list
        ]
    return document


class _Fields:
    """The fields of a transaction object, and the faults found so far. A field that is null is left out."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values
        self._faults: list[Fault] = []
        for name, reason in _NOT_SIGNED.items():
            if self.has(name):
                self.fault(name, f"{reason}.")

    def has(self, name: str) -> bool:
        return self._values.get(name) is not None

    def first(self, *names: str) -> str | None:
        """The first of the names that is there."""
        return next(filter(self.has, names), None)

    def read(self, name: str, read: Callable[[Any], Value]) -> Value | None:
        if not self.has(name):
            return None
        try:
            return read(self._values[name])
        except _InnerError as error:
            self.fault(name + error.place, f"{error}.")
        except HexError as error:
            self.fault(name, f"{error}.")
        return None

    def fault(self, name: str, reason: str) -> None:
        self._faults.append(Fault(f"{_PLACE}.{name}", reason))

    def are_sound(self, *names: str) -> bool:
        """Whether no fault has been found in these."""
        return not {f"{_PLACE}.{name}" for name in names} & {fault.pointer for fault in self._faults}

    def raise_faults(self) -> None:
        if self._faults:
            sentences = [f"{fault.pointer} {fault.detail}" for fault in self._faults]
            raise InvalidParamsError(" ".join(sentences), self._faults)


class _InnerError(HexError):
    """A fault inside a field, at `place` in it."""

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(reason)
        self.place = place


def _up_to(maximum: int) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        number = quantity_of(value)
        if number > maximum:
            raise HexError(f"must be at most {quantity(maximum)}")
        return number

    return read


def _chain_id(value: Any) -> int:
    number = _up_to(MAX_CHAIN_ID)(value)
    if not number:
        raise HexError("must not be 0x0, which is no chain")
    return number


def _address(address: str | None) -> Address | None:
    return None if address is None else Address(address)


def _data(fields: _Fields) -> bytes:
    data, same = fields.read("data", data_of), fields.read("input", data_of)
    if data is not None and same is not None and data != same:
        fields.fault("input", "must be the same as data: they are two names of one field.")
    return data or same or b""


def _type(fields: _Fields) -> int:
    """The type that is named, or that has the fields that there are."""
    if fields.has("type"):
        kind = fields.read("type", quantity_of)
        if kind is not None and kind not in _NAMES_OF_TYPES:
            fields.fault("type", "must be 0x0, 0x1 or 0x2: this wallet signs no others.")
        return LEGACY_TYPE if kind is None else kind
    if fields.first(*_PRICES_OF_FEE_MARKET):
        return FEE_MARKET_TYPE
    return ACCESS_LIST_TYPE if fields.has("accessList") else LEGACY_TYPE


def _access_list(value: Any) -> AccessList:
    if not isinstance(value, list):
        raise HexError("must be an array of {address, storageKeys}")
    return tuple(_access_list_entry(f"[{position}]", entry) for position, entry in enumerate(value))


def _access_list_entry(place: str, value: Any) -> AccessListEntry:
    if not isinstance(value, dict):
        raise _InnerError(place, "must be an object {address, storageKeys}")
    keys = value.get("storageKeys", [])
    if not isinstance(keys, list):
        raise _InnerError(f"{place}.storageKeys", "must be an array of DATA")
    address = _inner(f"{place}.address", address_of, value.get("address"))
    return AccessListEntry(
        address,
        tuple(
            _inner(f"{place}.storageKeys[{position}]", _storage_key, key) for position, key in enumerate(keys)
        ),
    )


def _storage_key(value: Any) -> bytes:
    return data_of(value, STORAGE_KEY_BYTES)


def _inner(place: str, read: Callable[[Any], Value], value: Any) -> Value:
    try:
        return read(value)
    except HexError as error:
        raise _InnerError(place, str(error)) from None


def _check_together(fields: _Fields, request: TransactionRequest) -> None:
    """What each field by itself does not show."""
    if not fields.has("to") and not request.data and fields.are_sound("data", "input"):
        fields.fault("data", "is missing: without to, it is the code of the contract to create.")
    if fields.has("gasLimit") and fields.read("gasLimit", quantity_of) != request.gas:
        fields.fault("gasLimit", "is called gas.")
    kind = _NAMES_OF_TYPES.get(request.type)
    if kind is not None:
        _check_type(fields, request, kind)
    tip, most = request.max_priority_fee_per_gas, request.max_fee_per_gas
    if tip is not None and most is not None and tip > most:
        fields.fault("maxPriorityFeePerGas", "must not be greater than maxFeePerGas.")


def _check_type(fields: _Fields, request: TransactionRequest, kind: str) -> None:
    price = fields.first(*_PRICES_OF_FEE_MARKET)
    if request.type == FEE_MARKET_TYPE and fields.has("gasPrice"):
        fields.fault("gasPrice", f"does not belong to {kind}: leave it out, or name no other price.")
    if request.type != FEE_MARKET_TYPE and price is not None:
        fields.fault(price, f"does not belong to {kind}: leave out the type, or make it 0x2.")
    if request.type == LEGACY_TYPE and fields.has("accessList"):
        fields.fault("accessList", f"does not belong to {kind}: leave out the type, or make it 0x1 or 0x2.")
