"""The part of the wallet that sends, over a real database file, as the server puts it together."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from bridge_server.kernel.background import running
from bridge_server.kernel.ids import IdMaker
from bridge_server.kernel.signals import Signals
from bridge_server.kernel.stopping import Stopping
from bridge_server.kernel.turns import Turns
from bridge_server.settings import Settings
from bridge_server.storage.approval_store import SqlApprovalStore
from bridge_server.storage.audit_file import AuditFile
from bridge_server.storage.keystore_files import KeystoreDirectory
from bridge_server.storage.migrate import migrate, packaged_migrations
from bridge_server.storage.sqlite import SqliteDatabase
from bridge_server.storage.wallet_store import SqlTransactionStore
from bridge_server.wallet.accounts import Accounts
from bridge_server.wallet.approvals import Approvals
from bridge_server.wallet.broadcasting import Broadcaster
from bridge_server.wallet.confirming import Confirming
from bridge_server.wallet.models import Caller
from bridge_server.wallet.node import Node
from bridge_server.wallet.offering import Offering
from bridge_server.wallet.queued import QueuedTransactions
from bridge_server.wallet.sending import Sending
from bridge_server.wallet_accounts import wallet_accounts
from tests.support.clock import ManualClock
from tests.support.eventually import eventually

ZERO_HASH = "0x" + "00" * 32
ALICE = "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266"
"""The first account of the well-known development mnemonic, which has funds on anvil."""
BOB = "0x70997970c51812dc3a010c7d01b50e0d17dc79c8"

CALLER = Caller("127.0.0.1", None, "request-1")


@dataclass(frozen=True, slots=True)
class Rig:
    """What sends, and what a test moves."""

    sending: Sending
    queue: QueuedTransactions
    broadcaster: Broadcaster
    approvals: Approvals
    approval_store: SqlApprovalStore
    accounts: Accounts
    node: Node
    store: SqlTransactionStore
    database: SqliteDatabase
    clock: ManualClock
    stopping: Stopping
    audit_path: Path

    async def send(self, **fields: Any) -> str:
        """Send from Alice to Bob, unless the fields say something else."""
        return await self.sending.send([transaction(**fields)], CALLER)

    async def send_raw(self, raw: str) -> str:
        """Send what is signed."""
        return await self.sending.send_raw([raw], CALLER)

    async def sign(self, **fields: Any) -> str:
        """Sign only; the fields as above."""
        return await self.sending.sign([transaction(**fields)], CALLER)

    async def queued(self, *which: Any) -> Any:
        """What became of the newest that matches, as a client reads it."""
        return orjson.loads(orjson.dumps(await self.queue.newest(list(which), CALLER)))

    async def waiting(self, *account: str) -> Any:
        """What the node does not have yet."""
        return orjson.loads(orjson.dumps(await self.queue.waiting(list(account), CALLER)))

    async def until(self, state: str, *which: Any) -> Any:
        """Wait until the newest that matches is in the state; returns it."""

        async def holds() -> bool:
            found = await self.queued(*which)
            return found is not None and found["state"] == state

        await eventually(holds)
        return await self.queued(*which)

    def audited(self) -> list[dict[str, Any]]:
        """The lines of the audit log."""
        return [orjson.loads(line) for line in self.audit_path.read_bytes().splitlines()]


def transaction(**fields: Any) -> dict[str, Any]:
    """One wei from Alice to Bob; a field that is None is left out."""
    usual = {"from": ALICE, "to": BOB, "value": "0x1"}
    spelled = {name.removesuffix("_"): value for name, value in fields.items()}
    return {name: value for name, value in (usual | spelled).items() if value is not None}


@asynccontextmanager
async def open_rig(
    directory: Path,
    node_url: str | None,
    clock: ManualClock | None = None,
    *,
    chain_id: int | None = None,
    timeout_seconds: float = 5.0,
    approves: bool = False,
    broadcasts: bool = True,
    **settings: Any,
) -> AsyncIterator[Rig]:
    """Put it together over the files in the directory, until the block is left."""
    clock, ids, signals, stopping = clock or ManualClock(), IdMaker(), Signals(), Stopping(0.1)
    database = SqliteDatabase(directory / "bridge.sqlite3", signals)
    migrate(database.path, packaged_migrations())
    store, approval_store = SqlTransactionStore(database), SqlApprovalStore(database)
    approvals = Approvals(
        approval_store, signals, clock, ids, is_on=approves, timeout_seconds=60, kept_ms=1_000
    )
    audit = AuditFile(directory / "audit.log")
    chosen = Settings(**{"data_dir": directory, "dev_accounts": True, **settings})
    accounts = wallet_accounts(chosen, KeystoreDirectory(chosen.keystore, clock), clock, ids)
    node = Node(node_url, timeout_seconds, "tests", stopping, chain_id)
    offering, turns = Offering(store, node, clock), Turns()
    sending = Sending(accounts, approvals, audit, store, node, offering, turns, clock, ids)
    confirming = Confirming(store, node, clock)
    broadcaster = Broadcaster(store, sending, offering, confirming, node, turns, signals, stopping, clock)
    rig = Rig(
        sending,
        QueuedTransactions(store, 1_000),
        broadcaster,
        approvals,
        approval_store,
        accounts,
        node,
        store,
        database,
        clock,
        stopping,
        directory / "audit.log",
    )
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(database.opened())
        await stack.enter_async_context(audit.opened())
        await stack.enter_async_context(node)
        if broadcasts:
            await stack.enter_async_context(running(broadcaster.run_forever()))
        try:
            yield rig
        finally:
            stopping.close()
            signals.close()
