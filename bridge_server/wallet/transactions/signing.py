"""Signing transactions: approved first if that is wanted, and in the audit log before anybody sees them."""

from collections.abc import Callable

import orjson

from bridge_server.ethereum.hex_data import hex_of
from bridge_server.ethereum.transactions import sign_transaction
from bridge_server.kernel.clock import Clock
from bridge_server.wallet.accounts import Accounts
from bridge_server.wallet.approvals import Approvals
from bridge_server.wallet.audit_file import AuditLog
from bridge_server.wallet.models import Address, ApprovalId, AuditEntry, Caller, SignedTransaction
from bridge_server.wallet.transactions.requests import TransactionRequest, write_transaction


class TransactionSigning:
    """Signs transactions that are filled in, with the keys that are unlocked."""

    def __init__(self, accounts: Accounts, approvals: Approvals, audit: AuditLog, clock: Clock) -> None:
        self._accounts = accounts
        self._approvals = approvals
        self._audit = audit
        self._clock = clock

    @property
    def asks_for_approval(self) -> bool:
        """Whether a signature may take as long as a human does."""
        return self._approvals.is_on

    def require_key(self, address: Address) -> None:
        """Raise UnknownAccountError, LockedError unless the account's key is open."""
        self._accounts.key(address)

    async def approved(self, method: str, filled: TransactionRequest, caller: Caller) -> ApprovalId | None:
        """Return the approval's id once it is given; None when none is required.

        Raises as `Approvals.approved` does.
        """
        if not self._approvals.is_on:
            return None
        subject = orjson.dumps(write_transaction(filled))
        return await self._approvals.approved(method, filled.sender, subject, caller)

    def ready(
        self, method: str, filled: TransactionRequest, caller: Caller, approval_id: ApprovalId | None
    ) -> Callable[[int], SignedTransaction]:
        """The function that signs it with a nonce, in any thread; it may raise UnavailableError.

        Raises UnknownAccountError, LockedError.
        """
        key = self._accounts.key(filled.sender)

        def sign(nonce: int) -> SignedTransaction:
            transaction = filled.transaction(nonce)
            raw, transaction_hash, signed_hash = sign_transaction(transaction, key)
            signed = SignedTransaction(transaction.chain_id, nonce, hex_of(transaction_hash), hex_of(raw))
            self._audit.append(
                AuditEntry(
                    self._clock.now_ms(),
                    method,
                    filled.sender,
                    hex_of(signed_hash),
                    caller,
                    approval_id,
                    signed.transaction_hash,
                )
            )
            return signed

        return sign
