"""Accounts, transactions and requests as the rules see them. Times are milliseconds since the Unix epoch."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NewType

Address = NewType("Address", str)
"""`0x` and 40 hexadecimal digits in lower case."""

TransactionId = NewType("TransactionId", str)
ApprovalId = NewType("ApprovalId", str)


class AccountSource(StrEnum):
    """The source of an account's key."""

    DEVELOPMENT = "development"
    RAW_KEY = "raw-key"
    KEYSTORE = "keystore"


@dataclass(frozen=True, slots=True)
class WalletAccount:
    """An account of the wallet. `unlocked_until_ms` is None without an end."""

    address: Address
    source: AccountSource
    is_unlocked: bool
    unlocked_until_ms: int | None = None

    @property
    def is_lasting(self) -> bool:
        """Whether the key comes from the settings, so that it is open as long as the server runs."""
        return self.source is not AccountSource.KEYSTORE


@dataclass(frozen=True, slots=True)
class Caller:
    """The client's address, and the web page that it claims to be (Origin), for the audit log."""

    address: str
    origin: str | None = None
    request_id: str = ""


class TransactionState(StrEnum):
    """The state of a transaction that the wallet was asked to send (`transactions/states` has the table)."""

    QUEUED = "queued"
    """Not signed yet: the node could not be asked for the fields that the request leaves open."""
    SIGNED = "signed"
    """Signed and stored; the node is not known to have it."""
    SENT = "sent"
    """The node has it."""
    MINED = "mined"
    """The transaction is in a block of the chain."""
    REPLACED = "replaced"
    """Its nonce went to another transaction."""
    REFUSED = "refused"
    """The node called it invalid; `error` says why. Its nonce is free again."""
    FORGOTTEN = "forgotten"
    """The node's chain was set back to before it, and it is not sent into another history."""


@dataclass(frozen=True, slots=True)
class SendRequest:
    """A request to send: `params` is the JSON text of the parameter, an object or signed DATA."""

    transaction_id: TransactionId
    sender: Address
    params: bytes
    asked_at_ms: int
    caller: Caller


@dataclass(frozen=True, slots=True)
class SignedTransaction:
    """A transaction as it goes to the node. `transaction_hash` and `raw` are hexadecimal with `0x`."""

    chain_id: int
    nonce: int
    transaction_hash: str
    raw: str


@dataclass(frozen=True, slots=True)
class StoredTransaction:
    """A request and its state; `signed` is None while it is queued."""

    request: SendRequest
    chain_id: int | None
    state: TransactionState
    signed: SignedTransaction | None
    attempts: int
    next_attempt_at_ms: int
    error: str | None


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """A signature: of which hash, by which method, with the key of which account, for which client.

    A transaction has a hash of its own, by which nodes know it.
    """

    at_ms: int
    method: str
    address: Address
    signed_hash: str
    caller: Caller
    approval_id: ApprovalId | None = None
    transaction_hash: str | None = None


class ApprovalState(StrEnum):
    """The state of a request that a person must approve."""

    PENDING = "pending"
    APPROVED = "approved"
    REJECTED = "rejected"
    EXPIRED = "expired"
    """There was no decision in time, or the client left, or the server stopped."""


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """A request that waits for a decision. `subject` is the whole JSON text of the data to sign."""

    approval_id: ApprovalId
    method: str
    address: Address
    subject: bytes
    caller: Caller
    asked_at_ms: int
    expires_at_ms: int
    state: ApprovalState = ApprovalState.PENDING
    decided_at_ms: int | None = None

    def state_at(self, now_ms: int) -> ApprovalState:
        """The state at this time: a request whose time is over cannot be decided any more."""
        if self.state is ApprovalState.PENDING and self.expires_at_ms <= now_ms:
            return ApprovalState.EXPIRED
        return self.state


@dataclass(frozen=True, slots=True)
class RpcCall:
    """One call of a batch, or alone: `params` is a list or an object, or None when it was left out."""

    method: str
    params: Any
