"""Failures between a dapp, the wallet and its node. `rpc/rpc_errors` has their JSON-RPC codes."""

from typing import Any

from bridge_server.kernel.errors import (
    ConflictError,
    ForbiddenError,
    InvalidInputError,
    NotFoundError,
    UnavailableError,
    UpstreamError,
)


class InvalidParamsError(InvalidInputError):
    """The parameters of a method break a rule; the detail begins with the place, such as `params[0].to`."""

    code = "invalid-params"
    title = "Invalid params"


class UnknownAccountError(ForbiddenError):
    """The wallet has no such account."""

    code = "unknown-account"
    title = "Unknown account"

    def __init__(self, address: str) -> None:
        super().__init__(f"The wallet has no account {address}: eth_accounts lists its accounts.")


class LockedError(ForbiddenError):
    """The account's key is locked."""

    code = "locked"
    title = "The account is locked"

    def __init__(self, address: str) -> None:
        super().__init__(f"The account {address} is locked: personal_unlockAccount opens it for a time.")


class WrongPassphraseError(ForbiddenError):
    """The passphrase does not open the account's key."""

    code = "wrong-passphrase"
    title = "Wrong passphrase"

    def __init__(self, address: str) -> None:
        super().__init__(f"The passphrase does not open the account {address}.")


class AccountExistsError(ConflictError):
    """The wallet has a key file of the account."""

    code = "account-exists"
    title = "The account exists"

    def __init__(self, address: str) -> None:
        super().__init__(f"The wallet has the account {address} already: its key file is never overwritten.")


class KeyFileError(ConflictError):
    """The account's key file cannot be opened, whatever the passphrase."""

    code = "key-file"
    title = "The key file cannot be opened"

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"The key file of {address} cannot be opened: {reason}.")


class SignatureRejectedError(ForbiddenError):
    """The request was rejected, or not approved in time."""

    code = "rejected"
    title = "The request was rejected"


class UndecidedError(SignatureRejectedError):
    """The request was neither approved nor rejected in time."""


class ApprovalNotFoundError(NotFoundError):
    """There is no such request for approval."""

    code = "approval-not-found"
    title = "No such approval"

    def __init__(self) -> None:
        super().__init__("There is no such request for approval: GET /admin/approvals lists them.")


class ApprovalSettledError(ConflictError):
    """The request for approval waits for no decision any more."""

    code = "approval-settled"
    title = "The request is not waiting"

    def __init__(self, state: str) -> None:
        super().__init__(f"The request is not waiting any more: it is {state}.")


class WrongChainError(ConflictError):
    """The request, or the node, is for another chain than the wallet."""

    code = "wrong-chain"
    title = "Wrong chain"


class UnrecognizedChainError(ConflictError):
    """A dapp wants the wallet to be on another chain (EIP-3326)."""

    code = "unrecognized-chain"
    title = "Unrecognized chain"

    def __init__(self, wanted: int, own: int) -> None:
        super().__init__(f"The wallet is on chain {own} and on no other: it cannot go to chain {wanted}.")


class NoChainError(UnavailableError):
    """The wallet's chain is unknown: there is no setting and no node."""

    code = "no-chain"
    title = "No chain"

    def __init__(self) -> None:
        super().__init__("The wallet knows no chain: set chain_id, or node_url for the node's.")


class NoNodeError(UnavailableError):
    """There is no node, or it cannot be reached."""

    code = "no-node"
    title = "No node"


class NodeError(UpstreamError):
    """The node answered with a JSON-RPC error, which is passed on as it came."""

    code = "node-error"
    title = "The node refused"

    def __init__(self, rpc_code: int, message: str, data: Any = None, *, has_data: bool = False) -> None:
        super().__init__(message)
        self.rpc_code = rpc_code
        self.data = data
        self.has_data = has_data


class TransactionRefusedError(ConflictError):
    """The node calls the transaction invalid; it was not sent, and will not be."""

    code = "transaction-refused"
    title = "Transaction rejected"

    def __init__(self, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.data = data


class MethodNotFoundError(NotFoundError):
    """There is no such method."""

    code = "method-not-found"
    title = "Method not found"
