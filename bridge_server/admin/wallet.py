"""The wallet: its accounts, transactions and signatures, and the requests that wait for a person."""

import asyncio
import re
from pathlib import Path
from typing import Annotated, Any, cast

import orjson
from aiohttp import web
from pydantic import Field

from bridge_server.admin.rows import ANY_ID, AdminRows, body, read_after, read_choice, read_place, wanted_page
from bridge_server.ethereum.address import checksummed, quantity
from bridge_server.ethereum.transactions import RawTransactionError
from bridge_server.kernel.clock import Clock
from bridge_server.kernel.errors import BridgeError, ConflictError, InvalidInputError, NotFoundError
from bridge_server.kernel.instants import rfc3339, rfc3339_or_none
from bridge_server.wallet import models
from bridge_server.wallet.accounts import LONGEST_UNLOCK_SECONDS, Accounts
from bridge_server.wallet.approvals import Approvals, ApprovalStore
from bridge_server.wallet.explaining import explain
from bridge_server.wallet.signing import read_history
from bridge_server.wallet.transactions.requests import read_signed
from bridge_server.wallet.transactions.states import WAITING
from bridge_server.wallet.transactions.store import ListedTransaction, TransactionListing
from bridge_server.web.bodies import Shape
from bridge_server.web.routes import Parameter, Route
from bridge_server.web.shapes import Address as AnyAddress
from bridge_server.web.shapes import Count, Moment, NextPage, TypedDict, page_parameters, text

_ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}", re.ASCII)


class AccountNotFoundError(NotFoundError, code="account-not-found", title="No such account"):
    """The wallet has no such account."""

    def __init__(self, address: str) -> None:
        super().__init__(
            f"The wallet has no account {address}: GET /admin/wallet/accounts lists its accounts."
        )


class AlwaysOpenError(ConflictError, code="always-open", title="The account is always open"):
    """The account's key comes from the settings."""

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
    kind: models.AccountSource
    unlocked: bool
    unlocked_until: Moment | None


class WalletAccountsAnswer(TypedDict):
    """Every account of the wallet."""

    accounts: list[WalletAccountAnswer]


_From = TypedDict(
    "_From",
    {
        "id": Annotated[str, text("0192f7c8-8a10-7c4e-9d3b-51c2a7f6b0d8")],
        "state": models.TransactionState,
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
        self._accounts, self._transactions, self._audit_file = accounts, transactions, audit_file

    async def accounts(self) -> WalletAccountsAnswer:
        """Every account, whether it is unlocked, and until when. Raises UnavailableError."""
        return {"accounts": [account_fields(account) for account in self._accounts.accounts()]}

    async def unlock(self, account: str, wanted: UnlockShape) -> WalletAccountAnswer:
        """Open an account's key. Raises what `lock` raises, and what `Accounts.unlock` raises."""
        address = self._lockable(account)
        await self._accounts.unlock(address, wanted.passphrase, wanted.seconds)
        return account_fields(self._account(address))

    async def lock(self, account: str) -> WalletAccountAnswer:
        """Forgets the account's key until it is unlocked again. The route exists with `admin_wallet`. Raises
        InvalidInputError, AccountNotFoundError, AlwaysOpenError.
        """
        address = self._lockable(account)
        self._accounts.lock(address)
        return account_fields(self._account(address))

    async def transactions(self, state: str | None, after: str, limit: int) -> WalletTransactionsAnswer:
        """The transactions that the wallet was asked to send, newest first. Raises InvalidInputError."""
        wanted = read_choice("state", state, models.TransactionState)
        page = await self._transactions.page(wanted, read_after(after), limit)

        def fields() -> WalletTransactionsAnswer:
            rest = None if page.rest is None else str(page.rest)
            return {"transactions": [transaction_fields(each) for each in page.transactions], "next": rest}

        return await asyncio.to_thread(fields)  # a signed one is read with its signature, 0.1 ms each

    async def signatures(self, after: str, limit: int) -> WalletSignaturesAnswer:
        """The lines of the audit log, newest first. Raises InvalidInputError, UnavailableError."""
        page = await asyncio.to_thread(read_history, self._audit_file, read_after(after), limit)
        entries = cast(list[WalletSignatureAnswer], page.entries)
        return {"signatures": entries, "next": None if page.rest is None else str(page.rest)}

    def _lockable(self, account: str) -> models.Address:
        if not _ADDRESS.fullmatch(account):
            raise InvalidInputError("An account is 0x and 40 hexadecimal digits.")
        address = models.Address(account.lower())
        if self._account(address).is_lasting:
            raise AlwaysOpenError(address)
        return address

    def _account(self, address: models.Address) -> models.WalletAccount:
        for account in self._accounts.accounts():
            if account.address == address:
                return account
        raise AccountNotFoundError(address)

    async def handle_unlock(self, request: web.Request) -> WalletAccountAnswer:
        """Opens the account's key file for 300 seconds, or as many as are named; 0 has no end. The route
        exists with `admin_wallet`.
        """
        return await self.unlock(request.match_info["address"], await body(request, UnlockShape))


def account_fields(account: models.WalletAccount) -> WalletAccountAnswer:
    return {
        "account": checksummed(account.address),
        "kind": account.source,
        "unlocked": account.is_unlocked,
        "unlocked_until": rfc3339_or_none(account.unlocked_until_ms),
    }


def transaction_fields(transaction: ListedTransaction) -> WalletTransactionAnswer:
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
    state = Parameter("state", "Only transactions in this state.", {"enum": [*models.TransactionState]})
    shown = (
        rows.read(f"{_WALLET}/accounts", "wallet-accounts", lambda _: wallet.accounts(),
                  "List the wallet's accounts", "The accounts.", of=wallet.accounts),
        rows.read(f"{_WALLET}/transactions", "wallet-transactions",
                  lambda request: wallet.transactions(request.query.get("state"), *wanted_page(request)),
                  "List transactions", "A page.", of=wallet.transactions,
                  parameters=(state, *page_parameters())),
        rows.read(f"{_WALLET}/signatures", "wallet-signatures",
                  lambda request: wallet.signatures(*wanted_page(request)),
                  "List signatures", "A page.", of=wallet.signatures, parameters=page_parameters()),
    )  # fmt: skip
    if not may_sign:
        return shown
    return (
        *shown,
        rows.write("POST", f"{_ACCOUNT}/unlock", "unlock-account", wallet.handle_unlock,
                   "Unlock an account", "The account.", parameters=(_ADDRESS_OF,),
                   body=UnlockShape, body_example={"passphrase": "correct horse", "seconds": 60},
                   problems=(AccountNotFoundError, AlwaysOpenError, models.WrongPassphraseError,
                             models.KeyFileError)),
        rows.write("POST", f"{_ACCOUNT}/lock", "lock-account",
                   lambda request: wallet.lock(request.match_info["address"]),
                   "Lock an account", "The account.", of=wallet.lock, parameters=(_ADDRESS_OF,),
                   problems=(InvalidInputError, AccountNotFoundError, AlwaysOpenError)),
    )  # fmt: skip


# Requests that wait for a person: listed, explained, approved, rejected.

LEAST_OF_AN_ID = 4  # characters that name a request: a script's empty variable must not select one

_BEYOND_ALL = 2**63 - 1

_PLACE = re.compile(r"(waiting|settled)-([0-9]{1,18})", re.ASCII)


class _WaitingApproval(TypedDict):
    id: Annotated[str, text("0192f7c8-8a10-7c4e-9d3b-51c2a7f6b0d8")]
    state: models.ApprovalState
    method: Annotated[str, text("personal_sign")]
    account: AnyAddress
    client: Annotated[str, text("127.0.0.1")]
    origin: Annotated[str, text("https://app.example.org")] | None
    request_id: Annotated[str, text("0192f7c8-7e6a-7d2b-b0a5-0f7f3c1d2e4f")]
    asked_at: Moment
    expires_at: Moment


class ApprovalAnswer(_WaitingApproval):
    """A request that a person must approve."""

    decided_at: Moment | None


class ApprovalLineAnswer(TypedDict):
    """A line of the data to sign, in words."""

    label: Annotated[str, text("message")]
    text: str


class ApprovalDetailsAnswer(ApprovalAnswer):
    """A request with the data to sign, and a description of these data in words."""

    subject: Any
    text: list[ApprovalLineAnswer]


class ApprovalsAnswer(TypedDict):
    """A page of requests: waiting requests, then settled requests, each newest first."""

    approvals: list[ApprovalAnswer]
    next: Annotated[str, text("settled-7")] | None


class ApprovalAdmin:
    """Lists and decides requests. Their clients wait in this process, and are answered at once."""

    def __init__(self, store: ApprovalStore, approvals: Approvals, clock: Clock) -> None:
        self._store, self._approvals, self._clock = store, approvals, clock

    @property
    def waiting(self) -> int:
        """The number of requests that wait for a decision."""
        return self._approvals.waiting

    async def page(self, after: str, limit: int) -> ApprovalsAnswer:
        """Requests that wait for a decision, then settled requests, each newest first. Raises
        InvalidInputError.
        """
        now_ms, place = self._clock.now_ms(), read_place(after, _PLACE)
        part, before = ("waiting", _BEYOND_ALL) if place is None else (place[1], int(place[2]))
        found: list[tuple[str, models.ApprovalRequest]] = []
        if part == "waiting":
            waiting = await self._store.waiting_page(now_ms, before, limit + 1)
            found += [(f"waiting-{number}", approval) for number, approval in waiting]
            before = _BEYOND_ALL
        if len(found) <= limit:
            settled = await self._store.settled_page(now_ms, before, limit + 1 - len(found))
            found += [(f"settled-{number}", approval) for number, approval in settled]
        return {
            "approvals": [_listed_fields(each, each.state_at(now_ms)) for _, each in found[:limit]],
            "next": found[limit - 1][0] if len(found) > limit else None,
        }

    async def show(self, beginning: str) -> ApprovalDetailsAnswer:
        """A request with the data to sign, and a description of these data in words. Raises
        ApprovalNotFoundError, InvalidInputError. The beginning of its id names it.
        """
        return self._whole(await self._named(beginning))

    async def decide(self, beginning: str, decision: models.ApprovalState) -> ApprovalDetailsAnswer:
        """Approve or reject. Raises ApprovalSettledError, and what `show` raises."""
        approval = await self._named(beginning)
        is_decided = await self._approvals.decide(approval.approval_id, decision)
        now = await self._store.get(approval.approval_id) or approval
        if not is_decided:
            raise models.ApprovalSettledError(now.state_at(self._clock.now_ms()))
        return self._whole(now)

    async def _named(self, beginning: str) -> models.ApprovalRequest:
        if len(beginning) < LEAST_OF_AN_ID:
            raise InvalidInputError(f"Write at least {LEAST_OF_AN_ID} characters of the approval's id.")
        found = await self._store.named(beginning.lower())
        if not found:
            raise models.ApprovalNotFoundError
        if len(found) > 1:
            raise InvalidInputError("Several approvals begin so: write more of the id.")
        return found[0]

    def _whole(self, approval: models.ApprovalRequest) -> ApprovalDetailsAnswer:
        return {
            **_listed_fields(approval, approval.state_at(self._clock.now_ms())),
            "subject": orjson.Fragment(approval.subject),
            "text": [{"label": label, "text": text} for label, text in lines(approval)],
        }

    async def approve(self, request: web.Request) -> ApprovalDetailsAnswer:
        """The wallet signs at once, and its client gets the answer. The route exists with `admin_wallet`."""
        return await self.decide(request.match_info["id"], models.ApprovalState.APPROVED)

    async def reject(self, request: web.Request) -> ApprovalDetailsAnswer:
        """Its client gets the error 4001. The route exists with `admin_wallet`."""
        return await self.decide(request.match_info["id"], models.ApprovalState.REJECTED)


def approval_fields(approval: models.ApprovalRequest) -> dict[str, Any]:
    """A request with the data to sign, in the state that is stored."""
    return {**_request_fields(approval, approval.state), "subject": orjson.Fragment(approval.subject)}


def lines(approval: models.ApprovalRequest) -> list[tuple[str, str]]:
    """The request in words, as labels and texts, for the person who decides."""
    return [
        ("approval", approval.approval_id),
        ("state", approval.state),
        ("method", approval.method),
        ("account", checksummed(approval.address)),
        ("client", approval.caller.address),
        ("page", approval.caller.origin or "-"),
        ("request", approval.caller.request_id),
        ("asked", rfc3339(approval.asked_at_ms)),
        ("until", rfc3339(approval.expires_at_ms)),
        *explain(approval.method, approval.subject, approval.address),
    ]


def _listed_fields(approval: models.ApprovalRequest, state: models.ApprovalState) -> ApprovalAnswer:
    return {**_request_fields(approval, state), "decided_at": rfc3339_or_none(approval.decided_at_ms)}


def _request_fields(approval: models.ApprovalRequest, state: models.ApprovalState) -> _WaitingApproval:
    return {
        "id": approval.approval_id,
        "state": state,
        "method": approval.method,
        "account": checksummed(approval.address),
        "client": approval.caller.address,
        "origin": approval.caller.origin,
        "request_id": approval.caller.request_id,
        "asked_at": rfc3339(approval.asked_at_ms),
        "expires_at": rfc3339(approval.expires_at_ms),
    }


_APPROVALS = "/admin/approvals"
_APPROVAL = f"{_APPROVALS}/{{id:{ANY_ID}}}"
_APPROVAL_ID = "The id of an approval, or at least its first four characters."
_NAMED = (Parameter("id", _APPROVAL_ID, place="path", example="0192f7c8"),)


def approval_routes(approvals: ApprovalAdmin, rows: AdminRows, *, may_sign: bool) -> tuple[Route, ...]:
    """Requests that wait and that are settled. Only with `may_sign` can they be decided here."""
    rows = rows.under("Wallet administration")
    deciding = (models.ApprovalNotFoundError, models.ApprovalSettledError)
    shown = (
        rows.read(_APPROVALS, "approvals", lambda request: approvals.page(*wanted_page(request)),
                  "List requests for approval", "A page.", of=approvals.page, parameters=page_parameters()),
        rows.read(_APPROVAL, "approval", lambda request: approvals.show(request.match_info["id"]),
                  "Show a request for approval", "The request.", of=approvals.show,
                  parameters=_NAMED, problems=(InvalidInputError, models.ApprovalNotFoundError)),
    )  # fmt: skip
    if not may_sign:
        return shown
    return (
        *shown,
        rows.write("POST", f"{_APPROVAL}/approve", "approve", approvals.approve, "Approve a request",
                   "The request, approved.", parameters=_NAMED, problems=deciding),
        rows.write("POST", f"{_APPROVAL}/reject", "reject", approvals.reject, "Reject a request",
                   "The request, rejected.", parameters=_NAMED, problems=deciding),
    )  # fmt: skip
