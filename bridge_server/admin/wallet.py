"""The accounts, the transactions and the signatures of the wallet."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import orjson
from aiohttp import web
from pydantic import Field

from bridge_server.admin.rows import ANY_ID, AdminRows, fields_answer, read_number, wanted_page
from bridge_server.ethereum.address import checksummed, quantity
from bridge_server.ethereum.transactions import RawTransactionError
from bridge_server.kernel.errors import BridgeError, ConflictError, InvalidInputError, NotFoundError
from bridge_server.kernel.instants import rfc3339, rfc3339_or_none
from bridge_server.wallet.accounts import LONGEST_UNLOCK_SECONDS, Accounts
from bridge_server.wallet.models import (
    Address,
    TransactionState,
    WalletAccount,
)
from bridge_server.wallet.signing import AuditPage, read_history
from bridge_server.wallet.transactions.requests import read_signed
from bridge_server.wallet.transactions.states import WAITING
from bridge_server.wallet.transactions.store import ListedTransaction, TransactionListing, TransactionPage
from bridge_server.web.bodies import JsonObject, Shape, check, json_object
from bridge_server.web.routes import Route

_ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}", re.ASCII)


class AccountNotFoundError(NotFoundError):
    """The wallet has no such account."""

    code = "account-not-found"
    title = "No such account"

    def __init__(self, address: str) -> None:
        super().__init__(
            f"The wallet has no account {address}: GET /admin/wallet/accounts lists its accounts."
        )


class AlwaysOpenError(ConflictError):
    """The account's key comes from the settings."""

    code = "always-open"
    title = "The account is always open"

    def __init__(self, address: str) -> None:
        super().__init__(
            f"The account {address} is always open, because its key comes from the settings: only accounts "
            "with key files are locked and unlocked."
        )


class WalletDesk:
    """Shows accounts, transactions and signatures; unlocks and locks accounts."""

    def __init__(self, accounts: Accounts, transactions: TransactionListing, audit_file: Path) -> None:
        self._accounts = accounts
        self._transactions = transactions
        self._audit_file = audit_file

    def accounts(self) -> Sequence[WalletAccount]:
        """Every account. Raises UnavailableError."""
        return self._accounts.accounts()

    async def unlock(self, address: Address, passphrase: str, seconds: int | None) -> WalletAccount:
        """Open an account's key. Raises AccountNotFoundError, and what `Accounts.unlock` raises."""
        self._require_lockable(address)
        await self._accounts.unlock(address, passphrase, seconds)
        return self._account(address)

    def lock(self, address: Address) -> WalletAccount:
        """Forget an account's key. Raises AccountNotFoundError, AlwaysOpenError."""
        self._require_lockable(address)
        self._accounts.lock(address)
        return self._account(address)

    async def transactions(
        self, state: TransactionState | None, before: int | None, limit: int
    ) -> TransactionPage:
        """A page of transactions, newest first."""
        return await self._transactions.page(state, before, limit)

    async def signatures(self, before: int | None, limit: int) -> AuditPage:
        """A page of the audit log, newest first. Raises UnavailableError."""
        return await asyncio.to_thread(read_history, self._audit_file, before, limit)

    def _require_lockable(self, address: Address) -> None:
        account = self._account(address)
        if account.is_lasting:
            raise AlwaysOpenError(address)

    def _account(self, address: Address) -> WalletAccount:
        for account in self._accounts.accounts():
            if account.address == address:
                return account
        raise AccountNotFoundError(address)


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


class WalletDeskHandlers:
    """One method per endpoint."""

    def __init__(self, desk: WalletDesk) -> None:
        self._desk = desk

    async def accounts(self, _: web.Request) -> web.Response:
        return fields_answer(account_list_fields(self._desk.accounts()))

    async def unlock(self, request: web.Request) -> web.Response:
        address = read_address(request.match_info["address"])
        wanted = read_unlock(await json_object(request))
        account = await self._desk.unlock(address, wanted.passphrase, wanted.seconds)
        return fields_answer(account_fields(account))

    async def lock(self, request: web.Request) -> web.Response:
        account = self._desk.lock(read_address(request.match_info["address"]))
        return fields_answer(account_fields(account))

    async def transactions(self, request: web.Request) -> web.Response:
        after, limit = wanted_page(request)
        found = await self._desk.transactions(read_state(request.query), read_number(after), limit)
        # A signed transaction is read with its signature, 0.1 ms each.
        fields = await asyncio.to_thread(transaction_page_fields, found)
        return fields_answer(fields)

    async def signatures(self, request: web.Request) -> web.Response:
        after, limit = wanted_page(request)
        found = await self._desk.signatures(read_number(after), limit)
        return fields_answer(audit_page_fields(found))


_WALLET = "/admin/wallet"
_ACCOUNT = f"{_WALLET}/accounts/{{address:{ANY_ID}}}"


def wallet_desk_routes(handlers: WalletDeskHandlers, rows: AdminRows, *, may_sign: bool) -> tuple[Route, ...]:
    """Accounts, transactions, signatures. Only with `may_sign` can accounts be unlocked and locked here."""
    shown = (
        rows.read(f"{_WALLET}/accounts", "wallet-accounts", handlers.accounts),
        rows.read(f"{_WALLET}/transactions", "wallet-transactions", handlers.transactions),
        rows.read(f"{_WALLET}/signatures", "wallet-signatures", handlers.signatures),
    )
    if not may_sign:
        return shown
    return (
        *shown,
        rows.write("POST", f"{_ACCOUNT}/unlock", "unlock-account", handlers.unlock),
        rows.write("POST", f"{_ACCOUNT}/lock", "lock-account", handlers.lock),
    )
