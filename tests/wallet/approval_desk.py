"""The person who approves, on a connection of its own as the commands are, and the waiting clients."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bridge_server.assembly.command_line import OperatorServices, operations
from bridge_server.kernel.clock import SystemClock
from bridge_server.wallet.models import ApprovalRequest, ApprovalState
from tests.support.clock import ManualClock
from tests.support.rpc_client import RpcClient
from tests.support.server import RunningServer, running_server
from tests.support.waiting import eventually


@dataclass(frozen=True, slots=True)
class Desk:
    """A wallet that asks before it signs, a client of it, and its approvals."""

    server: RunningServer
    rpc: RpcClient
    opened: OperatorServices

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
        """The result of the signature."""
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
