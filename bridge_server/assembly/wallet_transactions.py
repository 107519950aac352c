"""The wallet's transactions: the services that fill, sign, broadcast and confirm them."""

from dataclasses import dataclass

from bridge_server.assembly.foundation import Foundation
from bridge_server.kernel.turns import KeyedLock
from bridge_server.wallet.accounts import Accounts
from bridge_server.wallet.approvals import Approvals
from bridge_server.wallet.audit_file import AuditLog
from bridge_server.wallet.node.node import Node
from bridge_server.wallet.transactions.broadcasting import Broadcasting
from bridge_server.wallet.transactions.confirming import Confirming
from bridge_server.wallet.transactions.filling import Filling
from bridge_server.wallet.transactions.service import TransactionService
from bridge_server.wallet.transactions.signing import TransactionSigning
from bridge_server.wallet.transactions.store import Fence, TransactionStore
from bridge_server.wallet.transactions.worker import TransactionWorker


@dataclass(frozen=True, slots=True)
class WalletTransactions:
    """The services of transactions."""

    store: TransactionStore
    service: TransactionService
    worker: TransactionWorker


def wallet_transactions(
    foundation: Foundation,
    accounts: Accounts,
    approvals: Approvals,
    audit: AuditLog,
    node: Node,
    fence: Fence | None,
) -> WalletTransactions:
    """The services of transactions, which share one lock per sender."""
    clock = foundation.clock
    store, locks, filling = TransactionStore(foundation.database, fence), KeyedLock(), Filling(node)
    signing = TransactionSigning(accounts, approvals, audit, clock)
    broadcasting = Broadcasting(store, node, foundation.stopping, clock)
    confirming = Confirming(store, node, filling, locks, clock)
    kept_ms = foundation.settings.settled_request_ttl * 1000
    service = TransactionService(
        store, node, filling, signing, broadcasting, confirming, locks, clock, kept_ms
    )
    worker = TransactionWorker(
        store, service, signing, broadcasting, confirming, node, foundation.events, clock
    )
    accounts.on_unlocked(worker.wake)
    return WalletTransactions(store, service, worker)
