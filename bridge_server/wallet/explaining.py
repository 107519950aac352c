"""The data to sign, in words, for the person who must approve it.

Nothing in it can hide: every member is shown, invisible characters are spelled out, and data that is not
understood is called so and shown as it came.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from bridge_server.ethereum import address, sign_in_message, signing_key, transactions, typed_data
from bridge_server.ethereum.address import HexError, checksummed, data_of, hex_of, quantity, quantity_of
from bridge_server.ethereum.typed_data import DOMAIN_TYPE, StructTypes, TypedDataError, read_types
from bridge_server.kernel.instants import rfc3339
from bridge_server.wallet import parameters
from bridge_server.wallet.visible_text import ether, folded, gwei, instant, is_unlimited, read_call, visible

WALLET_CHAIN_ID = "walletChainId"
"""Beside the members of typed data: the chain that the wallet was on when it was asked."""

Line: TypeAlias = tuple[str, str]
"""A label and a text of one line; the label is empty where the text goes on."""

MAX_SHOWN_BYTES = 1_024

_NUMBERS = {"chainId": "chain", "nonce": "nonce", "type": "type"}
_COSTS = {"gas": "gas", "gasPrice": "gas price", "maxFeePerGas": "max. fee", "maxPriorityFeePerGas": "tip"}
_SHOWN_BY_NAME = {"from", "to", "value", "data", "input", "accessList", *_NUMBERS, *_COSTS}

Document: TypeAlias = Mapping[str, Any]
"""The signed part of typed data, as JSON."""

_INDENT = "  "
_TIMES = {"deadline", "sigDeadline", "expiry", "expiration", "validTo", "validAfter", "validBefore"}
_TIMES |= {"startTime", "endTime"}

_COLUMNS = 67  # beside the labels, on a terminal of 80; a hash has 66
_MAX_LINES = 2_000
_HASH_BYTES = 32
_SIGN_IN = "wants you to sign in with your Ethereum account"


class _NotUnderstoodError(ValueError):
    """The subject is not of the kind that its method signs; the text names the fault."""


def explain(method: str, subject: bytes, account: str | None = None) -> list[Line]:
    """Labels and texts, each of one line without invisible characters. Raises nothing.

    `subject` is the JSON text of the data to sign: of a message the DATA, alone or as the member `message` of
    an object; of typed data the object or its JSON string, with the wallet's chain beside it as
    `walletChainId`; of a transaction the object with its gaps filled in; of a signed transaction the DATA.
    `account` would sign it.
    """
    try:
        lines = _explained(method, json.loads(subject), account)
    except (ValueError, RecursionError):
        shown = _texts("as it came", subject.decode("utf-8", "replace"))
        lines = [("WARNING", "this is no JSON, or too deep"), *shown]
    rows: list[Line] = []
    for label, text in lines:
        rows += _rows(label, folded(text, _COLUMNS))
    if len(rows) > _MAX_LINES:
        cut = len(rows) - _MAX_LINES
        rows[_MAX_LINES:] = [("WARNING", f"{cut} more lines are not shown here: --json has everything")]
    return rows


def _explained(method: str, value: Any, account: str | None) -> list[Line]:
    try:
        if method in _MESSAGE_METHODS:
            return _explain_message(value, account)
        if method in _EXPLAINERS:
            return _EXPLAINERS[method](value)
        return [("WARNING", "what this method signs is not known"), *_as_it_came(value)]
    except _NotUnderstoodError as error:
        return [("WARNING", f"this is not understood: {visible(str(error))}"), *_as_it_came(value)]


def _explain_message(value: Any, account: str | None) -> list[Line]:
    message = _data(value["message"] if isinstance(value, dict) and "message" in value else value)
    signed = [bytes_line("bytes", message), ("hash", f"0x{signing_key.personal_message_hash(message).hex()}")]
    try:
        text = message.decode()
    except UnicodeDecodeError:
        is_hash = len(message) == _HASH_BYTES
        hint = "; it may be the hash of something that is not shown" if is_hash else " (UTF-8)"
        return [("WARNING", f"the message is not text{hint}"), *signed]
    return [*_sign_in(text, account), *_texts("text", text), *signed]


def _sign_in(text: str, account: str | None) -> list[Line]:
    """The fields of a sign-in message (EIP-4361); a warning for a text that only looks like one."""
    try:
        message = sign_in_message.parse_sign_in_message(text)
    except sign_in_message.SignInMessageError as error:
        if _SIGN_IN not in text:
            return []
        return [("WARNING", f"this looks like a sign-in message and is none: {visible(str(error))}")]
    does = ("does", f"sign in to {visible(message.domain)}")
    if account is not None and message.address.lower() != account.lower():
        warning = ("WARNING", f"it signs in {message.address}, which is not the account that would sign")
        return [does, warning, *_sign_in_fields(message)]
    return [does, *_sign_in_fields(message)]


def _sign_in_fields(message: sign_in_message.SignInMessage) -> list[Line]:
    fields = [
        ("as", message.address),
        ("for", message.uri),
        ("chain", str(message.chain_id)),
        ("issued", rfc3339(message.issued_at_ms)),
        ("until", "no end" if message.expires_at_ms is None else rfc3339(message.expires_at_ms)),
    ]
    if message.not_before_ms is not None:
        fields.append(("not before", rfc3339(message.not_before_ms)))
    fields += [("resource", resource) for resource in message.resources]
    return [(label, visible(text)) for label, text in fields]


def _explain_typed_data(value: Any) -> list[Line]:
    try:
        document = json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        raise _NotUnderstoodError("the string is no JSON") from None
    try:
        found = typed_data.read_typed_data(document)
    except TypedDataError as error:
        raise _NotUnderstoodError(str(error)) from None
    signed = typed_data.signed_part(document)
    return [
        ("does", f"sign {visible(found.primary_type)}"),
        *_chain(found.chain_id, document.get(WALLET_CHAIN_ID)),
        *(("WARNING", f"the holder of the signature: {permit}") for permit in permits(signed)),
        *_rows("domain", list(_members(read_types(signed["types"]), DOMAIN_TYPE, signed["domain"], ""))),
        *_rows("message", message_lines(signed)),
        ("EIP-712", f"0x{found.digest.hex()}"),
    ]


def _chain(wanted: int | None, wallets: object) -> list[Line]:
    """The chain that a signature is for, and whether that is the wallet's."""
    if wanted is None:
        return []
    try:
        own = quantity_of(wallets)
    except HexError:
        return [("WARNING", f"it is for chain {wanted}, and which chain the wallet is on was not known")]
    if wanted != own:
        return [("WARNING", f"it is for chain {wanted}, and the wallet is on chain {own}")]
    return [("chain", f"{wanted}, which is the wallet's")]


def _explain_transaction(value: Any) -> list[Line]:
    if not isinstance(value, dict):
        raise _NotUnderstoodError("a transaction is an object")
    return transaction_lines(value)


def _explain_raw_transaction(value: Any) -> list[Line]:
    try:
        return raw_transaction_lines(transactions.read_raw_transaction(_data(value)))
    except transactions.RawTransactionError as error:
        raise _NotUnderstoodError(str(error)) from None


def _data(value: Any) -> bytes:
    try:
        return data_of(value)
    except HexError as error:
        raise _NotUnderstoodError(f"it {error}") from None


def _as_it_came(value: Any) -> list[Line]:
    return _texts("as it came", json.dumps(value, indent=2, ensure_ascii=False))


def _texts(label: str, text: str) -> list[Line]:
    return _rows(label, [visible(line) for line in text.split("\n")] if text else ["(empty)"])


def _rows(label: str, lines: list[str]) -> list[Line]:
    """The label beside the first line."""
    first, *others = lines or ["(nothing)"]
    return [(label, first), *(("", other) for other in others)]


# A transaction, as JSON-RPC spells it, for a person's eyes: its effect and its greatest cost.


def transaction_lines(transaction: Mapping[str, Any]) -> list[Line]:
    """A transaction with all its members, also unknown ones. Members may be missing."""
    accesses = transaction.get("accessList")
    if not isinstance(accesses, list):
        accesses = [] if accesses is None else [accesses]
    return [
        *_purpose(transaction),
        *_recipient(transaction),
        *_cost(transaction),
        *(
            _plain(label, transaction[name], lambda number: str(quantity_of(number)))
            for name, label in _NUMBERS.items()
            if name in transaction
        ),
        *(("access list", _json(entry)) for entry in accesses),
        *_transaction_data(transaction),
        *(
            ("also", f"{visible(name)}: {_json(value)}")
            for name, value in transaction.items()
            if name not in _SHOWN_BY_NAME
        ),
    ]


def raw_transaction_lines(raw: transactions.RawTransaction) -> list[Line]:
    """A transaction that is signed already."""
    spelled: dict[str, Any] = {
        "to": raw.to,
        "value": quantity(raw.value),
        "gas": quantity(raw.gas),
        "maxFeePerGas": quantity(raw.max_fee_per_gas),
        "nonce": quantity(raw.nonce),
        "data": hex_of(raw.data),
        "accessList": parameters.written_access_list(raw.access_list),
    }
    if raw.max_priority_fee_per_gas is not None:
        spelled["maxPriorityFeePerGas"] = quantity(raw.max_priority_fee_per_gas)
    return [
        ("signed by", checksummed(raw.sender)),
        ("hash", hex_of(raw.hash)),
        ("chain", "EVERY chain: it is not bound to one" if raw.chain_id is None else str(raw.chain_id)),
        *transaction_lines(spelled),
        *_blobs(raw),
        *_authorizations(raw),
    ]


def bytes_line(label: str, content: bytes) -> Line:
    """Bytes in hexadecimal, with their number; of many only the beginning, which is said."""
    count = f"{len(content)} bytes" if len(content) != 1 else "1 byte"
    if len(content) > MAX_SHOWN_BYTES:
        return label, f"{count}, of which the first {MAX_SHOWN_BYTES}: {hex_of(content[:MAX_SHOWN_BYTES])}"
    return label, f"{count}: {hex_of(content)}" if content else "none"


def _blobs(raw: transactions.RawTransaction) -> Iterator[Line]:
    if raw.max_fee_per_blob_gas is None:
        return
    fee = len(raw.blob_hashes) * transactions.GAS_OF_A_BLOB * raw.max_fee_per_blob_gas
    yield "blob fee", f"besides, at most {ether(fee)}"
    for named in raw.blob_hashes:
        yield "blob", hex_of(named)


def _authorizations(raw: transactions.RawTransaction) -> Iterator[Line]:
    for leave in raw.authorizations:
        chain = f"chain {leave.chain_id}" if leave.chain_id else "EVERY chain"
        account = f"the code of an account (nonce {leave.nonce}, {chain})"
        yield "authorizes", f"{checksummed(leave.address)} to be {account}"


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
        yield "does", f"{call.meaning}: {call.signature}"
        yield from (("", f"  {name}: {value}") for name, value in call.arguments)
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


def _transaction_data(transaction: Mapping[str, Any]) -> Iterator[Line]:
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
    return checksummed(address.address_of(value))


def _json(value: Any) -> str:
    return visible(json.dumps(value, ensure_ascii=False))


# Typed data (EIP-712) for a person's eyes: a tree of every member with its type and value, and permits.


def message_lines(document: Document) -> list[str]:
    """The message as a tree, a line for each member and element."""
    primary_type = document["primaryType"]
    if primary_type == DOMAIN_TYPE:
        return ["(nothing but the domain)"]
    return list(_members(read_types(document["types"]), primary_type, document["message"], ""))


def permits(document: Document) -> list[str]:
    """The spender and amount of each token in a permit (EIP-2612, DAI, Permit2); none of other messages."""
    message = document["message"]
    if "permit" not in document["primaryType"].lower() or not isinstance(message.get("spender"), str):
        return []
    parts = message.get("details", message.get("permitted", message))
    entries = [part for part in (parts if isinstance(parts, list) else [parts]) if isinstance(part, dict)]
    spender = visible(message["spender"])
    return [f"{spender} can take {_allowance(document, entry)}" for entry in entries]


def _allowance(document: Document, entry: Document) -> str:
    token = visible(str(entry.get("token", document["domain"].get("verifyingContract", "?"))))
    if "allowed" in entry:
        return f"UNLIMITED of the token {token}" if entry["allowed"] else f"no more of the token {token}"
    amount = _typed_number(entry.get("amount", entry.get("value")))
    if amount is None:
        return f"of the token {token}: see the message"
    return f"{'UNLIMITED' if is_unlimited(amount) else amount} of the token {token}"


def _members(types: StructTypes, struct: str, value: Document, indent: str) -> Iterator[str]:
    for member in types[struct]:
        yield from _value(types, member.name, member.type, value[member.name], indent)


def _value(types: StructTypes, name: str, kind: str, value: Any, indent: str) -> Iterator[str]:
    """The lines of one value. `name` is its member's, or its number in an array."""
    head = f"{indent}{visible(name)} ({kind})"
    if value is None:
        yield f"{head}: nothing"
    elif isinstance(value, list):
        yield f"{head}: {len(value)} of them" if value else f"{head}: none"
        for number, element in enumerate(value):
            yield from _value(types, str(number), kind[: kind.rindex("[")], element, indent + _INDENT)
    elif isinstance(value, dict):
        yield head
        yield from _members(types, kind, value, indent + _INDENT)
    else:
        yield f"{head}: {_atom(name, kind, value)}"


def _atom(name: str, kind: str, value: Any) -> str:
    if kind == "string":
        return visible(json.dumps(value, ensure_ascii=False))
    if kind == "bool":
        return "true" if value else "false"
    if kind == "address":
        return checksummed(value.lower())
    if kind.startswith("bytes"):
        return visible(value)
    number = _typed_number(value)
    if number is None:
        return visible(str(value))
    return instant(number) if name in _TIMES else str(number)


def _typed_number(value: Any) -> int | None:
    """An integer in any of its spellings."""
    try:
        return int(value, 16 if value.startswith("0x") else 10) if isinstance(value, str) else int(value)
    except (ValueError, TypeError):
        return None


_MESSAGE_METHODS = ("personal_sign", "eth_sign")
_TYPED_DATA_METHODS = ("eth_signTypedData", "eth_signTypedData_v3", "eth_signTypedData_v4")
_EXPLAINERS: dict[str, Callable[[Any], list[Line]]] = {
    **dict.fromkeys(_TYPED_DATA_METHODS, _explain_typed_data),
    "eth_sendTransaction": _explain_transaction,
    "eth_signTransaction": _explain_transaction,
    "eth_sendRawTransaction": _explain_raw_transaction,
}
