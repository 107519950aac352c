"""What the wallet is made of: settings become its services. Nothing is opened here."""

from bridge_server.assembly.wallet_accounts import wallet_accounts
from bridge_server.kernel.clock import Clock
from bridge_server.kernel.ids import IdMaker
from bridge_server.kernel.signals import Signals
from bridge_server.kernel.stopping import Stopping
from bridge_server.kernel.sweeper import Sweep
from bridge_server.kernel.turns import KeyedLock
from bridge_server.settings.settings import Settings
from bridge_server.storage.database import Database
from bridge_server.version import USER_AGENT
from bridge_server.wallet.approval_store import ApprovalStore
from bridge_server.wallet.approvals import Approvals
from bridge_server.wallet.audit_file import AuditLog
from bridge_server.wallet.keystore_files import KeystoreFiles
from bridge_server.wallet.node.node import Node
from bridge_server.wallet.rpc.methods import WalletMethods
from bridge_server.wallet.rpc.queued_transactions import QueuedTransactions
from bridge_server.wallet.rpc.signing_turns import SigningTurns
from bridge_server.wallet.rpc.transaction_methods import TransactionMethods
from bridge_server.wallet.signing import Signing, TypedDataScheme
from bridge_server.wallet.transactions.broadcasting import Broadcasting
from bridge_server.wallet.transactions.confirming import Confirming
from bridge_server.wallet.transactions.filling import Filling
from bridge_server.wallet.transactions.service import TransactionService
from bridge_server.wallet.transactions.signing import TransactionSigning
from bridge_server.wallet.transactions.store import TransactionStore
from bridge_server.wallet.transactions.worker import TransactionWorker

_DEVELOPMENT_CHAIN_ID = 31_337
"""The chain of development accounts when nobody names one, and there is no node: anvil's and hardhat's."""


class WalletParts:
    """Everything that the wallet is put together from, by the name of its job."""

    def __init__(
        self,
        settings: Settings,
        database: Database,
        signals: Signals,
        stopping: Stopping,
        clock: Clock,
        ids: IdMaker,
    ) -> None:
        self.accounts = wallet_accounts(settings, KeystoreFiles(settings.keystore, clock), clock, ids)
        self.audit = AuditLog(settings.audit_file)
        self.node = _node(settings, stopping)
        self.approvals = _approvals(settings, database, signals, stopping, clock, ids)
        self.transactions = store = TransactionStore(database)
        locks = KeyedLock()
        filling = Filling(self.node)
        transaction_signing = TransactionSigning(self.accounts, self.approvals, self.audit, clock)
        broadcasting = Broadcasting(store, self.node, stopping, clock)
        confirming = Confirming(store, self.node, filling, locks, clock)
        service = TransactionService(
            store,
            self.node,
            filling,
            transaction_signing,
            broadcasting,
            confirming,
            locks,
            clock,
            settings.settled_request_ttl * 1000,
        )
        self.worker = TransactionWorker(
            store, service, transaction_signing, broadcasting, confirming, self.node, signals, clock
        )
        self.accounts.on_unlocked(self.worker.wake)
        self.transaction_methods = TransactionMethods(service, clock, ids)
        self.queued = QueuedTransactions(store)
        scheme = TypedDataScheme(settings.typed_data_scheme)
        methods = WalletMethods(
            self.accounts,
            Signing(self.accounts, self.approvals, self.audit, clock, scheme),
            self.node,
            signs_for_any_chain=settings.typed_data_chain == "any",
        )
        self.method_tables = (*methods.tables, self.transaction_methods.table, self.queued.table)
        self.signing_turns = SigningTurns(lambda: signals.has_waiters, lambda: database.is_busy)
        self.sweeps: tuple[Sweep, ...] = (self.accounts.sweep, self.approvals.sweep, service.sweep)


def _node(settings: Settings, stopping: Stopping) -> Node:
    url = settings.node_url
    return Node(
        None if url is None else url.get_secret_value(),
        settings.node_timeout,
        USER_AGENT,
        stopping,
        known_chain_id(settings),
    )


def known_chain_id(settings: Settings) -> int | None:
    """The wallet's chain, if it is known without asking the node."""
    return settings.chain_id or _assumed_chain_id(settings)


def _assumed_chain_id(settings: Settings) -> int | None:
    """The chain when neither the settings nor a node name one."""
    if settings.chain_id is not None or settings.node_url is not None or not settings.dev_accounts:
        return None
    return _DEVELOPMENT_CHAIN_ID


def _approvals(
    settings: Settings,
    database: Database,
    signals: Signals,
    stopping: Stopping,
    clock: Clock,
    ids: IdMaker,
) -> Approvals:
    return Approvals(
        ApprovalStore(database),
        signals,
        stopping,
        clock,
        ids,
        is_on=settings.approve == "queue",
        timeout_seconds=settings.approval_timeout,
        kept_ms=settings.settled_request_ttl * 1000,
    )
