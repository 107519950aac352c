"""The wallet without its HTTP face, put together as the server does it; and one whose operator approves."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from bridge_server.assembly.command_line import CommandServices, operations
from bridge_server.assembly.foundation import lay_foundation
from bridge_server.assembly.wallet import AssembledWallet, assembled_wallet
from bridge_server.ethereum.address import hex_of
from bridge_server.ethereum.signing_key import SigningKey
from bridge_server.ethereum.transactions import LegacyTransaction, sign_transaction
from bridge_server.kernel.background import Stopping, running
from bridge_server.kernel.clock import SystemClock
from bridge_server.kit.testing.server import place_schema
from bridge_server.settings.settings import Settings
from bridge_server.wallet.approvals import ApprovalStore
from bridge_server.wallet.models import ApprovalRequest, ApprovalState, Caller, RpcCall, StoredTransaction
from tests.support.clock import ManualClock
from tests.support.engines import engine_settings
from tests.support.rpc_client import RpcClient
from tests.support.server import RunningServer, running_server
from tests.support.waiting import eventually

ZERO_HASH = "0x" + "00" * 32
ALICE = "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266"
"""The first account of the well-known development mnemonic, which has funds on anvil."""
BOB = "0x70997970c51812dc3a010c7d01b50e0d17dc79c8"

ALICES_KEY = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"

CALLER = Caller("127.0.0.1", None, "request-1")


@dataclass(frozen=True, slots=True)
class Rig:
    """The wallet, its clock and its stop."""

    wallet: AssembledWallet
    approval_store: ApprovalStore
    clock: ManualClock
    stopping: Stopping
    settings: Settings

    async def send(self, **fields: Any) -> str:
        """Send from Alice to Bob, unless the fields say something else."""
        return await self.wallet.transaction_methods.send([transaction(**fields)], CALLER)

    async def send_raw(self, raw: str) -> str:
        return await self.wallet.transaction_methods.send_raw([raw], CALLER)

    async def sign(self, **fields: Any) -> str:
        return await self.wallet.transaction_methods.sign([transaction(**fields)], CALLER)

    async def pass_on(self, method: str, *params: Any) -> Any:
        (answer,) = await self.wallet.node.forward([RpcCall(method, list(params))])
        return answer

    async def queued(self, *which: Any) -> Any:
        """The newest transaction that matches, as a client reads it."""
        return orjson.loads(orjson.dumps(await self.wallet.queued.newest(list(which), CALLER)))

    async def waiting(self, *which: Any) -> Any:
        """All transactions that match, as a client reads them."""
        return orjson.loads(orjson.dumps(await self.wallet.queued.waiting(list(which), CALLER)))

    async def until(self, state: str, *which: Any) -> Any:
        """The newest that matches, once it is in the state; `arrived` is any in which the node has it."""
        states = ("sent", "mined") if state == "arrived" else (state,)

        async def holds() -> bool:
            found = await self.queued(*which)
            return found is not None and found["state"] in states

        await eventually(holds)
        return await self.queued(*which)

    async def until_error(self, text: str, *which: Any) -> None:
        """Wait until the newest that matches is held up for this reason."""

        async def holds() -> bool:
            return text in ((await self.queued(*which))["error"] or "")

        await eventually(holds)

    async def until_attempt(self, number: int) -> StoredTransaction:
        """Wait until this attempt for the newest was in vain."""
        stored: StoredTransaction | None = None

        async def holds() -> bool:
            nonlocal stored
            stored = await self.wallet.transactions.newest()
            return stored is not None and stored.attempts >= number

        await eventually(holds)
        assert stored is not None
        assert stored.attempts == number
        return stored

    async def sweep(self) -> int:
        """Delete old rows; returns how many."""
        return sum([await sweep(self.clock.now_ms()) for sweep in self.wallet.sweeps])

    def audited(self) -> list[dict[str, Any]]:
        return [orjson.loads(line) for line in self.settings.audit_file.read_bytes().splitlines()]


def transaction(**fields: Any) -> dict[str, Any]:
    """One wei from Alice to Bob; a field that is None is left out."""
    usual = {"from": ALICE, "to": BOB, "value": "0x1"}
    spelled = {name.removesuffix("_"): value for name, value in fields.items()}
    return {name: value for name, value in (usual | spelled).items() if value is not None}


def signed_elsewhere(chain_id: int = 31_337, nonce: int = 0) -> str:
    """A transaction that Alice has signed without the wallet."""
    unsigned = LegacyTransaction(chain_id=chain_id, nonce=nonce, gas_price=10**10, gas=21_000, to=BOB)
    raw, *_ = sign_transaction(unsigned, SigningKey(bytes.fromhex(ALICES_KEY[2:])))
    return hex_of(raw)


@asynccontextmanager
async def open_rig(
    directory: Path,
    node_url: str | None,
    clock: ManualClock | None = None,
    *,
    broadcasts: bool = True,
    **settings: Any,
) -> AsyncIterator[Rig]:
    """Put it together over the files in the directory, until the block is left."""
    clock, stopping = clock or ManualClock(), Stopping(0.1)
    own = {"data_dir": directory, "dev_accounts": True, "node_url": node_url}
    chosen = Settings(**{**own, **engine_settings(directory), **settings})
    if chosen.database is None:
        place_schema(chosen.database_file)
    foundation = lay_foundation(chosen, clock)._replace(stopping=stopping)
    wallet = assembled_wallet(foundation, role=None)
    async with AsyncExitStack() as stack:
        for opened in (foundation.database.opened(), wallet.audit.opened(), wallet.node):
            await stack.enter_async_context(opened)
        if broadcasts:
            await stack.enter_async_context(running(wallet.worker.run_forever()))
        try:
            yield Rig(wallet, ApprovalStore(foundation.database), clock, stopping, chosen)
        finally:
            stopping.close()
            foundation.signals.close()


# The person who approves, on a connection of its own as the commands are, and the waiting clients.


@dataclass(frozen=True, slots=True)
class Desk:
    """A wallet that asks before it signs, a client of it, and its approvals."""

    server: RunningServer
    rpc: RpcClient
    opened: CommandServices

    def asks(self, method: str, *params: Any) -> "asyncio.Task[Any]":
        """A client that waits for its answer."""
        return asyncio.create_task(self.rpc.call(method, *params))

    async def pending(self, count: int = 1) -> list[ApprovalRequest]:
        """The requests that wait, once they are so many."""
        found: list[ApprovalRequest] = []

        async def enough() -> bool:
            found[:] = await self.opened.approvals.pending(self.server.clock.now_ms())
            return len(found) == count

        await eventually(enough)
        return found

    async def decide(self, approval: ApprovalRequest, state: ApprovalState) -> bool:
        """Decide; whether that counts."""
        return await self.opened.approvals.decide(approval.approval_id, state, self.server.clock.now_ms())

    async def decide_next(self, state: ApprovalState) -> ApprovalRequest:
        """Decide the only request that waits, once there is one."""
        [approval] = await self.pending()
        assert await self.decide(approval, state)
        return approval

    async def state(self, approval: ApprovalRequest) -> ApprovalState | None:
        """The state of a request; None when it was deleted."""
        found = await self.opened.approvals.get(approval.approval_id)
        return None if found is None else found.state

    async def until(self, approval: ApprovalRequest, state: ApprovalState | None) -> None:
        """Wait until that has become of it."""

        async def holds() -> bool:
            return await self.state(approval) is state

        await eventually(holds)

    @property
    def audit_log(self) -> bytes:
        return self.server.settings.audit_file.read_bytes()


@asynccontextmanager
async def open_desk(data_dir: Path, **settings: Any) -> AsyncIterator[Desk]:
    """A desk over the directory, until the block is left. Its clock stands still at the present, which is
    the time of commands too.
    """
    chosen = {"dev_accounts": True, "light_kdf": True, "approve": "queue", **settings}
    clock = ManualClock(SystemClock().now_ms())
    async with running_server(data_dir, clock, **chosen) as server, operations(server.settings) as opened:
        yield Desk(server, RpcClient(server), opened)
