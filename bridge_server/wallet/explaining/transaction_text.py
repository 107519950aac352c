"""A transaction, as JSON-RPC spells it, for a person's eyes: its effect and its greatest cost."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from bridge_server.ethereum.address import checksummed
from bridge_server.ethereum.blob_sidecars import GAS_OF_A_BLOB
from bridge_server.ethereum.hex_data import HexError, address_of, data_of, hex_of, quantity, quantity_of
from bridge_server.ethereum.raw_transactions import Authorization, RawTransaction
from bridge_server.wallet.explaining.amounts import ether, gwei
from bridge_server.wallet.explaining.known_calls import ReadCall, read_call
from bridge_server.wallet.explaining.visible_text import visible

Line: TypeAlias = tuple[str, str]
"""A label and a text of one line; the label is empty where the text goes on."""

MAX_SHOWN_BYTES = 1_024

_NUMBERS = {"chainId": "chain", "nonce": "nonce", "type": "type"}
_COSTS = {"gas": "gas", "gasPrice": "gas price", "maxFeePerGas": "max. fee", "maxPriorityFeePerGas": "tip"}
_SHOWN_BY_NAME = {"from", "to", "value", "data", "input", "accessList", *_NUMBERS, *_COSTS}


def transaction_lines(transaction: Mapping[str, Any]) -> list[Line]:
    """A transaction with all its members, also unknown ones. Members may be missing."""
    return [
        *_purpose(transaction),
        *_recipient(transaction),
        *_cost(transaction),
        *(
            _plain(label, transaction[name], _number)
            for name, label in _NUMBERS.items()
            if name in transaction
        ),
        *_access_list(transaction.get("accessList")),
        *_data(transaction),
        *(
            ("also", f"{visible(name)}: {_json(value)}")
            for name, value in transaction.items()
            if name not in _SHOWN_BY_NAME
        ),
    ]


def raw_transaction_lines(raw: RawTransaction) -> list[Line]:
    """A transaction that is signed already."""
    spelled: dict[str, Any] = {
        "to": raw.to,
        "value": quantity(raw.value),
        "gas": quantity(raw.gas),
        "maxFeePerGas": quantity(raw.max_fee_per_gas),
        "nonce": quantity(raw.nonce),
        "data": hex_of(raw.data),
        "accessList": [
            {"address": entry.address, "storageKeys": [hex_of(key) for key in entry.storage_keys]}
            for entry in raw.access_list
        ],
    }
    if raw.max_priority_fee_per_gas is not None:
        spelled["maxPriorityFeePerGas"] = quantity(raw.max_priority_fee_per_gas)
    return [
        ("signed by", checksummed(raw.sender)),
        ("hash", hex_of(raw.hash)),
        ("chain", "EVERY chain: it is not bound to one" if raw.chain_id is None else str(raw.chain_id)),
        *transaction_lines(spelled),
        *_blobs(raw),
        *(("authorizes", _authorization(leave)) for leave in raw.authorizations),
    ]


def bytes_line(label: str, content: bytes) -> Line:
    """Bytes in hexadecimal, with their number; of many only the beginning, which is said."""
    count = f"{len(content)} bytes" if len(content) != 1 else "1 byte"
    if len(content) > MAX_SHOWN_BYTES:
        return label, f"{count}, of which the first {MAX_SHOWN_BYTES}: {hex_of(content[:MAX_SHOWN_BYTES])}"
    return label, f"{count}: {hex_of(content)}" if content else "none"


def _blobs(raw: RawTransaction) -> Iterator[Line]:
    if raw.max_fee_per_blob_gas is None:
        return
    fee = len(raw.blob_hashes) * GAS_OF_A_BLOB * raw.max_fee_per_blob_gas
    yield "blob fee", f"besides, at most {ether(fee)}"
    for named in raw.blob_hashes:
        yield "blob", hex_of(named)


def _authorization(leave: Authorization) -> str:
    chain = f"chain {leave.chain_id}" if leave.chain_id else "EVERY chain"
    return f"{checksummed(leave.address)} to be the code of an account (nonce {leave.nonce}, {chain})"


def _purpose(transaction: Mapping[str, Any]) -> Iterator[Line]:
    given = _given_data(transaction)
    data = _bytes(next(iter(given.values()))) if given else b""
    if data is None:
        yield "WARNING", "what it does is not known: its data are not understood"
    elif transaction.get("to") is None:
        yield "does", "create a contract"
    elif not data:
        yield "does", "send ether"
    elif (call := read_call(data)) is None:
        yield "does", f"call a function that is not known here: {hex_of(data[:4])}"
    else:
        yield from _call(call)


def _call(call: ReadCall) -> Iterator[Line]:
    yield "does", f"{call.meaning}: {call.signature}"
    for name, value in call.arguments:
        yield "", f"  {name}: {value}"
    if call.fault is not None:
        yield "WARNING", f"the call cannot be read: {call.fault}"
    if call.warning is not None:
        yield "WARNING", call.warning


def _recipient(transaction: Mapping[str, Any]) -> Iterator[Line]:
    if "from" in transaction:
        yield _plain("from", transaction["from"], _address)
    if transaction.get("to") is not None:
        yield _plain("to", transaction["to"], _address)
    yield _plain("value", transaction.get("value", "0x0"), lambda value: ether(quantity_of(value)))


def _cost(transaction: Mapping[str, Any]) -> Iterator[Line]:
    """The most that the transaction can take from the account."""
    prices = [transaction[name] for name in ("maxFeePerGas", "gasPrice") if name in transaction]
    try:
        [price] = map(quantity_of, prices)
        value, gas = quantity_of(transaction.get("value", "0x0")), quantity_of(transaction.get("gas"))
    except ValueError:  # also when there are two prices, or none
        for name, label in _COSTS.items():
            if name in transaction:
                yield label, _json(transaction[name])
        yield "WARNING", "what it can cost is not known: it needs a value, gas and one price of gas"
        return
    yield "fee", f"at most {ether(gas * price)}: {gas} gas at {gwei(price)}"
    if "maxPriorityFeePerGas" in transaction:
        yield _plain(
            "tip", transaction["maxPriorityFeePerGas"], lambda tip: f"{gwei(quantity_of(tip))} of it"
        )
    if value:
        yield "in all", f"at most {ether(value + gas * price)}"


def _access_list(value: Any) -> Iterator[Line]:
    entries = value if isinstance(value, list) else [] if value is None else [value]
    for entry in entries:
        yield "access list", _json(entry)


def _data(transaction: Mapping[str, Any]) -> Iterator[Line]:
    given = _given_data(transaction)
    for name, value in given.items():
        content = _bytes(value)
        yield (name, _json(value)) if content is None else bytes_line(name, content)
    if len(given) == 2:
        yield "WARNING", "data and input differ"


def _given_data(transaction: Mapping[str, Any]) -> dict[str, Any]:
    """The call's data under the names that they have: under one, unless they differ."""
    given = {name: transaction[name] for name in ("input", "data") if transaction.get(name) is not None}
    if len(given) == 2 and given["data"] == given["input"]:
        del given["input"]
    return given


def _bytes(value: Any) -> bytes | None:
    try:
        return data_of(value)
    except HexError:
        return None


def _plain(label: str, value: Any, read: Callable[[Any], str]) -> Line:
    """A value in words; a malformed one as it came."""
    try:
        return label, read(value)
    except HexError:
        return label, f"{_json(value)} (not understood)"


def _address(value: Any) -> str:
    return checksummed(address_of(value))


def _number(value: Any) -> str:
    return str(quantity_of(value))


def _json(value: Any) -> str:
    return visible(json.dumps(value, ensure_ascii=False))
