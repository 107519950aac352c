"""Transactions: signed (EIP-155, EIP-2930, EIP-1559), and read strictly, with the signer's address.

Read are legacy transactions with a chain (EIP-155) and without, and the types 1 to 4: EIP-2930, EIP-1559,
EIP-4844 with and without its blobs, EIP-7702. Refused, as by every node: numbers with leading zeros or out of
range, too many fields, addresses of another length, a high s.
"""

from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from typing import ClassVar, NamedTuple, TypeAlias, TypeVar

from bridge_server.ethereum import rlp
from bridge_server.ethereum.address import ADDRESS_BYTES, HexError, data_of, hex_of
from bridge_server.ethereum.keccak import keccak256
from bridge_server.ethereum.signing_key import SignatureError, SigningKey, recover_address
from bridge_server.kernel.values import dataclass

MAX_CHAIN_ID = (2**64 - 1) // 2 - 36  # EIP-2294
MAX_NONCE = 2**64 - 2  # EIP-2681
MAX_GAS = 2**64 - 1
MAX_WEI = 2**256 - 1

LEGACY_TYPE, ACCESS_LIST_TYPE, FEE_MARKET_TYPE, BLOB_TYPE, SET_CODE_TYPE = range(5)

_LEGACY_V = 35  # the constant that EIP-155 adds to the parity and twice the chain id

STORAGE_KEY_BYTES = 32

_TYPE_PREFIXES = (b"", b"\x01", b"\x02")
_TWO_EMPTY_STRINGS = b"\x80\x80"  # they stand where r and s will

Value = TypeVar("Value")

_BLOB_HASH_VERSION = b"\x01"
GAS_OF_A_BLOB = 131_072  # the gas of one blob, which is a gas of its own

_BLOB_BYTES = 131_072
_COMMITMENT_BYTES = _PROOF_BYTES = 48
_CELLS_OF_A_BLOB = 128
_CELL_PROOFS_VERSION = 1

_LIST = 0xC0
_LEGACY_ITEMS = 9
_ITEMS = {ACCESS_LIST_TYPE: 11, FEE_MARKET_TYPE: 12, BLOB_TYPE: 14, SET_CODE_TYPE: 13}
_SIGNATURE_ITEMS = 3
_V_WITHOUT_CHAIN = (27, 28)
_HASH_BYTES = 32


class TransactionError(ValueError):
    """A field is out of its range; the text begins with its name."""


class AccessListEntry(NamedTuple):
    """A contract, and the slots of its storage (32 bytes each), that a transaction says it will use."""

    address: str
    storage_keys: tuple[bytes, ...] = ()


AccessList: TypeAlias = tuple[AccessListEntry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _AnyTransaction:
    """The fields of every transaction. `to` None creates a contract out of `data`."""

    chain_id: int
    nonce: int
    gas: int
    to: str | None
    value: int = 0
    data: bytes = b""

    def __post_init__(self) -> None:
        _check(self)

    def _last_fields(self) -> list[rlp.Item]:
        """The signed fields from the gas on, in order, without an access list."""
        number = rlp.number
        return [number(self.gas), address_bytes(self.to), number(self.value), self.data]


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyTransaction(_AnyTransaction):
    """A transaction with one price for gas."""

    type: ClassVar[int] = LEGACY_TYPE

    gas_price: int

    def fields(self) -> list[rlp.Item]:
        """The signed fields in order, without the chain id."""
        return [rlp.number(self.nonce), rlp.number(self.gas_price), *self._last_fields()]


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessListTransaction(_AnyTransaction):
    """A transaction with an access list (EIP-2930)."""

    type: ClassVar[int] = ACCESS_LIST_TYPE

    gas_price: int
    access_list: AccessList = ()

    def fields(self) -> list[rlp.Item]:
        """The signed fields in order."""
        number = rlp.number
        first = [number(self.chain_id), number(self.nonce), number(self.gas_price)]
        return [*first, *self._last_fields(), _access_list_item(self.access_list)]


@dataclass(frozen=True, slots=True, kw_only=True)
class FeeMarketTransaction(_AnyTransaction):
    """A transaction that pays the block's base fee and something on top, up to a maximum (EIP-1559)."""

    type: ClassVar[int] = FEE_MARKET_TYPE

    max_priority_fee_per_gas: int
    max_fee_per_gas: int
    access_list: AccessList = ()

    def fields(self) -> list[rlp.Item]:
        """The signed fields in order."""
        number = rlp.number
        prices = (number(self.max_priority_fee_per_gas), number(self.max_fee_per_gas))
        first = (number(self.chain_id), number(self.nonce), *prices)
        return [*first, *self._last_fields(), _access_list_item(self.access_list)]


Transaction: TypeAlias = LegacyTransaction | AccessListTransaction | FeeMarketTransaction


def sign_transaction(transaction: Transaction, key: SigningKey) -> tuple[bytes, bytes, bytes]:
    """The signed transaction as a node takes it, its hash on the chain, and the 32 bytes that were signed."""
    fields = signed = _joined(transaction.fields())
    if transaction.type == LEGACY_TYPE:
        signed += rlp.encode(rlp.number(transaction.chain_id)) + _TWO_EMPTY_STRINGS
    digest = keccak256(_envelope(transaction.type, signed))
    r, s, parity = key.sign_parity(digest)
    v = _legacy_v(transaction.chain_id, parity) if transaction.type == LEGACY_TYPE else parity
    signature = _joined([rlp.number(v), rlp.number(r), rlp.number(s)])
    raw = _envelope(transaction.type, fields + signature)
    return raw, keccak256(raw), digest


def _legacy_v(chain_id: int, parity: int) -> int:
    """The v that binds a legacy transaction's signature to a chain (EIP-155)."""
    return _LEGACY_V + 2 * chain_id + parity


def _check_range(name: str, value: int, maximum: int, minimum: int = 0) -> None:
    """Raise TransactionError unless the value lies in its range."""
    if not minimum <= value <= maximum:
        raise TransactionError(f"{name} must lie between {minimum} and {maximum:#x}, and is {value:#x}")


def _check_fees(max_priority_fee_per_gas: int, max_fee_per_gas: int) -> None:
    """Raise TransactionError unless the tip fits under the maximum, as EIP-1559 demands."""
    _check_range("max_fee_per_gas", max_fee_per_gas, MAX_WEI)
    _check_range("max_priority_fee_per_gas", max_priority_fee_per_gas, MAX_WEI)
    if max_priority_fee_per_gas > max_fee_per_gas:
        raise TransactionError(
            f"max_priority_fee_per_gas ({max_priority_fee_per_gas}) must not be greater than "
            f"max_fee_per_gas ({max_fee_per_gas})"
        )


def address_bytes(address: str | None) -> bytes:
    """The 20 bytes of an address; none for None."""
    return b"" if address is None else bytes.fromhex(address[2:])


def _check(transaction: _AnyTransaction) -> None:
    _check_range("chain_id", transaction.chain_id, MAX_CHAIN_ID, minimum=1)
    _check_range("nonce", transaction.nonce, MAX_NONCE)
    _check_range("gas", transaction.gas, MAX_GAS)
    _check_range("value", transaction.value, MAX_WEI)
    if transaction.to is not None:
        _check_address("to", transaction.to)
    if isinstance(transaction, LegacyTransaction | AccessListTransaction):
        _check_range("gas_price", transaction.gas_price, MAX_WEI)
    if isinstance(transaction, FeeMarketTransaction):
        _check_fees(transaction.max_priority_fee_per_gas, transaction.max_fee_per_gas)
    if isinstance(transaction, AccessListTransaction | FeeMarketTransaction):
        _check_access_list(transaction.access_list)


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


def _envelope(transaction_type: int, encoded_fields: bytes) -> bytes:
    """The list of the fields, behind its type if it has one (EIP-2718)."""
    return _TYPE_PREFIXES[transaction_type] + rlp.encode_list(encoded_fields)


class RawTransactionError(ValueError):
    """The bytes are not a valid signed transaction; the text names the wrong field."""


class Authorization(NamedTuple):
    """An account's leave to run the code at `address` in its name (EIP-7702); 0 means every chain."""

    chain_id: int
    address: str
    nonce: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RawTransaction:
    """A signed transaction. Addresses are in lower case; prices and values in wei. `chain_id` is None when
    the transaction is good for every chain. `max_fee_per_gas` is the gas price where there is only one, and
    then there is no `max_priority_fee_per_gas`. `to` None creates a contract.
    """

    type: int
    hash: bytes
    sender: str
    chain_id: int | None
    nonce: int
    max_priority_fee_per_gas: int | None = None
    max_fee_per_gas: int
    gas: int
    to: str | None
    value: int
    data: bytes
    access_list: AccessList = ()
    max_fee_per_blob_gas: int | None = None
    blob_hashes: tuple[bytes, ...] = ()
    authorizations: tuple[Authorization, ...] = ()


def read_raw_transaction(raw: bytes) -> RawTransaction:
    """Read the parameter of eth_sendRawTransaction; blobs are not in the hash. Raises RawTransactionError."""
    try:
        if raw[:1] >= bytes([_LIST]):
            return _read_legacy(raw)
        if raw and raw[0] in _ITEMS:
            return _read_typed(raw)
    except (rlp.RlpError, SignatureError, TransactionError) as error:
        raise RawTransactionError(str(error)) from None
    raise RawTransactionError(
        "a signed transaction begins with its type, 0x01 to 0x04, or is a legacy one: an RLP list"
    )


class _Fields:
    """The items of a decoded transaction: each method reads the next. Errors begin with the field's name."""

    def __init__(self, name: str, item: rlp.Item, *counts: int) -> None:
        """Read the list `item`; raise RlpError unless it is one, with as many items as one of `counts`."""
        items = _field_list(name, item)
        if counts and len(items) not in counts:
            expected = " or ".join(map(str, counts))
            raise rlp.RlpError(f"{name} must have {expected} items, and has {len(items)}")
        self._items: Iterator[rlp.Item] = iter(items)

    def number(self, name: str, maximum: int, minimum: int = 0) -> int:
        """A number in a range."""
        try:
            number = rlp.number_of(next(self._items))
        except rlp.RlpError as error:
            raise rlp.RlpError(f"{name} {error}") from None
        _check_range(name, number, maximum, minimum)
        return number

    def data(self, name: str, size: int | None = None) -> bytes:
        """Bytes: `size` of them, if it is given."""
        return _bytes(name, next(self._items), size)

    def address(self, name: str) -> str:
        """An address, in lower case."""
        return hex_of(self.data(name, ADDRESS_BYTES))

    def optional_address(self, name: str) -> str | None:
        """An address, or None for the empty string."""
        data = self.data(name)
        return hex_of(_bytes(name, data, ADDRESS_BYTES)) if data else None

    def list_of(self, name: str, read: Callable[[str, rlp.Item], Value]) -> tuple[Value, ...]:
        """A list, each of whose items is read with its name."""
        items = _field_list(name, next(self._items))
        return tuple(read(f"{name}[{position}]", item) for position, item in enumerate(items))

    def bytes_list(self, name: str, size: int) -> tuple[bytes, ...]:
        """A list of strings of `size` bytes."""
        return self.list_of(name, lambda place, item: _bytes(place, item, size))

    def access_list(self) -> tuple[AccessListEntry, ...]:
        """Addresses, each with the storage keys that are used of it (EIP-2930)."""
        return self.list_of("access_list", _access_list_entry)


def _read_legacy(raw: bytes) -> RawTransaction:
    items = _field_list("the transaction", rlp.decode(raw))
    fields = _Fields("the transaction", items, _LEGACY_ITEMS)
    signed, signature = items[:-_SIGNATURE_ITEMS], _Fields("the signature", items[-_SIGNATURE_ITEMS:])
    chain_id, parity = _chain_and_parity(signature.number("v", _legacy_v(MAX_CHAIN_ID, 1)))
    if chain_id is not None:
        signed = [*signed, rlp.number(chain_id), b"", b""]
    return RawTransaction(  # each argument reads the next item: their order is the transaction's
        type=LEGACY_TYPE,
        hash=keccak256(raw),
        sender=_sender(rlp.encode(signed), parity, signature),
        chain_id=chain_id,
        nonce=fields.number("nonce", MAX_NONCE),
        max_fee_per_gas=fields.number("gas_price", MAX_WEI),
        gas=fields.number("gas", MAX_GAS),
        to=fields.optional_address("to"),
        value=fields.number("value", MAX_WEI),
        data=fields.data("data"),
    )


def _read_typed(raw: bytes) -> RawTransaction:
    items = _field_list("the transaction", rlp.decode(raw[1:]))
    sidecar: Sequence[rlp.Item] | None = None
    if raw[0] == BLOB_TYPE and items and not isinstance(items[0], bytes):
        items, sidecar = items[0], items[1:]
        raw = raw[:1] + rlp.encode(items)
    transaction = _read_items(raw, items)
    if transaction.max_priority_fee_per_gas is not None:
        _check_fees(transaction.max_priority_fee_per_gas, transaction.max_fee_per_gas)
    if sidecar is not None:
        _check_sidecar(sidecar, transaction.blob_hashes)
    return transaction


def _read_items(raw: bytes, items: Sequence[rlp.Item]) -> RawTransaction:
    """Read a typed transaction without blobs: its bytes, and the items that are encoded in them."""
    kind, prefix = raw[0], raw[:1]
    fields = _Fields("the transaction", items, _ITEMS[kind])
    signed, signature = items[:-_SIGNATURE_ITEMS], _Fields("the signature", items[-_SIGNATURE_ITEMS:])
    has_tip = kind != ACCESS_LIST_TYPE
    creates = kind in (ACCESS_LIST_TYPE, FEE_MARKET_TYPE)
    return RawTransaction(  # each argument reads the next item: their order is the transaction's
        type=kind,
        hash=keccak256(raw),
        sender=_sender(prefix + rlp.encode(signed), signature.number("y_parity", 1), signature),
        chain_id=fields.number("chain_id", MAX_CHAIN_ID, minimum=1),
        nonce=fields.number("nonce", MAX_NONCE),
        max_priority_fee_per_gas=fields.number("max_priority_fee_per_gas", MAX_WEI) if has_tip else None,
        max_fee_per_gas=fields.number("max_fee_per_gas" if has_tip else "gas_price", MAX_WEI),
        gas=fields.number("gas", MAX_GAS),
        to=fields.optional_address("to") if creates else fields.address("to"),
        value=fields.number("value", MAX_WEI),
        data=fields.data("data"),
        access_list=fields.access_list(),
        max_fee_per_blob_gas=fields.number("max_fee_per_blob_gas", MAX_WEI) if kind == BLOB_TYPE else None,
        blob_hashes=_blob_hashes(fields) if kind == BLOB_TYPE else (),
        authorizations=_authorizations(fields) if kind == SET_CODE_TYPE else (),
    )


def _chain_and_parity(v: int) -> tuple[int | None, int]:
    if v in _V_WITHOUT_CHAIN:
        return None, v - _V_WITHOUT_CHAIN[0]
    if v < _legacy_v(1, 0):
        raise rlp.RlpError(f"v must be 27, 28, or at least {_legacy_v(1, 0)} (EIP-155), and is {v}")
    return (v - _LEGACY_V) // 2, (v - _LEGACY_V) % 2


def _sender(signed: bytes, parity: int, signature: _Fields) -> str:
    r, s = signature.number("r", MAX_WEI), signature.number("s", MAX_WEI)
    spelled = r.to_bytes(_HASH_BYTES) + s.to_bytes(_HASH_BYTES) + bytes([parity])
    return recover_address(keccak256(signed), spelled).lower()


def _blob_hashes(fields: _Fields) -> tuple[bytes, ...]:
    hashes = fields.bytes_list("blob_versioned_hashes", _HASH_BYTES)
    if not hashes or not all(named.startswith(_BLOB_HASH_VERSION) for named in hashes):
        raise rlp.RlpError("blob_versioned_hashes must name a blob or more, each by a hash of version 1")
    return hashes


def _authorizations(fields: _Fields) -> tuple[Authorization, ...]:
    authorizations = fields.list_of("authorization_list", _authorization)
    if not authorizations:
        raise rlp.RlpError("authorization_list must not be empty (EIP-7702)")
    return authorizations


def _authorization(place: str, item: rlp.Item) -> Authorization:
    fields = _Fields(place, item, 6)
    authorization = Authorization(
        fields.number(f"{place}.chain_id", MAX_WEI),
        fields.address(f"{place}.address"),
        fields.number(f"{place}.nonce", 2**64 - 1),
    )
    fields.number(f"{place}.y_parity", 2**8 - 1)
    fields.number(f"{place}.r", MAX_WEI)
    fields.number(f"{place}.s", MAX_WEI)
    return authorization


def _access_list_entry(place: str, item: rlp.Item) -> AccessListEntry:
    fields = _Fields(place, item, 2)
    return AccessListEntry(
        fields.address(f"{place}.address"), fields.bytes_list(f"{place}.storage_keys", STORAGE_KEY_BYTES)
    )


def _field_list(name: str, item: rlp.Item) -> Sequence[rlp.Item]:
    if isinstance(item, bytes):
        raise rlp.RlpError(f"{name} must be a list, and is a string of bytes")
    return item


def _bytes(name: str, item: rlp.Item, size: int | None) -> bytes:
    if not isinstance(item, bytes):
        raise rlp.RlpError(f"{name} must be a string of bytes, and is a list")
    if size is not None and len(item) != size:
        raise rlp.RlpError(f"{name} must have {size} bytes, and has {len(item)}")
    return item


def blob_hash(commitment: bytes) -> bytes:
    """The 32 bytes by which a transaction names the blob that was committed to."""
    return _BLOB_HASH_VERSION + sha256(commitment).digest()[1:]


def _check_sidecar(items: Sequence[rlp.Item], blob_hashes: Sequence[bytes]) -> None:
    """Raise RlpError unless these items, a sidecar (EIP-4844, EIP-7594), have the number and lengths of the
    proofs, and the hashes of commitments, that the transaction names. The node verifies the proofs.
    """
    fields = _Fields("the blobs' wrapper", items, 3, 4)
    proofs_of_a_blob = 1
    if len(items) == 4:
        fields.number("wrapper_version", _CELL_PROOFS_VERSION, _CELL_PROOFS_VERSION)
        proofs_of_a_blob = _CELLS_OF_A_BLOB
    blobs = fields.bytes_list("blobs", _BLOB_BYTES)
    commitments = fields.bytes_list("commitments", _COMMITMENT_BYTES)
    proofs = fields.bytes_list("proofs", _PROOF_BYTES)
    if len(blobs) != len(blob_hashes) or len(proofs) != len(blobs) * proofs_of_a_blob:
        raise rlp.RlpError(
            f"blobs must be as many as the transaction names ({len(blob_hashes)}, and there are "
            f"{len(blobs)}), with {proofs_of_a_blob} of the proofs each (there are {len(proofs)})"
        )
    if [blob_hash(commitment) for commitment in commitments] != list(blob_hashes):
        raise rlp.RlpError("commitments must be those whose hashes the transaction names")
