"""Failures of an operator's work on the wallet's accounts."""

from bridge_server.kernel.errors import ConflictError, NotFoundError


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
