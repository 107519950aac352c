"""Accounts, transactions and requests as the rules see them. Times are milliseconds since the Unix epoch."""

from enum import StrEnum
from typing import Any, NamedTuple, NewType

from bridge_server.kernel import errors

Address = NewType("Address", str)
"""`0x` and 40 hexadecimal digits in lower case."""

TransactionId = NewType("TransactionId", str)
ApprovalId = NewType("ApprovalId", str)


class AccountSource(StrEnum):
    """The source of an account's key."""

    DEVELOPMENT = "development"
    RAW_KEY = "raw-key"
    KEYSTORE = "keystore"


class WalletAccount(NamedTuple):
    """An account of the wallet. `unlocked_until_ms` is None without an end."""

    address: Address
    source: AccountSource
    is_unlocked: bool
    unlocked_until_ms: int | None = None

    @property
    def is_lasting(self) -> bool:
        """Whether the key comes from the settings, so that it is open as long as the server runs."""
        return self.source is not AccountSource.KEYSTORE


class Caller(NamedTuple):
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


class SendRequest(NamedTuple):
    """A request to send: `params` is the JSON text of the parameter, an object or signed DATA."""

    transaction_id: TransactionId
    sender: Address
    params: bytes
    asked_at_ms: int
    caller: Caller


class SignedTransaction(NamedTuple):
    """A transaction as it goes to the node. `transaction_hash` and `raw` are hexadecimal with `0x`."""

    chain_id: int
    nonce: int
    transaction_hash: str
    raw: str


class StoredTransaction(NamedTuple):
    """A request and its state; `signed` is None while it is queued."""

    request: SendRequest
    chain_id: int | None
    state: TransactionState
    signed: SignedTransaction | None
    attempts: int
    next_attempt_at_ms: int
    error: str | None


class AuditEntry(NamedTuple):
    """A signature for a client. `transaction_hash` is the hash by which nodes know a signed transaction."""

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


class ApprovalRequest(NamedTuple):
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


class RpcCall(NamedTuple):
    """One call of a batch, or alone: `params` is a list or an object, or None when it was left out."""

    method: str
    params: Any


class InvalidParamsError(errors.InvalidInputError, code="invalid-params", title="Invalid params"):
    """The parameters of a method break a rule; the detail begins with the place, such as `params[0].to`."""


class UnknownAccountError(errors.ForbiddenError, code="unknown-account", title="Unknown account"):
    """The wallet has no such account."""

    def __init__(self, address: str) -> None:
        super().__init__(f"The wallet has no account {address}: eth_accounts lists its accounts.")


class LockedError(errors.ForbiddenError, code="locked", title="The account is locked"):
    """The account's key is locked."""

    def __init__(self, address: str) -> None:
        super().__init__(f"The account {address} is locked: personal_unlockAccount opens it for a time.")


class WrongPassphraseError(errors.ForbiddenError, code="wrong-passphrase", title="Wrong passphrase"):
    """The passphrase does not open the account's key."""

    def __init__(self, address: str) -> None:
        super().__init__(f"The passphrase does not open the account {address}.")


class AccountExistsError(errors.ConflictError, code="account-exists", title="The account exists"):
    """The wallet has a key file of the account."""

    def __init__(self, address: str) -> None:
        super().__init__(f"The wallet has the account {address} already: its key file is never overwritten.")


class KeyFileError(errors.ConflictError, code="key-file", title="The key file cannot be opened"):
    """The account's key file cannot be opened, whatever the passphrase."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"The key file of {address} cannot be opened: {reason}.")


class SignatureRejectedError(errors.ForbiddenError, code="rejected", title="The request was rejected"):
    """The request was rejected, or not approved in time."""


class UndecidedError(SignatureRejectedError):
    """The request was neither approved nor rejected in time."""


class ApprovalNotFoundError(errors.NotFoundError, code="approval-not-found", title="No such approval"):
    """There is no such request for approval."""

    detail = "There is no such request for approval: GET /admin/approvals lists them."


class ApprovalSettledError(errors.ConflictError, code="approval-settled", title="The request is not waiting"):
    """The request for approval waits for no decision any more."""

    def __init__(self, state: str) -> None:
        super().__init__(f"The request is not waiting any more: it is {state}.")


class WrongChainError(errors.ConflictError, code="wrong-chain", title="Wrong chain"):
    """The request, or the node, is for another chain than the wallet."""


class UnrecognizedChainError(errors.ConflictError, code="unrecognized-chain", title="Unrecognized chain"):
    """A dapp wants the wallet to be on another chain (EIP-3326)."""

    def __init__(self, wanted: int, own: int) -> None:
        super().__init__(f"The wallet is on chain {own} and on no other: it cannot go to chain {wanted}.")


class NoChainError(errors.UnavailableError, code="no-chain", title="No chain"):
    """The wallet's chain is unknown: there is no setting and no node."""

    def __init__(self) -> None:
        super().__init__("The wallet knows no chain: set chain_id, or node_url for the node's.")


class NoNodeError(errors.UnavailableError, code="no-node", title="No node"):
    """There is no node, or it cannot be reached."""


class NodeError(errors.UpstreamError, code="node-error", title="The node refused"):
    """The node answered with a JSON-RPC error, which is passed on as it came."""

    def __init__(self, rpc_code: int, message: str, data: Any = None, *, has_data: bool = False) -> None:
        super().__init__(message)
        self.rpc_code = rpc_code
        self.data = data
        self.has_data = has_data


class TransactionRefusedError(errors.ConflictError, code="transaction-refused", title="Transaction rejected"):
    """The node calls the transaction invalid; it was not sent, and will not be."""

    def __init__(self, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.data = data


class MethodNotFoundError(errors.NotFoundError, code="method-not-found", title="Method not found"):
    """There is no such method."""
