"""The wallet's JSON-RPC endpoint, its accounts, approvals and transactions."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

from bridge_server.assembly.foundation import Foundation
from bridge_server.assembly.instruments import node_failure
from bridge_server.assembly.room import Room
from bridge_server.assembly.wallet_accounts import wallet_accounts
from bridge_server.assembly.wallet_role import WalletRole, served_in_turn
from bridge_server.assembly.wallet_transactions import wallet_transactions
from bridge_server.kernel.background import running
from bridge_server.kernel.own_url import OwnUrl
from bridge_server.kernel.sweeper import Sweep
from bridge_server.outbox.recording import BRIDGE
from bridge_server.settings.checks import secret_of
from bridge_server.settings.settings import Settings
from bridge_server.version import USER_AGENT
from bridge_server.wallet.accounts import Accounts
from bridge_server.wallet.approval_store import ApprovalStore
from bridge_server.wallet.approvals import Approvals
from bridge_server.wallet.audit_file import AuditLog
from bridge_server.wallet.keystore_files import KeystoreFiles
from bridge_server.wallet.node.node import Node
from bridge_server.wallet.rpc.access import Access
from bridge_server.wallet.rpc.discovery import DISCOVERY
from bridge_server.wallet.rpc.forwarding import MovingWalletHandlers, WalletElsewhere
from bridge_server.wallet.rpc.handlers import WalletHandlers
from bridge_server.wallet.rpc.method_table import MethodTable
from bridge_server.wallet.rpc.methods import WalletMethods
from bridge_server.wallet.rpc.queued_transactions import QueuedTransactions
from bridge_server.wallet.rpc.routes import description_routes, wallet_routes
from bridge_server.wallet.rpc.signing_turns import SigningTurns
from bridge_server.wallet.rpc.transaction_methods import TransactionMethods
from bridge_server.wallet.signing import Signing, TypedDataScheme
from bridge_server.wallet.transactions.store import Fence, TransactionStore
from bridge_server.wallet.transactions.worker import TransactionWorker
from bridge_server.web.allowed_origins import AllowedOrigins, is_loopback_origin
from bridge_server.web.exchanges import Exchange
from bridge_server.web.json_rpc import gist
from bridge_server.web.routes import Route
from bridge_server.web.traffic import TrafficLog
from bridge_server.web.turned_away import TurnedAway

_FORWARDING_SECONDS = 60
"""The longest time of a forwarded call beside the waits for the node and for a person."""


@dataclass(frozen=True, slots=True)
class AssembledWallet:
    """The wallet without its endpoint."""

    accounts: Accounts
    approvals: Approvals
    audit: AuditLog
    node: Node
    transactions: TransactionStore
    worker: TransactionWorker
    transaction_methods: TransactionMethods
    queued: QueuedTransactions
    method_tables: tuple[MethodTable, ...]
    sweeps: tuple[Sweep, ...]
    role: WalletRole | None
    """The wallet's role among several processes; None where there is one process."""


def assembled_wallet(foundation: Foundation, role: WalletRole | None) -> AssembledWallet:
    """Put the wallet's services together; with a `role`, several processes share the database."""
    settings, clock = foundation.settings, foundation.clock
    accounts = wallet_accounts(settings, KeystoreFiles(settings.keystore, clock), clock, foundation.ids)
    fence = None if role is None else role.fence
    approvals, audit = _approvals(foundation, fence), AuditLog(settings.audit_file)
    node = _node(foundation, None if role is None else role.require_held)
    transactions = wallet_transactions(foundation, accounts, approvals, audit, node, fence)
    methods = WalletMethods(
        accounts,
        Signing(accounts, approvals, audit, clock, TypedDataScheme(settings.typed_data_scheme)),
        node,
        signs_for_any_chain=settings.typed_data_chain == "any",
    )
    transaction_methods = TransactionMethods(transactions.service, clock, foundation.ids)
    queued = QueuedTransactions(transactions.store)
    return AssembledWallet(
        accounts,
        approvals,
        audit,
        node,
        transactions.store,
        transactions.worker,
        transaction_methods,
        queued,
        (*methods.tables, transaction_methods.table, queued.table, DISCOVERY),
        (accounts.sweep, approvals.sweep, transactions.service.sweep),
        role,
    )


def wallet_room(foundation: Foundation, wallet: AssembledWallet) -> Room:
    """The wallet: it signs, and its transactions go to the node."""
    role, elsewhere = wallet.role, _elsewhere(foundation, wallet)

    async def catch_up() -> None:
        if role is None or role.is_here():
            await wallet.worker.catch_up()

    @asynccontextmanager
    async def emptied() -> AsyncIterator[None]:
        """Key files stay, locked."""
        await wallet.approvals.withdrawn()
        await wallet.worker.forget()
        yield
        wallet.accounts.lock_all()

    return Room(
        name="wallet",
        routes=(
            *_routes(foundation, wallet, elsewhere),
            *description_routes(foundation.every_request),
        ),
        running=(partial(_running, wallet, elsewhere, foundation.own_url),),
        emptied=(emptied,),
        catch_up=catch_up,
        sweeps=wallet.sweeps,
        gauges=lambda: {"wallet_approvals_waiting": wallet.approvals.waiting},
    )


@asynccontextmanager
async def _running(
    wallet: AssembledWallet, elsewhere: WalletElsewhere | None, own_url: OwnUrl
) -> AsyncIterator[None]:
    """Sign and send inside: always, or whenever this process has the wallet's role."""
    if wallet.role is None or elsewhere is None:
        async with _signing(wallet):
            yield
        return
    async with elsewhere.opened(), served_in_turn(wallet.role, partial(_signing_here, wallet), own_url):
        yield


@asynccontextmanager
async def _signing_here(wallet: AssembledWallet) -> AsyncIterator[None]:
    """After the role is lost, unlocked keys are locked, as after a restart."""
    try:
        async with _signing(wallet):
            yield
    finally:
        wallet.accounts.lock_all()


@asynccontextmanager
async def _signing(wallet: AssembledWallet) -> AsyncIterator[None]:
    """Delete approval requests of an earlier run first, and withdraw pending ones at the end."""
    await wallet.approvals.forget_waiting()
    async with wallet.audit.opened(), wallet.node, running(wallet.worker.run_forever()):
        try:
            yield
        finally:
            await wallet.approvals.withdrawn()


def _node(foundation: Foundation, require_wallet: Callable[[], None] | None) -> Node:
    settings, instruments = foundation.settings, foundation.instruments
    return Node(
        secret_of(settings.node_url),
        settings.node_timeout,
        USER_AGENT,
        foundation.stopping,
        settings.known_chain_id,
        None if instruments is None else partial(node_failure, instruments),
        None if foundation.traffic is None else partial(_note_node, foundation.traffic),
        require_wallet,
    )


def _note_node(traffic: TrafficLog, body: bytes, status: int, seconds: float, failure: str) -> None:
    """Keep a request to the node in the record: its methods, and no parameters."""
    try:
        methods = gist(body, b"")
    except ValueError:  # an integer of more than 64 bits
        methods = ""
    said = " · ".join(filter(None, (methods, failure)))
    traffic.note(Exchange(BRIDGE, "POST", "node_url", "node", status, round(seconds * 1_000, 1), gist=said))


def _approvals(foundation: Foundation, fence: Fence | None) -> Approvals:
    settings = foundation.settings
    return Approvals(
        ApprovalStore(foundation.database, fence),
        foundation.signals,
        foundation.stopping,
        foundation.clock,
        foundation.ids,
        is_on=settings.approve == "queue",
        timeout_seconds=settings.approval_timeout,
        kept_ms=settings.settled_request_ttl * 1000,
    )


def _elsewhere(foundation: Foundation, wallet: AssembledWallet) -> WalletElsewhere | None:
    if wallet.role is None:
        return None
    settings = foundation.settings
    approval_seconds = settings.approval_timeout if settings.approve == "queue" else 0
    return WalletElsewhere(
        wallet.role.holder_url, settings.node_timeout + approval_seconds + _FORWARDING_SECONDS
    )


def _routes(
    foundation: Foundation, wallet: AssembledWallet, elsewhere: WalletElsewhere | None
) -> tuple[Route, ...]:
    settings, addresses = foundation.settings, foundation.addresses
    token, origins = foundation.live.token("rpc_token"), _origins(settings, wallet.accounts)
    signals, database = foundation.signals, foundation.database
    turns = SigningTurns(lambda: signals.has_waiters, lambda: database.is_busy)
    access = Access(addresses, settings.operators_hosts, origins, has_token=token is not None)
    here = WalletHandlers(wallet.method_tables, wallet.node, turns, addresses)
    role = wallet.role
    return wallet_routes(
        here if role is None or elsewhere is None else MovingWalletHandlers(here, elsewhere, role.is_here),
        settings.rpc_body_limit,
        access.check,
        token,
        origins,
        TurnedAway(addresses, foundation.clock, "rpc_refused", "rpc_token").note,
    )


def _origins(settings: Settings, accounts: Accounts) -> AllowedOrigins:
    """The origins of the settings; and every loopback origin while only published keys could be misused."""
    if not settings.publishes_keys_here_only:
        return AllowedOrigins(settings.rpc_origins)
    return AllowedOrigins(
        settings.rpc_origins,
        admits=lambda origin: is_loopback_origin(origin) and accounts.are_for_development_only(),
    )
