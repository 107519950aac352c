"""What the wallet needs of storage. One method is one transaction, one read, or one file."""

from collections.abc import Callable, Mapping, Sequence
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
    TransactionState,
)


class TransactionStore(Protocol):
    """Transactions that were asked for, durable from the moment that a method returns.

    What is owed (queued or signed) and due is announced to the signals as `("transactions", due_at_ms)`.
    """

    async def reserve(
        self,
        request: SendRequest,
        chain_id: int,
        nonce: int | None,
        lowest_nonce: int,
        sign: Callable[[int], SignedTransaction],
        due_at_ms: int,
    ) -> StoredTransaction:
        """Reserve a nonce, sign with it and store the signed bytes, in one transaction.

        `nonce` None takes the lowest from `lowest_nonce` on that none of the account's live transactions
        (signed or sent) has; a given one may replace. `sign` is called in another thread, and may be called
        again; what it raises is raised, and nothing is stored. A request that is queued already becomes the
        signed one; raises ConflictError when it is queued no longer.
        """
        ...

    async def keep(
        self, request: SendRequest, chain_id: int | None, signed: SignedTransaction | None, due_at_ms: int
    ) -> StoredTransaction:
        """Keep what is to be sent: queued as it was asked for, or signed already (raw transactions)."""
        ...

    async def next_nonce(self, chain_id: int, sender: Address, lowest_nonce: int) -> int:
        """The nonce that `reserve` would take, without taking it."""
        ...

    async def get(self, transaction_id: TransactionId) -> StoredTransaction | None:
        """What has become of one."""
        ...

    async def settle_sent(self, transaction_id: TransactionId, now_ms: int) -> None:
        """The node has it: it is sent, and others of its account with the same nonce are replaced."""
        ...

    async def settle_refused(self, transaction_id: TransactionId, error: str, now_ms: int) -> None:
        """The node calls it invalid: its nonce is free."""
        ...

    async def change(
        self, stored: Sequence[StoredTransaction], state: TransactionState, error: str | None, now_ms: int
    ) -> None:
        """These are in the state now, for the reason given, but for those that have left the one that they
        were read in. What becomes signed is due now, and what is forgotten is announced as if it were.
        """
        ...

    async def postpone(
        self, due_at_ms: Mapping[TransactionId, int], error: str, *, is_attempt: bool = True
    ) -> None:
        """These did not reach the node, for the reason given; the next attempts are due then.

        The first of them is announced as `("postponed", due_at_ms)`.
        """
        ...

    async def owing(self, due_at_ms: int) -> Sequence[Address]:
        """The accounts of which something that is owed is due until then."""
        ...

    async def owed(self, sender: Address) -> Mapping[TransactionId, int]:
        """All that the account owes, due or not, in the order in which it must be sent: by nonce, then as
        asked for; with the number of attempts.
        """
        ...

    async def next_due(self) -> int | None:
        """When the next of what is owed is due; None when nothing is owed."""
        ...

    async def senders(self, chain_id: int) -> Sequence[Address]:
        """The accounts of which something is signed, sent or mined."""
        ...

    async def lowest_sent(self, chain_id: int) -> Mapping[Address, int]:
        """The accounts of which something is sent, with the lowest nonce of that."""
        ...

    async def followed(self, chain_id: int, sender: Address, from_nonce: int) -> Sequence[StoredTransaction]:
        """What is signed, sent or mined with this nonce or a higher one, by nonce."""
        ...

    async def newest(self, sender: Address | None = None) -> StoredTransaction | None:
        """The newest one, of an account if one is named."""
        ...

    async def with_params(self, sender: Address, params: bytes, limit: int) -> Sequence[StoredTransaction]:
        """What the account was asked to send with these params, newest first."""
        ...

    async def with_hash(self, transaction_hash: str, limit: int) -> Sequence[StoredTransaction]:
        """Those with this hash (DATA in lower case), newest first."""
        ...

    async def waiting(self, sender: Address | None, limit: int) -> Sequence[StoredTransaction]:
        """What is owed, of an account if one is named, as asked for."""
        ...

    async def sweep(self, before_ms: int, limit: int) -> int:
        """Delete what was mined, replaced, refused or forgotten before then; returns how many."""
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

    async def expire_all(self, now_ms: int) -> int:
        """No server runs that anybody waits for; returns how many were pending."""
        ...

    async def sweep(self, before_ms: int, limit: int) -> int:
        """Delete what was asked before then; returns how many."""
        ...


class AuditLog(Protocol):
    """What was signed, append-only."""

    def append(self, entry: AuditEntry) -> None:
        """Write the entry before the signature is handed out. Raises UnavailableError when it cannot be.

        Called from the event loop and from the database's thread.
        """
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
