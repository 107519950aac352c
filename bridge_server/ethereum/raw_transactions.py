"""Signed transactions, read strictly, with the signer's address.

Legacy transactions with a chain (EIP-155) and without, and the types 1 to 4: EIP-2930, EIP-1559, EIP-4844
with and without its blobs, EIP-7702. Refused, as by every node: numbers with leading zeros or out of range,
too many fields, addresses of another length, a high s.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from bridge_server.ethereum import rlp
from bridge_server.ethereum.blob_sidecars import BLOB_HASH_VERSION, check_sidecar
from bridge_server.ethereum.keccak import keccak256
from bridge_server.ethereum.recovery import SignatureError, recover_address
from bridge_server.ethereum.transaction_fields import TransactionFields
from bridge_server.ethereum.transactions import (
    ACCESS_LIST_TYPE,
    BLOB_TYPE,
    FEE_MARKET_TYPE,
    LEGACY_TYPE,
    LEGACY_V,
    MAX_CHAIN_ID,
    MAX_GAS,
    MAX_NONCE,
    MAX_WEI,
    SET_CODE_TYPE,
    AccessList,
    TransactionError,
    check_fees,
    legacy_v,
)

_FIRST_BYTE_OF_A_LIST = 0xC0
_LEGACY_ITEMS = 9
_ITEMS = {ACCESS_LIST_TYPE: 11, FEE_MARKET_TYPE: 12, BLOB_TYPE: 14, SET_CODE_TYPE: 13}
_SIGNATURE_ITEMS = 3
_V_WITHOUT_CHAIN = (27, 28)
_HASH_BYTES = 32
_UINT256_MAX = 2**256 - 1


class RawTransactionError(ValueError):
    """The bytes are not a valid signed transaction; the text names the wrong field."""


@dataclass(frozen=True, slots=True)
class Authorization:
    """An account's leave to run the code at `address` in its name (EIP-7702); 0 means every chain."""

    chain_id: int
    address: str
    nonce: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RawTransaction:
    """A signed transaction. Addresses are in lower case; prices and values in wei.

    `chain_id` is None when the transaction is good for every chain. `max_fee_per_gas` is the gas price where
    there is only one, and then there is no `max_priority_fee_per_gas`. `to` None creates a contract.
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
    """Read the parameter of eth_sendRawTransaction; raises RawTransactionError.

    Blobs that come with a transaction are not in its hash.
    """
    try:
        if raw[:1] >= bytes([_FIRST_BYTE_OF_A_LIST]):
            return _read_legacy(raw)
        if raw and raw[0] in _ITEMS:
            return _read_typed(raw)
    except (rlp.RlpError, SignatureError, TransactionError) as error:
        raise RawTransactionError(str(error)) from None
    raise RawTransactionError(
        "a signed transaction begins with its type, 0x01 to 0x04, or is a legacy one: an RLP list"
    )


def _read_legacy(raw: bytes) -> RawTransaction:
    items = _list(rlp.decode(raw))
    fields = TransactionFields("the transaction", items, _LEGACY_ITEMS)
    signed, signature = (
        items[:-_SIGNATURE_ITEMS],
        TransactionFields("the signature", items[-_SIGNATURE_ITEMS:]),
    )
    chain_id, parity = _chain_and_parity(signature.number("v", legacy_v(MAX_CHAIN_ID, 1)))
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
    items = _list(rlp.decode(raw[1:]))
    sidecar: Sequence[rlp.Item] | None = None
    if raw[0] == BLOB_TYPE and items and not isinstance(items[0], bytes):
        items, sidecar = items[0], items[1:]
        raw = raw[:1] + rlp.encode(items)
    transaction = _read_items(raw, items)
    if transaction.max_priority_fee_per_gas is not None:
        check_fees(transaction.max_priority_fee_per_gas, transaction.max_fee_per_gas)
    if sidecar is not None:
        check_sidecar(sidecar, transaction.blob_hashes)
    return transaction


def _read_items(raw: bytes, items: Sequence[rlp.Item]) -> RawTransaction:
    """Read a typed transaction without blobs: its bytes, and the items that are encoded in them."""
    kind, prefix = raw[0], raw[:1]
    fields = TransactionFields("the transaction", items, _ITEMS[kind])
    signed, signature = (
        items[:-_SIGNATURE_ITEMS],
        TransactionFields("the signature", items[-_SIGNATURE_ITEMS:]),
    )
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


def _list(item: rlp.Item) -> Sequence[rlp.Item]:
    if isinstance(item, bytes):
        raise rlp.RlpError("the transaction must be a list, and is a string of bytes")
    return item


def _chain_and_parity(v: int) -> tuple[int | None, int]:
    if v in _V_WITHOUT_CHAIN:
        return None, v - _V_WITHOUT_CHAIN[0]
    if v < legacy_v(1, 0):
        raise rlp.RlpError(f"v must be 27, 28, or at least {legacy_v(1, 0)} (EIP-155), and is {v}")
    return (v - LEGACY_V) // 2, (v - LEGACY_V) % 2


def _sender(signed: bytes, parity: int, signature: TransactionFields) -> str:
    r, s = signature.number("r", _UINT256_MAX), signature.number("s", _UINT256_MAX)
    spelled = r.to_bytes(_HASH_BYTES) + s.to_bytes(_HASH_BYTES) + bytes([parity])
    return recover_address(keccak256(signed), spelled).lower()


def _blob_hashes(fields: TransactionFields) -> tuple[bytes, ...]:
    hashes = fields.bytes_list("blob_versioned_hashes", _HASH_BYTES)
    if not hashes or not all(named.startswith(BLOB_HASH_VERSION) for named in hashes):
        raise rlp.RlpError("blob_versioned_hashes must name a blob or more, each by a hash of version 1")
    return hashes


def _authorizations(fields: TransactionFields) -> tuple[Authorization, ...]:
    authorizations = fields.list_of("authorization_list", _authorization)
    if not authorizations:
        raise rlp.RlpError("authorization_list must not be empty (EIP-7702)")
    return authorizations


def _authorization(place: str, item: rlp.Item) -> Authorization:
    fields = TransactionFields(place, item, 6)
    authorization = Authorization(
        fields.number(f"{place}.chain_id", _UINT256_MAX),
        fields.address(f"{place}.address"),
        fields.number(f"{place}.nonce", 2**64 - 1),
    )
    fields.number(f"{place}.y_parity", 2**8 - 1)
    fields.number(f"{place}.r", _UINT256_MAX)
    fields.number(f"{place}.s", _UINT256_MAX)
    return authorization
