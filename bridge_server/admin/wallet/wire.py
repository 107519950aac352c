"""JSON of the wallet's accounts, transactions and signatures."""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import orjson
from pydantic import Field

from bridge_server.ethereum.address import checksummed
from bridge_server.ethereum.hex_data import quantity
from bridge_server.ethereum.raw_transactions import RawTransactionError
from bridge_server.kernel.errors import BridgeError, InvalidInputError
from bridge_server.kernel.instants import rfc3339, rfc3339_or_none
from bridge_server.wallet.accounts import LONGEST_UNLOCK_SECONDS
from bridge_server.wallet.audit_history import AuditPage
from bridge_server.wallet.models import Address, TransactionState, WalletAccount
from bridge_server.wallet.transactions.listing_store import ListedTransaction, TransactionPage
from bridge_server.wallet.transactions.requests import read_signed
from bridge_server.wallet.transactions.states import WAITING
from bridge_server.web.json_body import JsonObject
from bridge_server.web.shapes import Shape, check

_NUMBER = re.compile(r"[0-9]{1,18}", re.ASCII)
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}", re.ASCII)


class UnlockShape(Shape):
    """The body of POST /admin/wallet/accounts/{address}/unlock. Without seconds it is 300; 0 has no end."""

    passphrase: str
    seconds: Annotated[int, Field(ge=0, le=LONGEST_UNLOCK_SECONDS)] | None = None


def read_unlock(document: JsonObject) -> UnlockShape:
    """Read a passphrase and for how long it opens the key."""
    return check(UnlockShape, document.values)


def read_address(text: str) -> Address:
    """An address in any case. Raises InvalidInputError."""
    if not _ADDRESS.fullmatch(text):
        raise InvalidInputError("An account is 0x and 40 hexadecimal digits.")
    return Address(text.lower())


def read_state(query: Mapping[str, str]) -> TransactionState | None:
    """Read the query parameter `state`. Raises InvalidInputError."""
    state = query.get("state")
    if state is not None and state not in list(TransactionState):
        raise InvalidInputError(f"The query parameter state takes {', '.join(TransactionState)}.")
    return None if state is None else TransactionState(state)


def read_number(after: str) -> int | None:
    """Read the query parameter `after`. Raises InvalidInputError."""
    if not after:
        return None
    if not _NUMBER.fullmatch(after):
        raise InvalidInputError("The query parameter after takes the next of the page before.")
    return int(after)


def account_list_fields(accounts: Sequence[WalletAccount]) -> dict[str, Any]:
    """Every account of the wallet."""
    return {"accounts": [account_fields(account) for account in accounts]}


def account_fields(account: WalletAccount) -> dict[str, Any]:
    """An account: the source of its key, and whether and until when it is unlocked."""
    until_ms = account.unlocked_until_ms
    return {
        "account": checksummed(account.address),
        "kind": account.source,
        "unlocked": account.is_unlocked,
        "unlocked_until": rfc3339_or_none(until_ms),
    }


def transaction_page_fields(page: TransactionPage) -> dict[str, Any]:
    """A page of transactions; `next` is null at the end."""
    return {
        "transactions": [transaction_fields(transaction) for transaction in page.transactions],
        "next": None if page.rest is None else str(page.rest),
    }


def transaction_fields(transaction: ListedTransaction) -> dict[str, Any]:
    """A transaction without its data."""
    to, value = _transfer(transaction)
    settled_at_ms = transaction.settled_at_ms
    waits = transaction.state in WAITING
    return {
        "id": transaction.transaction_id,
        "state": transaction.state,
        "from": checksummed(transaction.sender),
        "to": to,
        "value": value,
        "hash": transaction.transaction_hash,
        "nonce": transaction.nonce,
        "chain_id": transaction.chain_id,
        "reason": transaction.error,
        "attempts": transaction.attempts,
        "client": transaction.client,
        "asked_at": rfc3339(transaction.asked_at_ms),
        "next_attempt_at": rfc3339(transaction.next_attempt_at_ms) if waits else None,
        "settled_at": rfc3339_or_none(settled_at_ms),
    }


def audit_page_fields(page: AuditPage) -> dict[str, Any]:
    """A page of the audit log; `next` is null at its beginning."""
    return {"signatures": page.entries, "next": None if page.rest is None else str(page.rest)}


def _transfer(transaction: ListedTransaction) -> tuple[str | None, str | None]:
    """The receiver (None: it creates a contract) and the wei as a QUANTITY; None where they are not known."""
    if transaction.raw is None:
        return _address(transaction.to), transaction.value
    try:
        signed = read_signed(orjson.loads(transaction.raw))
    except (BridgeError, RawTransactionError):  # an older version accepted it
        return None, None
    return _address(signed.to), quantity(signed.value)


def _address(to: str | None) -> str | None:
    return None if to is None else checksummed(to.lower())
