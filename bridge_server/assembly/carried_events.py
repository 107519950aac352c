"""The events that other processes on the same PostgreSQL database are to hear."""

from bridge_server.inbox.events import MarkedRead, SignedOut
from bridge_server.kernel.events import DomainEvent
from bridge_server.kernel.signals import Touched
from bridge_server.notify.events import AllMarkedRead, Delivered
from bridge_server.outbox.events import OutboxChanged, OutboxCounted, OutboxGrew
from bridge_server.projects.events import ProjectChanged
from bridge_server.pubsub.events import MessagesStored
from bridge_server.pubsub.irn.events import IrnMessagesStored, IrnReceiptsGiven, IrnReceiptsStored
from bridge_server.storage.events import ChangedOutside
from bridge_server.wallet.events import ApprovalsChanged
from bridge_server.wallet.transactions.events import (
    TransactionsMoved,
    TransactionsOwed,
    TransactionsPostponed,
)
from bridge_server.web.bucket_store import BucketsSaved

CARRIED: tuple[type[DomainEvent], ...] = (
    Touched,
    Delivered,
    SignedOut,
    OutboxGrew,
    MessagesStored,
    IrnMessagesStored,
    IrnReceiptsGiven,
    IrnReceiptsStored,
    # The console's open pages load again after these.
    OutboxChanged,
    MarkedRead,
    AllMarkedRead,
    ProjectChanged,
    ApprovalsChanged,
    TransactionsMoved,
    TransactionsOwed,
    TransactionsPostponed,
)

KEPT: tuple[type[DomainEvent], ...] = (
    # Each process counts for itself.
    OutboxCounted,
    # A file's own: its token buckets, and the commands that change it.
    BucketsSaved,
    ChangedOutside,
)
"""The events that concern their process only."""
