"""Transactions signed, and written to the audit log before anybody sees the signature."""

from collections.abc import Callable

from bridge_server.ethereum.hex_data import hex_of
from bridge_server.ethereum.transactions import sign_transaction
from bridge_server.kernel.clock import Clock
from bridge_server.wallet.accounts import Accounts
from bridge_server.wallet.audit_file import AuditLog
from bridge_server.wallet.models import ApprovalId, AuditEntry, Caller, SignedTransaction
from bridge_server.wallet.transactions.requests import TransactionRequest


class TransactionSigning:
    """Signs transactions that are filled in, with the keys that are unlocked."""

    def __init__(self, accounts: Accounts, audit: AuditLog, clock: Clock) -> None:
        self._accounts = accounts
        self._audit = audit
        self._clock = clock

    def ready(
        self, method: str, filled: TransactionRequest, caller: Caller, approval_id: ApprovalId | None = None
    ) -> Callable[[int], SignedTransaction]:
        """What signs it with a nonce, in any thread; this may raise UnavailableError.

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
