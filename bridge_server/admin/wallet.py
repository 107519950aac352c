"""The accounts, the transactions and the signatures of the wallet."""

import asyncio
import re
from pathlib import Path
from typing import Annotated, cast

import orjson
from aiohttp import web
from pydantic import Field

from bridge_server.admin.rows import ANY_ID, AdminRows, body, read_choice, read_number, wanted_page
from bridge_server.ethereum.address import checksummed, quantity
from bridge_server.ethereum.transactions import RawTransactionError
from bridge_server.kernel.errors import BridgeError, ConflictError, InvalidInputError, NotFoundError
from bridge_server.kernel.instants import rfc3339, rfc3339_or_none
from bridge_server.wallet.accounts import LONGEST_UNLOCK_SECONDS, Accounts
from bridge_server.wallet.models import (
    AccountSource,
    Address,
    KeyFileError,
    TransactionState,
    WalletAccount,
    WrongPassphraseError,
)
from bridge_server.wallet.signing import read_history
from bridge_server.wallet.transactions.requests import read_signed
from bridge_server.wallet.transactions.states import WAITING
from bridge_server.wallet.transactions.store import ListedTransaction, TransactionListing
from bridge_server.web.bodies import Shape
from bridge_server.web.routes import Parameter, Route
from bridge_server.web.shapes import Address as AnyAddress
from bridge_server.web.shapes import Count, Moment, NextPage, TypedDict, page_parameters, text

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


class UnlockShape(Shape):
    """The body of POST /admin/wallet/accounts/{address}/unlock. Without seconds it is 300; 0 has no end."""

    passphrase: str
    seconds: Annotated[int, Field(ge=0, le=LONGEST_UNLOCK_SECONDS)] | None = None


Quantity = Annotated[str, text("0xde0b6b3a7640000")]
Hash = Annotated[str, text("0x" + "5c" * 32)]


class WalletAccountAnswer(TypedDict):
    """An account of the wallet: the source of its key, and whether and until when it is unlocked."""

    account: AnyAddress
    kind: AccountSource
    unlocked: bool
    unlocked_until: Moment | None


class WalletAccountsAnswer(TypedDict):
    """Every account of the wallet."""

    accounts: list[WalletAccountAnswer]


_From = TypedDict(
    "_From",
    {
        "id": Annotated[str, text("0192f7c8-8a10-7c4e-9d3b-51c2a7f6b0d8")],
        "state": TransactionState,
        "from": AnyAddress,
    },
)


class WalletTransactionAnswer(_From):
    """A transaction without its data. `to` and `value` are null if they are not known."""

    to: AnyAddress | None
    value: Quantity | None
    hash: Hash | None
    nonce: Count | None
    chain_id: Count | None
    reason: Annotated[str, text("nonce too low")] | None
    attempts: Count
    client: Annotated[str, text("127.0.0.1")] | None
    asked_at: Moment
    next_attempt_at: Moment | None
    settled_at: Moment | None


class WalletTransactionsAnswer(TypedDict):
    """A page of transactions, newest first."""

    transactions: list[WalletTransactionAnswer]
    next: NextPage | None


class WalletSignatureAnswer(TypedDict):
    """A line of the audit log."""

    at: Moment
    method: Annotated[str, text("personal_sign")]
    account: AnyAddress
    hash: Hash
    transaction_hash: Hash | None
    client: Annotated[str, text("127.0.0.1")]
    origin: Annotated[str, text("https://app.example.org")] | None
    request_id: Annotated[str, text("0192f7c8-7e6a-7d2b-b0a5-0f7f3c1d2e4f")]
    approval: Annotated[str, text("0192f7c8-8a10-7c4e-9d3b-51c2a7f6b0d8")] | None


class WalletSignaturesAnswer(TypedDict):
    """A page of the audit log, newest first."""

    signatures: list[WalletSignatureAnswer]
    next: NextPage | None


class WalletAdmin:
    """Shows accounts, transactions and signatures; unlocks and locks accounts."""

    def __init__(self, accounts: Accounts, transactions: TransactionListing, audit_file: Path) -> None:
        self._accounts = accounts
        self._transactions = transactions
        self._audit_file = audit_file

    def accounts(self) -> WalletAccountsAnswer:
        """Every account. Raises UnavailableError."""
        return {"accounts": [account_fields(account) for account in self._accounts.accounts()]}

    async def unlock(self, account: str, wanted: UnlockShape) -> WalletAccountAnswer:
        """Open an account's key. Raises what `lock` raises, and what `Accounts.unlock` raises."""
        address = self._lockable(account)
        await self._accounts.unlock(address, wanted.passphrase, wanted.seconds)
        return account_fields(self._account(address))

    def lock(self, account: str) -> WalletAccountAnswer:
        """Forget an account's key. Raises InvalidInputError, AccountNotFoundError, AlwaysOpenError."""
        address = self._lockable(account)
        self._accounts.lock(address)
        return account_fields(self._account(address))

    async def transactions(self, state: str | None, after: str, limit: int) -> WalletTransactionsAnswer:
        """A page of transactions, newest first. Raises InvalidInputError."""
        wanted = read_choice("state", state, TransactionState)
        page = await self._transactions.page(wanted, read_number(after), limit)

        def fields() -> WalletTransactionsAnswer:
            rest = None if page.rest is None else str(page.rest)
            return {"transactions": [transaction_fields(each) for each in page.transactions], "next": rest}

        return await asyncio.to_thread(fields)  # a signed one is read with its signature, 0.1 ms each

    async def signatures(self, after: str, limit: int) -> WalletSignaturesAnswer:
        """A page of the audit log, newest first. Raises InvalidInputError, UnavailableError."""
        page = await asyncio.to_thread(read_history, self._audit_file, read_number(after), limit)
        entries = cast(list[WalletSignatureAnswer], page.entries)
        return {"signatures": entries, "next": None if page.rest is None else str(page.rest)}

    def _lockable(self, account: str) -> Address:
        address = read_address(account)
        if self._account(address).is_lasting:
            raise AlwaysOpenError(address)
        return address

    def _account(self, address: Address) -> WalletAccount:
        for account in self._accounts.accounts():
            if account.address == address:
                return account
        raise AccountNotFoundError(address)

    async def handle_accounts(self, _: web.Request) -> WalletAccountsAnswer:
        """Every account, whether it is unlocked, and until when."""
        return self.accounts()

    async def handle_unlock(self, request: web.Request) -> WalletAccountAnswer:
        """Opens the account's key file for 300 seconds, or as many as are named; 0 has no end. The route
        exists with `admin_wallet`.
        """
        return await self.unlock(request.match_info["address"], await body(request, UnlockShape))

    async def handle_lock(self, request: web.Request) -> WalletAccountAnswer:
        """Forgets the account's key until it is unlocked again. The route exists with `admin_wallet`."""
        return self.lock(request.match_info["address"])

    async def handle_transactions(self, request: web.Request) -> WalletTransactionsAnswer:
        """The transactions that the wallet was asked to send, newest first."""
        return await self.transactions(request.query.get("state"), *wanted_page(request))

    async def handle_signatures(self, request: web.Request) -> WalletSignaturesAnswer:
        """The lines of the audit log, newest first."""
        return await self.signatures(*wanted_page(request))


def read_address(text: str) -> Address:
    """An address in any case. Raises InvalidInputError."""
    if not _ADDRESS.fullmatch(text):
        raise InvalidInputError("An account is 0x and 40 hexadecimal digits.")
    return Address(text.lower())


def account_fields(account: WalletAccount) -> WalletAccountAnswer:
    """An account: the source of its key, and whether and until when it is unlocked."""
    return {
        "account": checksummed(account.address),
        "kind": account.source,
        "unlocked": account.is_unlocked,
        "unlocked_until": rfc3339_or_none(account.unlocked_until_ms),
    }


def transaction_fields(transaction: ListedTransaction) -> WalletTransactionAnswer:
    """A transaction without its data."""
    to, value = _transfer(transaction)
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
        "settled_at": rfc3339_or_none(transaction.settled_at_ms),
    }


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


_WALLET = "/admin/wallet"
_ACCOUNT = f"{_WALLET}/accounts/{{address:{ANY_ID}}}"
_EXAMPLE = "0xab16a96D359eC26a11e2C2b3d8f8B8942d5Bfcdb"
_ADDRESS_OF = Parameter("address", "The address of an account of the wallet.", place="path", example=_EXAMPLE)


def wallet_routes(wallet: WalletAdmin, rows: AdminRows, *, may_sign: bool) -> tuple[Route, ...]:
    """Accounts, transactions, signatures. Only with `may_sign` can accounts be unlocked and locked here."""
    rows = rows.under("Wallet administration")
    state = Parameter("state", "Only transactions in this state.", {"enum": [*TransactionState]})
    shown = (
        rows.read(f"{_WALLET}/accounts", "wallet-accounts", wallet.handle_accounts,
                  "List the wallet's accounts", "The accounts."),
        rows.read(f"{_WALLET}/transactions", "wallet-transactions", wallet.handle_transactions,
                  "List transactions", "A page.", parameters=(state, *page_parameters())),
        rows.read(f"{_WALLET}/signatures", "wallet-signatures", wallet.handle_signatures,
                  "List signatures", "A page.", parameters=page_parameters()),
    )  # fmt: skip
    if not may_sign:
        return shown
    return (
        *shown,
        rows.write("POST", f"{_ACCOUNT}/unlock", "unlock-account", wallet.handle_unlock,
                   "Unlock an account", "The account.", parameters=(_ADDRESS_OF,),
                   body=UnlockShape, body_example={"passphrase": "correct horse", "seconds": 60},
                   problems=(AccountNotFoundError, AlwaysOpenError, WrongPassphraseError, KeyFileError)),
        rows.write("POST", f"{_ACCOUNT}/lock", "lock-account", wallet.handle_lock,
                   "Lock an account", "The account.", parameters=(_ADDRESS_OF,),
                   problems=(InvalidInputError, AccountNotFoundError, AlwaysOpenError)),
    )  # fmt: skip
