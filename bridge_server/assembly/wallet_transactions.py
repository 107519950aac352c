"""The wallet's transactions: the services that fill, sign, send and confirm them."""

from dataclasses import dataclass

from bridge_server.assembly.foundation import Foundation
from bridge_server.kernel.turns import KeyedLock
from bridge_server.wallet.accounts import Accounts
from bridge_server.wallet.approvals import Approvals
from bridge_server.wallet.audit_file import AuditLog
from bridge_server.wallet.node.node import Node
from bridge_server.wallet.transactions.broadcasting import Broadcaster
from bridge_server.wallet.transactions.confirming import Confirming
from bridge_server.wallet.transactions.dispatching import Dispatching
from bridge_server.wallet.transactions.filling import Filling
from bridge_server.wallet.transactions.offering import Offering
from bridge_server.wallet.transactions.queued import QueuedTransactions
from bridge_server.wallet.transactions.sending import Sending
from bridge_server.wallet.transactions.signing import TransactionSigning
from bridge_server.wallet.transactions.store import TransactionStore


@dataclass(frozen=True, slots=True)
class WalletTransactions:
    """The services of transactions."""

    store: TransactionStore
    sending: Sending
    broadcaster: Broadcaster
    queued: QueuedTransactions


def wallet_transactions(
    foundation: Foundation, accounts: Accounts, approvals: Approvals, audit: AuditLog, node: Node
) -> WalletTransactions:
    """The services of transactions, which share one lock per sender."""
    clock = foundation.clock
    store, turns, filling = TransactionStore(foundation.database), KeyedLock(), Filling(node)
    signing = TransactionSigning(accounts, audit, clock)
    confirming = Confirming(store, node, turns, clock)
    dispatching = Dispatching(
        store,
        node,
        filling,
        signing,
        Offering(store, node, clock),
        confirming,
        foundation.stopping,
        clock,
        asks_for_approval=approvals.is_on,
    )
    sending = Sending(
        accounts, approvals, store, node, filling, signing, dispatching, turns, clock, foundation.ids
    )
    broadcaster = Broadcaster(store, sending, dispatching, confirming, node, turns, foundation.signals, clock)
    accounts.on_unlocked(broadcaster.wake)
    queued = QueuedTransactions(store, foundation.settings.settled_request_ttl * 1000)
    return WalletTransactions(store, sending, broadcaster, queued)
