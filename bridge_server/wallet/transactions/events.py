"""The events of the store of transactions. Times are milliseconds since the Unix epoch."""

from dataclasses import dataclass

from bridge_server.kernel.events import DomainEvent


@dataclass(frozen=True, slots=True)
class TransactionsOwed(DomainEvent):
    """Transactions are owed to the node that are due at this time, or others may have become due by it."""

    due_at_ms: int


@dataclass(frozen=True, slots=True)
class TransactionsMoved(DomainEvent):
    """Transactions are in another state, or were tried in vain."""


@dataclass(frozen=True, slots=True)
class TransactionsPostponed(DomainEvent):
    """The next attempt to send some transactions is due at this time, and no earlier."""

    due_at_ms: int
