"""What the wallet needs of storage. One method is one transaction, one read, or one file."""

from collections.abc import Callable, Sequence
from typing import Protocol

from bridge_server.wallet.models import (
    Address,
    Approval,
    ApprovalId,
    ApprovalState,
    AuditEntry,
    SendRequest,
    SignedTransaction,
    StoredTransaction,
    TransactionId,
)


class TransactionStore(Protocol):
    """Transactions that were asked for, durable from the moment that a method returns."""

    async def reserve(
        self,
        request: SendRequest,
        chain_id: int,
        nonce: int | None,
        lowest_nonce: int,
        sign: Callable[[int], SignedTransaction],
    ) -> StoredTransaction:
        """Reserve a nonce, sign with it and store the signed bytes, in one transaction.

        `nonce` None takes the lowest from `lowest_nonce` on that none of the account's live transactions
        (signed or sent) has; a given one may replace. `sign` must be pure: it may be called again. A request
        that is queued already becomes the signed one.
        """
        ...

    async def queue(
        self, request: SendRequest, chain_id: int | None, signed: SignedTransaction | None
    ) -> None:
        """Keep what cannot be sent now: as it was asked for, or signed already (raw transactions)."""
        ...

    async def settle_sent(self, transaction_id: TransactionId, now_ms: int) -> None:
        """The node has it: it is sent, and others of its account with the same nonce are replaced."""
        ...

    async def settle_refused(self, transaction_id: TransactionId, error: str, now_ms: int) -> None:
        """The node calls it invalid: its nonce is free."""
        ...

    async def settle_mined(self, chain_id: int, address: Address, next_nonce: int, now_ms: int) -> None:
        """Nonces below `next_nonce` are used on the chain: what the account sent with them is done."""
        ...

    async def postpone(self, transaction_id: TransactionId, next_attempt_at_ms: int) -> None:
        """One attempt more has not reached the node."""
        ...

    async def resend(self, chain_id: int, now_ms: int) -> int:
        """The node may have forgotten: what was sent and is not mined is due again. Returns how many."""
        ...

    async def due(self, now_ms: int, limit: int) -> Sequence[StoredTransaction]:
        """Queued and signed ones whose next attempt is due, in the order in which they must be sent."""
        ...

    async def unmined(self) -> Sequence[tuple[int, Address]]:
        """The chains and accounts that have transactions sent and not mined."""
        ...

    async def newest(
        self,
        transaction_id: TransactionId | None = None,
        sender: Address | None = None,
        params: bytes | None = None,
    ) -> StoredTransaction | None:
        """The newest one that matches all that is given."""
        ...

    async def sweep(self, before_ms: int, limit: int) -> int:
        """Delete what was mined, replaced or refused before then; returns how many."""
        ...


class ApprovalStore(Protocol):
    """Requests that wait for a decision. A command in another process decides."""

    async def add(self, approval: Approval) -> None:
        """Store a pending request."""
        ...

    async def get(self, approval_id: ApprovalId) -> Approval | None:
        """One request."""
        ...

    async def named(self, beginning: str) -> Sequence[Approval]:
        """At most two requests whose ids begin so, whatever became of them."""
        ...

    async def pending(self, now_ms: int) -> Sequence[Approval]:
        """Those that wait and whose time is not over, oldest first."""
        ...

    async def decide(self, approval_id: ApprovalId, state: ApprovalState, now_ms: int) -> bool:
        """Settle a pending request; False when it is not pending any more, or its time is over."""
        ...

    async def expire_all(self) -> int:
        """After a restart nobody waits any more; returns how many were pending."""
        ...

    async def sweep(self, before_ms: int, limit: int) -> int:
        """Delete what was asked before then; returns how many."""
        ...


class AuditLog(Protocol):
    """What was signed, append-only."""

    def append(self, entry: AuditEntry) -> None:
        """Write the entry before the signature is handed out. Raises UnavailableError when it cannot be."""
        ...


class KeystoreFiles(Protocol):
    """Keystore files of version 3, one per account, written atomically with mode 0600."""

    def addresses(self) -> Sequence[Address]:
        """The accounts that there are files of, sorted by file name."""
        ...

    def read(self, address: Address) -> bytes:
        """The account's file. Raises UnknownAccountError."""
        ...

    def write(self, address: Address, content: bytes) -> None:
        """Store a new account's file, on disk when this returns. Raises ConflictError when there is one."""
        ...
