"""The wallet's routes of the admin API described."""

from collections.abc import Mapping
from functools import partial
from typing import Annotated

from pydantic import Field

from bridge_server.admin.wallet.errors import AccountNotFoundError, AlwaysOpenError
from bridge_server.admin.wallet.wire import UnlockShape
from bridge_server.kernel.errors import InvalidInputError
from bridge_server.wallet.errors import KeyFileError, WrongPassphraseError
from bridge_server.wallet.models import AccountSource, TransactionState
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


_operation = partial(operation, "Wallet administration")

WALLET_OPERATIONS: Mapping[str, Operation] = {
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
        "exists "
        "with `admin_wallet`.",
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
