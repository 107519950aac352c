"""A call in a few words: the text of a message, the effect of a transaction."""

from collections.abc import Callable
from typing import Any

import orjson

from bridge_server.ethereum.address import checksummed
from bridge_server.ethereum.hex_data import HexError, address_of, data_of, hex_of, quantity, quantity_of
from bridge_server.ethereum.raw_transactions import RawTransactionError, read_raw_transaction
from bridge_server.headless.methods import (
    AUTHENTICATE,
    MESSAGES,
    RAW_TRANSACTIONS,
    TRANSACTIONS,
    TYPED_DATA,
    signed_subject,
)
from bridge_server.wallet.explaining.amounts import ether
from bridge_server.wallet.explaining.explaining import WALLET_CHAIN_ID, explain
from bridge_server.wallet.explaining.known_calls import read_call
from bridge_server.wallet.explaining.transaction_text import Line

_SELECTOR_BYTES = 4


def text_of(method: str, params: Any) -> str:
    """The call as one line for a person; a call to sign a message as the message. Raises nothing."""
    try:
        return _READERS.get(method, _nothing)(method, params)
    except (LookupError, TypeError, ValueError, HexError, RawTransactionError):
        return "(not understood)"


def explanation_of(method: str, params: Any, chain_id: int) -> list[Line]:
    """The labels and lines that an approval shows for the data to sign; none for other methods."""
    if method not in _READERS or method == AUTHENTICATE:
        return []
    try:
        subject = signed_subject(method, params)
        if method in TYPED_DATA and isinstance(subject, dict):
            subject = {**subject, WALLET_CHAIN_ID: quantity(chain_id)}
        return explain(method, orjson.dumps(subject))
    except (LookupError, TypeError, ValueError):
        return [("WARNING", "the parameters are not understood")]


def short_address(address: str) -> str:
    """`0xf39F…2266`."""
    return f"{address[:6]}…{address[-4:]}"


def _nothing(_: str, __: Any) -> str:
    return ""


def _message(method: str, params: Any) -> str:
    message = data_of(signed_subject(method, params))
    try:
        return message.decode()
    except UnicodeDecodeError:
        return hex_of(message)


def _typed_data(method: str, params: Any) -> str:
    subject = signed_subject(method, params)
    document = orjson.loads(subject) if isinstance(subject, str) else subject
    name = document.get("domain", {}).get("name")
    return f"{document['primaryType']} for {name}" if name else str(document["primaryType"])


def _authentication(_: str, params: Any) -> str:
    return f"sign in to {params['domain']}: {params['statement']}".removesuffix(": None")


def _transaction(_: str, params: Any) -> str:
    fields = params[0]
    data = fields.get("data") or fields.get("input") or "0x"
    return _effect(fields.get("to"), quantity_of(fields.get("value", "0x0")), data_of(data))


def _raw_transaction(_: str, params: Any) -> str:
    raw = read_raw_transaction(data_of(params[0]))
    return _effect(raw.to, raw.value, raw.data)


def _effect(to: str | None, wei: int, data: bytes) -> str:
    amount = ether(wei).partition(" (")[0]
    if to is None:
        return f"create a contract with {amount}" if wei else "create a contract"
    recipient = short_address(checksummed(address_of(to)))
    if not data:
        return f"{amount} → {recipient}"
    known = read_call(data)
    function = known.signature if known is not None else hex_of(data[:_SELECTOR_BYTES])
    return f"{function} with {amount} → {recipient}" if wei else f"{function} → {recipient}"


_READERS: dict[str, Callable[[str, Any], str]] = {
    **dict.fromkeys(MESSAGES, _message),
    **dict.fromkeys(TYPED_DATA, _typed_data),
    **dict.fromkeys(TRANSACTIONS, _transaction),
    **dict.fromkeys(RAW_TRANSACTIONS, _raw_transaction),
    AUTHENTICATE: _authentication,
}
