"""Transactions as they are signed: legacy ones for one chain (EIP-155), EIP-2930 and EIP-1559.

Prices, fees and values are in wei. An address is a string, as `address` has it, in any letter case.
"""

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from bridge_server.ethereum import rlp
from bridge_server.ethereum.hex_data import ADDRESS_BYTES, HexError, data_of
from bridge_server.ethereum.keccak import keccak256
from bridge_server.ethereum.signing_key import SigningKey

MAX_CHAIN_ID = (2**64 - 1) // 2 - 36  # EIP-2294
MAX_NONCE = 2**64 - 2  # EIP-2681
MAX_GAS = 2**64 - 1
MAX_WEI = 2**256 - 1

LEGACY_TYPE, ACCESS_LIST_TYPE, FEE_MARKET_TYPE, BLOB_TYPE, SET_CODE_TYPE = range(5)

LEGACY_V = 35
"""The constant that EIP-155 adds to the parity and twice the chain id."""

STORAGE_KEY_BYTES = 32

_TYPE_PREFIXES = (b"", b"\x01", b"\x02")
_TWO_EMPTY_STRINGS = b"\x80\x80"  # they stand where r and s will


class TransactionError(ValueError):
    """A field is out of its range; the text begins with its name."""


@dataclass(frozen=True, slots=True)
class AccessListEntry:
    """A contract, and the slots of its storage (32 bytes each), that a transaction says it will use."""

    address: str
    storage_keys: tuple[bytes, ...] = ()


AccessList: TypeAlias = tuple[AccessListEntry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyTransaction:
    """A transaction with one price for gas. `to` None creates a contract out of `data`."""

    type: ClassVar[int] = LEGACY_TYPE

    chain_id: int
    nonce: int
    gas_price: int
    gas: int
    to: str | None
    value: int = 0
    data: bytes = b""

    def __post_init__(self) -> None:
        _check(self)
        check_range("gas_price", self.gas_price, MAX_WEI)

    def fields(self) -> list[rlp.Item]:
        """The signed fields in order, without the chain id."""
        number = rlp.number
        return [
            number(self.nonce),
            number(self.gas_price),
            number(self.gas),
            address_bytes(self.to),
            number(self.value),
            self.data,
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessListTransaction:
    """A transaction with an access list (EIP-2930)."""

    type: ClassVar[int] = ACCESS_LIST_TYPE

    chain_id: int
    nonce: int
    gas_price: int
    gas: int
    to: str | None
    value: int = 0
    data: bytes = b""
    access_list: AccessList = ()

    def __post_init__(self) -> None:
        _check(self)
        check_range("gas_price", self.gas_price, MAX_WEI)
        _check_access_list(self.access_list)

    def fields(self) -> list[rlp.Item]:
        """The signed fields in order."""
        number = rlp.number
        return [
            number(self.chain_id),
            number(self.nonce),
            number(self.gas_price),
            number(self.gas),
            address_bytes(self.to),
            number(self.value),
            self.data,
            _access_list_item(self.access_list),
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class FeeMarketTransaction:
    """A transaction that pays the block's base fee and something on top, up to a maximum (EIP-1559)."""

    type: ClassVar[int] = FEE_MARKET_TYPE

    chain_id: int
    nonce: int
    max_priority_fee_per_gas: int
    max_fee_per_gas: int
    gas: int
    to: str | None
    value: int = 0
    data: bytes = b""
    access_list: AccessList = ()

    def __post_init__(self) -> None:
        _check(self)
        check_fees(self.max_priority_fee_per_gas, self.max_fee_per_gas)
        _check_access_list(self.access_list)

    def fields(self) -> list[rlp.Item]:
        """The signed fields in order."""
        number = rlp.number
        return [
            number(self.chain_id),
            number(self.nonce),
            number(self.max_priority_fee_per_gas),
            number(self.max_fee_per_gas),
            number(self.gas),
            address_bytes(self.to),
            number(self.value),
            self.data,
            _access_list_item(self.access_list),
        ]


Transaction: TypeAlias = LegacyTransaction | AccessListTransaction | FeeMarketTransaction


def sign_transaction(transaction: Transaction, key: SigningKey) -> tuple[bytes, bytes, bytes]:
    """The signed transaction as a node takes it, its hash, by which it is known on the chain, and the 32
    bytes that were signed.
    """
    fields = _joined(transaction.fields())
    digest = _signing_hash(transaction, fields)
    r, s, parity = key.sign_parity(digest)
    v = legacy_v(transaction.chain_id, parity) if transaction.type == LEGACY_TYPE else parity
    signature = _joined([rlp.number(v), rlp.number(r), rlp.number(s)])
    raw = _envelope(transaction.type, fields + signature)
    return raw, keccak256(raw), digest


def legacy_v(chain_id: int, parity: int) -> int:
    """The v that binds a legacy transaction's signature to a chain (EIP-155)."""
    return LEGACY_V + 2 * chain_id + parity


def check_range(name: str, value: int, maximum: int, minimum: int = 0) -> None:
    """Raise TransactionError unless the value lies in its range."""
    if not minimum <= value <= maximum:
        raise TransactionError(f"{name} must lie between {minimum} and {maximum:#x}, and is {value:#x}")


def check_fees(max_priority_fee_per_gas: int, max_fee_per_gas: int) -> None:
    """Raise TransactionError unless the tip fits under the maximum, as EIP-1559 demands."""
    check_range("max_fee_per_gas", max_fee_per_gas, MAX_WEI)
    check_range("max_priority_fee_per_gas", max_priority_fee_per_gas, MAX_WEI)
    if max_priority_fee_per_gas > max_fee_per_gas:
        raise TransactionError(
            f"max_priority_fee_per_gas ({max_priority_fee_per_gas}) must not be greater than "
            f"max_fee_per_gas ({max_fee_per_gas})"
        )


def address_bytes(address: str | None) -> bytes:
    """The 20 bytes of an address; none for None."""
    return b"" if address is None else bytes.fromhex(address[2:])


def _check(transaction: Transaction) -> None:
    check_range("chain_id", transaction.chain_id, MAX_CHAIN_ID, minimum=1)
    check_range("nonce", transaction.nonce, MAX_NONCE)
    check_range("gas", transaction.gas, MAX_GAS)
    check_range("value", transaction.value, MAX_WEI)
    if transaction.to is not None:
        _check_address("to", transaction.to)


def _check_access_list(access_list: AccessList) -> None:
    for position, entry in enumerate(access_list):
        _check_address(f"access_list[{position}].address", entry.address)
        if any(len(key) != STORAGE_KEY_BYTES for key in entry.storage_keys):
            raise TransactionError(
                f"access_list[{position}].storage_keys must have {STORAGE_KEY_BYTES} bytes each"
            )


def _check_address(name: str, address: str) -> None:
    try:
        data_of(address, ADDRESS_BYTES)
    except HexError as error:
        raise TransactionError(f"{name} {error}") from None


def _access_list_item(access_list: AccessList) -> rlp.Item:
    return [[address_bytes(entry.address), entry.storage_keys] for entry in access_list]


def _joined(items: list[rlp.Item]) -> bytes:
    return b"".join(map(rlp.encode, items))


def _signing_hash(transaction: Transaction, encoded_fields: bytes) -> bytes:
    if transaction.type == LEGACY_TYPE:
        encoded_fields += rlp.encode(rlp.number(transaction.chain_id)) + _TWO_EMPTY_STRINGS
    return keccak256(_envelope(transaction.type, encoded_fields))


def _envelope(transaction_type: int, encoded_fields: bytes) -> bytes:
    """The list of the fields, behind its type if it has one (EIP-2718)."""
    return _TYPE_PREFIXES[transaction_type] + rlp.encode_list(encoded_fields)
