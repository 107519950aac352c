"""The administration of the wallet described, beyond its rows."""

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any

from pydantic import Field

from bridge_server.admin.wallet import AccountNotFoundError, AlwaysOpenError, UnlockShape
from bridge_server.kernel.errors import InvalidInputError
from bridge_server.wallet.models import (
    AccountSource,
    ApprovalNotFoundError,
    ApprovalSettledError,
    ApprovalState,
    KeyFileError,
    TransactionState,
    WrongPassphraseError,
)
from bridge_server.web.description import (
    Address,
    AnswerShape,
    Count,
    DescribedAnswer,
    Moment,
    NextPage,
    Operation,
    Parameter,
    operation,
    page_parameters,
    text,
)

_operation = partial(operation, "Wallet administration")

# Accounts, transactions, signatures.

_ADDRESS = Parameter(
    "address",
    "The address of an account of the wallet.",
    place="path",
    example="0xab16a96D359eC26a11e2C2b3d8f8B8942d5Bfcdb",
)


Quantity = Annotated[str, text("0xde0b6b3a7640000")]


Hash = Annotated[str, text("0x" + "5c" * 32)]


class WalletAccountAnswer(AnswerShape):
    """An account of the wallet: the source of its key, and whether and until when it is unlocked."""

    account: Address
    kind: AccountSource
    unlocked: bool
    unlocked_until: Moment | None


class WalletAccountsAnswer(AnswerShape):
    """Every account of the wallet."""

    accounts: list[WalletAccountAnswer]


class WalletTransactionAnswer(AnswerShape):
    """A transaction without its data. `to` and `value` are null if they are not known."""

    id: Annotated[str, text("0192f7c8-8a10-7c4e-9d3b-51c2a7f6b0d8")]
    state: TransactionState
    sender: Annotated[Address, Field(alias="from")]
    to: Address | None
    value: Quantity | None
    hash: Hash | None
    nonce: Count | None
    chain_id: Count
    reason: Annotated[str, text("nonce too low")] | None
    attempts: Count
    client: Annotated[str, text("127.0.0.1")] | None
    asked_at: Moment
    next_attempt_at: Moment | None
    settled_at: Moment | None


class WalletTransactionsAnswer(AnswerShape):
    """A page of transactions, newest first."""

    transactions: list[WalletTransactionAnswer]
    next: NextPage | None


class WalletSignatureAnswer(AnswerShape):
    """A line of the audit log."""

    at: Moment
    method: Annotated[str, text("personal_sign")]
    account: Address
    hash: Hash
    transaction_hash: Hash | None
    client: Annotated[str, text("127.0.0.1")]
    origin: Annotated[str, text("https://app.example.org")] | None
    request_id: Annotated[str, text("0192f7c8-7e6a-7d2b-b0a5-0f7f3c1d2e4f")]
    approval: Annotated[str, text("0192f7c8-8a10-7c4e-9d3b-51c2a7f6b0d8")] | None


class WalletSignaturesAnswer(AnswerShape):
    """A page of the audit log, newest first."""

    signatures: list[WalletSignatureAnswer]
    next: NextPage | None


_WALLET = {
    "wallet-accounts": _operation(
        "List the wallet's accounts",
        "Every account, whether it is unlocked, and until when.",
        DescribedAnswer(200, "The accounts.", WalletAccountsAnswer),
    ),
    "wallet-transactions": _operation(
        "List transactions",
        "The transactions that the wallet was asked to send, newest first.",
        DescribedAnswer(200, "A page.", WalletTransactionsAnswer),
        parameters=(
            Parameter("state", "Only transactions in this state.", {"enum": [*TransactionState]}),
            *page_parameters(),
        ),
    ),
    "wallet-signatures": _operation(
        "List signatures",
        "The lines of the audit log, newest first.",
        DescribedAnswer(200, "A page.", WalletSignaturesAnswer),
        parameters=page_parameters(),
    ),
    "unlock-account": _operation(
        "Unlock an account",
        "Opens the account's key file for 300 seconds, or as many as are named; 0 has no end. The route "
        "exists with `admin_wallet`.",
        DescribedAnswer(200, "The account.", WalletAccountAnswer),
        body=UnlockShape,
        body_example={"passphrase": "correct horse", "seconds": 60},
        parameters=(_ADDRESS,),
        problems=(AccountNotFoundError, AlwaysOpenError, WrongPassphraseError, KeyFileError),
    ),
    "lock-account": _operation(
        "Lock an account",
        "Forgets the account's key until it is unlocked again. The route exists with `admin_wallet`.",
        DescribedAnswer(200, "The account.", WalletAccountAnswer),
        parameters=(_ADDRESS,),
        problems=(InvalidInputError, AccountNotFoundError, AlwaysOpenError),
    ),
}


# Requests for approval.

_APPROVAL_ID = Parameter(
    "id", "The id of an approval, or at least its first four characters.", place="path", example="0192f7c8"
)


class ApprovalAnswer(AnswerShape):
    """A request that a person must approve."""

    id: Annotated[str, text("0192f7c8-8a10-7c4e-9d3b-51c2a7f6b0d8")]
    state: ApprovalState
    method: Annotated[str, text("personal_sign")]
    account: Address
    client: Annotated[str, text("127.0.0.1")]
    origin: Annotated[str, text("https://app.example.org")] | None
    request_id: Annotated[str, text("0192f7c8-7e6a-7d2b-b0a5-0f7f3c1d2e4f")]
    asked_at: Moment
    expires_at: Moment
    decided_at: Moment | None


class ApprovalLineAnswer(AnswerShape):
    """A line of the data to sign, in words."""

    label: Annotated[str, text("message")]
    text: str


class ApprovalDetailsAnswer(ApprovalAnswer):
    """A request with the data to sign, and a description of these data in words."""

    subject: Any
    text: list[ApprovalLineAnswer]


class ApprovalsAnswer(AnswerShape):
    """A page of requests: waiting requests, then settled requests, each newest first."""

    approvals: list[ApprovalAnswer]
    next: Annotated[str, text("settled-7")] | None


_APPROVALS = {
    "approvals": _operation(
        "List requests for approval",
        "Requests that wait for a decision, then settled requests, each newest first.",
        DescribedAnswer(200, "A page.", ApprovalsAnswer),
        parameters=page_parameters(),
    ),
    "approval": _operation(
        "Show a request for approval",
        "A request with the data to sign, and a description of these data in words.",
        DescribedAnswer(200, "The request.", ApprovalDetailsAnswer),
        parameters=(_APPROVAL_ID,),
        problems=(InvalidInputError, ApprovalNotFoundError),
    ),
    "approve": _operation(
        "Approve a request",
        "The wallet signs at once, and its client gets the answer. The route exists with `admin_wallet`.",
        DescribedAnswer(200, "The request, approved.", ApprovalDetailsAnswer),
        parameters=(_APPROVAL_ID,),
        problems=(ApprovalNotFoundError, ApprovalSettledError),
    ),
    "reject": _operation(
        "Reject a request",
        "Its client gets the error 4001. The route exists with `admin_wallet`.",
        DescribedAnswer(200, "The request, rejected.", ApprovalDetailsAnswer),
        parameters=(_APPROVAL_ID,),
        problems=(ApprovalNotFoundError, ApprovalSettledError),
    ),
}

WALLET_OPERATIONS: Mapping[str, Operation] = {**_WALLET, **_APPROVALS}
