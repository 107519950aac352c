"""The data to sign, in words, for the person who must approve it.

Nothing in it can hide: every member is shown, invisible characters are spelled out, and data that is not
understood is called so and shown as it came.
"""

import json
from collections.abc import Callable
from typing import Any

from bridge_server.ethereum.hex_data import HexError, data_of, quantity_of
from bridge_server.ethereum.messages import personal_message_hash
from bridge_server.ethereum.raw_transactions import RawTransactionError, read_raw_transaction
from bridge_server.ethereum.sign_in_message import SignInMessage, SignInMessageError, parse_sign_in_message
from bridge_server.ethereum.typed_data import TypedDataError, read_typed_data
from bridge_server.ethereum.typed_data_signed import signed_part
from bridge_server.kernel.instants import rfc3339
from bridge_server.wallet.explaining.transaction_text import (
    Line,
    bytes_line,
    raw_transaction_lines,
    transaction_lines,
)
from bridge_server.wallet.explaining.typed_data_text import domain_lines, message_lines, permits
from bridge_server.wallet.explaining.visible_text import folded, visible

WALLET_CHAIN_ID = "walletChainId"
"""Beside the members of typed data: the chain that the wallet was on when it was asked."""

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
    return _folded(_explained(method, subject, account))


def _explained(method: str, subject: bytes, account: str | None) -> list[Line]:
    try:
        return _explained_value(method, json.loads(subject), account)
    except (ValueError, RecursionError):
        shown = _texts("as it came", subject.decode("utf-8", "replace"))
        return [("WARNING", "this is no JSON, or too deep"), *shown]


def _explained_value(method: str, value: Any, account: str | None) -> list[Line]:
    try:
        if method in _MESSAGE_METHODS:
            return _explain_message(value, account)
        return _EXPLAINERS.get(method, _unknown)(value)
    except _NotUnderstoodError as error:
        return [("WARNING", f"this is not understood: {visible(str(error))}"), *_as_it_came(value)]


def _folded(lines: list[Line]) -> list[Line]:
    """Lines no wider than a terminal, and not too many of them: a last line counts the lines left out."""
    rows: list[Line] = []
    for label, text in lines:
        first, *others = folded(text, _COLUMNS)
        rows += [(label, first), *(("", other) for other in others)]
    if len(rows) > _MAX_LINES:
        cut = len(rows) - _MAX_LINES
        rows[_MAX_LINES:] = [("WARNING", f"{cut} more lines are not shown here: --json has everything")]
    return rows


def _explain_message(value: Any, account: str | None) -> list[Line]:
    message = _data(value["message"] if isinstance(value, dict) and "message" in value else value)
    signed = [bytes_line("bytes", message), ("hash", f"0x{personal_message_hash(message).hex()}")]
    try:
        text = message.decode()
    except UnicodeDecodeError:
        return [*_binary(message), *signed]
    return [*_sign_in(text, account), *_texts("text", text), *signed]


def _binary(message: bytes) -> list[Line]:
    if len(message) == _HASH_BYTES:
        return [("WARNING", "the message is not text; it may be the hash of something that is not shown")]
    return [("WARNING", "the message is not text (UTF-8)")]


def _sign_in(text: str, account: str | None) -> list[Line]:
    """The fields of a sign-in message (EIP-4361); a warning for a text that only looks like one."""
    try:
        message = parse_sign_in_message(text)
    except SignInMessageError as error:
        if _SIGN_IN not in text:
            return []
        return [("WARNING", f"this looks like a sign-in message and is none: {visible(str(error))}")]
    does = ("does", f"sign in to {visible(message.domain)}")
    if account is not None and message.address.lower() != account.lower():
        warning = ("WARNING", f"it signs in {message.address}, which is not the account that would sign")
        return [does, warning, *_sign_in_fields(message)]
    return [does, *_sign_in_fields(message)]


def _sign_in_fields(message: SignInMessage) -> list[Line]:
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
    document = _parsed(value) if isinstance(value, str) else value
    try:
        typed_data = read_typed_data(document)
    except TypedDataError as error:
        raise _NotUnderstoodError(str(error)) from None
    signed = signed_part(document)
    return [
        ("does", f"sign {visible(typed_data.primary_type)}"),
        *_chain(typed_data.chain_id, document.get(WALLET_CHAIN_ID)),
        *(("WARNING", f"the holder of the signature: {permit}") for permit in permits(signed)),
        *_rows("domain", domain_lines(signed)),
        *_rows("message", message_lines(signed)),
        ("EIP-712", f"0x{typed_data.digest.hex()}"),
    ]


def _chain(meant: int | None, wallets: object) -> list[Line]:
    """The chain that a signature is for, and whether that is the wallet's."""
    if meant is None:
        return []
    try:
        own = quantity_of(wallets)
    except HexError:
        return [("WARNING", f"it is for chain {meant}, and which chain the wallet is on was not known")]
    if meant != own:
        return [("WARNING", f"it is for chain {meant}, and the wallet is on chain {own}")]
    return [("chain", f"{meant}, which is the wallet's")]


def _explain_transaction(value: Any) -> list[Line]:
    if not isinstance(value, dict):
        raise _NotUnderstoodError("a transaction is an object")
    return transaction_lines(value)


def _explain_raw_transaction(value: Any) -> list[Line]:
    try:
        return raw_transaction_lines(read_raw_transaction(_data(value)))
    except RawTransactionError as error:
        raise _NotUnderstoodError(str(error)) from None


def _unknown(value: Any) -> list[Line]:
    return [("WARNING", "what this method signs is not known"), *_as_it_came(value)]


def _data(value: Any) -> bytes:
    try:
        return data_of(value)
    except HexError as error:
        raise _NotUnderstoodError(f"it {error}") from None


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise _NotUnderstoodError("the string is no JSON") from None


def _as_it_came(value: Any) -> list[Line]:
    return _texts("as it came", json.dumps(value, indent=2, ensure_ascii=False))


def _texts(label: str, text: str) -> list[Line]:
    return _rows(label, [visible(line) for line in text.split("\n")] if text else ["(empty)"])


def _rows(label: str, lines: list[str]) -> list[Line]:
    """The label beside the first line."""
    first, *others = lines or ["(nothing)"]
    return [(label, first), *(("", other) for other in others)]


_MESSAGE_METHODS = ("personal_sign", "eth_sign")
_TYPED_DATA_METHODS = ("eth_signTypedData", "eth_signTypedData_v3", "eth_signTypedData_v4")
_EXPLAINERS: dict[str, Callable[[Any], list[Line]]] = {
    **dict.fromkeys(_TYPED_DATA_METHODS, _explain_typed_data),
    "eth_sendTransaction": _explain_transaction,
    "eth_signTransaction": _explain_transaction,
    "eth_sendRawTransaction": _explain_raw_transaction,
}
