"""The wallet's JSON-RPC endpoint, its accounts, approvals and transactions."""

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from time import perf_counter
from typing import NamedTuple

from aiohttp import web

from bridge_server.assembly.foundation import Foundation, node_failure
from bridge_server.assembly.room import OwnUrl, Room, WalletRole
from bridge_server.ethereum.address import checksummed
from bridge_server.ethereum.keystore import LIGHT_COST, STANDARD_COST
from bridge_server.ethereum.signing_key import SigningKey
from bridge_server.kernel.background import running
from bridge_server.kernel.clock import Clock
from bridge_server.kernel.errors import BridgeError
from bridge_server.kernel.secrets import IdMaker
from bridge_server.kernel.sweeper import Sweep
from bridge_server.outbox.channels import BRIDGE
from bridge_server.settings.settings import Settings
from bridge_server.settings.types import secret_of, text_of
from bridge_server.wallet.accounts import Accounts, Derivations, development_keys, read_private_keys
from bridge_server.wallet.approvals import ApprovalRules, Approvals, ApprovalStore, Fence, not_shown
from bridge_server.wallet.keystore_files import KeystoreFiles
from bridge_server.wallet.models import AccountSource, ApprovalRequest, NoNodeError
from bridge_server.wallet.node.connections import NodeWatch
from bridge_server.wallet.node.node import Node
from bridge_server.wallet.rpc import methods, routes
from bridge_server.wallet.signing import AuditLog, Signing, TypedDataScheme
from bridge_server.wallet.transactions.broadcasting import Broadcasting
from bridge_server.wallet.transactions.service import TransactionService, TransactionWorker
from bridge_server.wallet.transactions.store import TransactionStore
from bridge_server.web.json_rpc import summary
from bridge_server.web.problems import status_of
from bridge_server.web.request_log import TurnedAway
from bridge_server.web.routes import Access, AllowedOrigins, Handler, Route, is_loopback_origin
from bridge_server.web.traffic import APPROVAL, CLIENT_LEFT, Exchange, TrafficLog


def wallet_accounts(settings: Settings, files: KeystoreFiles, clock: Clock, ids: IdMaker) -> Accounts:
    """Put the accounts together. Nothing is read of the key files yet."""
    lasting = {
        AccountSource.DEVELOPMENT: keys_for_development(settings),
        AccountSource.RAW_KEY: keys_in_settings(settings),
    }
    derivations = Derivations(LIGHT_COST if settings.light_kdf else STANDARD_COST)
    return Accounts(lasting, files, derivations, clock, ids, os.urandom)


def keys_for_development(settings: Settings) -> list[SigningKey]:
    """The keys of the development accounts; none when they are off. Raises ValueError."""
    if not settings.dev_accounts:
        return []
    return development_keys(settings.dev_mnemonic.get_secret_value(), settings.dev_account_count)


def keys_in_settings(settings: Settings) -> list[SigningKey]:
    """The keys of `private_keys` and `private_keys_file`. Raises ValueError."""
    texts = (secret_of(settings.private_keys) or "", text_of(settings.private_keys_file))
    return [key for text in texts for key in read_private_keys(text)]


_APPROVED = 200
_FORWARDING_SECONDS = 60
"""The longest time of a forwarded call beside the waits for the node and for a person."""


class AssembledWallet(NamedTuple):
    """The wallet without its endpoint."""

    accounts: Accounts
    approvals: Approvals
    audit: AuditLog
    node: Node
    transactions: TransactionStore
    worker: TransactionWorker
    transaction_methods: methods.TransactionMethods
    queued: methods.QueuedTransactions
    method_tables: tuple[methods.MethodTable, ...]
    sweeps: tuple[Sweep, ...]
    role: WalletRole | None
    """The wallet's role among several processes; None where there is one process."""


def assembled_wallet(foundation: Foundation, role: WalletRole | None) -> AssembledWallet:
    """Put the wallet's services together; with a `role`, several processes share the database."""
    settings, clock = foundation.settings, foundation.clock
    accounts = wallet_accounts(settings, KeystoreFiles(settings.keystore, clock), clock, foundation.ids)
    fence = None if role is None else role.fence
    approvals, audit = _approvals(foundation, fence), AuditLog(settings.audit_file)
    node = _node(foundation, role)
    signing = Signing(accounts, approvals, audit, clock, TypedDataScheme(settings.typed_data_scheme))
    store, kept_ms = TransactionStore(foundation.database, fence), settings.settled_request_ttl * 1000
    broadcasting = Broadcasting(store, node, foundation.stopping, clock)
    service = TransactionService(store, node, signing, broadcasting, clock, kept_ms)
    worker = TransactionWorker(store, service, broadcasting, node, foundation.events, clock)
    accounts.on_unlocked(worker.wake)
    is_for_any_chain = settings.typed_data_chain == "any"
    signing_methods = methods.WalletMethods(accounts, signing, node, signs_for_any_chain=is_for_any_chain)
    transaction_methods = methods.TransactionMethods(service, clock, foundation.ids)
    queued = methods.QueuedTransactions(store)
    tables = (*signing_methods.tables, transaction_methods.table, queued.table, routes.DISCOVERY)
    sweeps = (accounts.sweep, approvals.sweep, service.sweep)
    return AssembledWallet(
        accounts, approvals, audit, node, store, worker, transaction_methods, queued, tables, sweeps, role
    )


def wallet_room(foundation: Foundation, wallet: AssembledWallet) -> Room:
    """The wallet: it signs, and its transactions go to the node."""
    settings, role, elsewhere = foundation.settings, wallet.role, None
    if role is not None:
        approval_seconds = settings.approval_timeout if settings.approve == "queue" else 0
        patience = settings.node_timeout + approval_seconds + _FORWARDING_SECONDS
        elsewhere = routes.WalletElsewhere(role.holder_url, patience)

    async def catch_up() -> None:
        if role is None or role.is_served:
            await wallet.worker.catch_up()

    @asynccontextmanager
    async def emptied() -> AsyncIterator[None]:
        """Key files stay, locked."""
        await wallet.approvals.withdrawn()
        await wallet.worker.forget()
        yield
        wallet.accounts.lock_all()

    descriptions = routes.description_routes(foundation.every_request)
    return Room(
        name="wallet",
        routes=(*_routes(foundation, wallet, elsewhere), *descriptions),
        running=(partial(_running, wallet, elsewhere, foundation.own_url),),
        emptied=(emptied,),
        catch_up=catch_up,
        sweeps=wallet.sweeps,
        gauges=lambda: {"wallet_approvals_waiting": wallet.approvals.waiting},
    )


@asynccontextmanager
async def _running(
    wallet: AssembledWallet, elsewhere: routes.WalletElsewhere | None, own_url: OwnUrl
) -> AsyncIterator[None]:
    """Sign and send inside: always, or whenever this process has the wallet's role."""
    role = wallet.role
    if role is None or elsewhere is None:
        async with _signing(wallet):
            yield
        return

    async def announce() -> None:
        role.announce(await own_url.known())

    serving = partial(_signing_here, wallet)
    async with elsewhere.opened(), running(role.serve_forever(serving)), running(announce()):
        await role.known()
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


def _node(foundation: Foundation, role: WalletRole | None) -> Node:
    settings, instruments = foundation.settings, foundation.instruments

    def require_wallet() -> None:
        if role is not None and not role.is_held:
            raise NoNodeError("Another process may have taken over the wallet: that one asks the node.")

    watch = NodeWatch(
        failure_of=None if instruments is None else partial(node_failure, instruments),
        witness=None if foundation.traffic is None else partial(_note_node, foundation.traffic),
    )
    return Node(
        secret_of(settings.node_url), settings.node_timeout, foundation.stopping, settings.known_chain_id,
        watch, None if role is None else require_wallet,
    )  # fmt: skip


def _note_node(traffic: TrafficLog, body: bytes, status: int, seconds: float, failure: str) -> None:
    """Keep a request to the node in the record: its methods, and no parameters."""
    try:
        called = summary(body, b"")
    except ValueError:  # an integer of more than 64 bits
        called = ""
    said = " · ".join(filter(None, (called, failure)))
    milliseconds = round(seconds * 1_000, 1)
    traffic.note(Exchange(BRIDGE, "POST", "node_url", "node", status, milliseconds, summary=said))


@contextmanager
def _shown_waiting(traffic: TrafficLog, approval: ApprovalRequest) -> Iterator[None]:
    """Show in the record that a request waits for a person, and then its outcome."""
    address, who = checksummed(approval.address), "rpc" if approval.caller.origin is None else "page"
    about = f"{approval.method} of {address[:6]}…{address[-4:]}"
    began = perf_counter()

    def exchange(status: int, said: str) -> Exchange:
        seconds = perf_counter() - began
        return Exchange(
            who, APPROVAL, approval.approval_id, APPROVAL, status, round(seconds * 1_000, 1),
            waited_seconds=round(seconds, 3) if status else 0.0, summary=f"{about}: {said}",
        )  # fmt: skip

    recorded = traffic.begin_approval(exchange(0, "waits for approval"))
    status, said = CLIENT_LEFT, "the client left"
    try:
        yield
        status, said = _APPROVED, "approved"
    except BridgeError as error:
        status, said = status_of(error), error.detail
        raise
    finally:
        traffic.finish(recorded, exchange(status, said))


def _approvals(foundation: Foundation, fence: Fence | None) -> Approvals:
    settings, traffic = foundation.settings, foundation.traffic
    rules = ApprovalRules(
        is_on=settings.approve == "queue",
        timeout_seconds=settings.approval_timeout,
        kept_ms=settings.settled_request_ttl * 1000,
        shown=not_shown if traffic is None else partial(_shown_waiting, traffic),
    )
    return Approvals(
        ApprovalStore(foundation.database, fence), foundation.signals, foundation.stopping,
        foundation.clock, foundation.ids, rules,
    )  # fmt: skip


def _routes(
    foundation: Foundation, wallet: AssembledWallet, elsewhere: routes.WalletElsewhere | None
) -> tuple[Route, ...]:
    settings, addresses = foundation.settings, foundation.addresses
    token, origins = foundation.live.token("rpc_token"), AllowedOrigins(settings.rpc_origins)
    if settings.publishes_keys_here_only:  # every loopback origin while only published keys could be misused
        origins = AllowedOrigins(
            settings.rpc_origins,
            admits=lambda origin: is_loopback_origin(origin) and wallet.accounts.are_for_development_only(),
        )
    signals, database = foundation.signals, foundation.database
    turns = routes.SigningTurns(lambda: signals.has_waiters, lambda: database.is_busy)
    guard = routes.WalletGuard(addresses, settings.operators_hosts, origins, has_token=token is not None)

    def relay_url(request: web.Request) -> str:
        """The address of the relay for clients of generation 2.x: by default the request's."""
        own = settings.public_url
        return f"ws://{request.host}" if own is None else f"ws{own.rstrip('/').removeprefix('http')}"

    here = routes.WalletHandlers(wallet.method_tables, wallet.node, turns, addresses, relay_url)
    role = wallet.role
    turned_away = TurnedAway(addresses, foundation.clock, "rpc_refused", "rpc_token")
    access = Access(guard=guard.check, bearer=token, origins=origins, on_refusal=turned_away.note)
    rpc: Handler = here.rpc
    if role is not None and elsewhere is not None:
        rpc = routes.moving_rpc(here, elsewhere, lambda: role.is_served)
    return routes.wallet_routes(rpc, access, settings.rpc_body_limit)
