"""Requests that somebody must approve before anything is signed."""

import asyncio

from bridge_server.kernel.clock import Clock
from bridge_server.kernel.errors import LimitError
from bridge_server.kernel.ids import IdMaker
from bridge_server.kernel.signals import Key, Signals
from bridge_server.wallet.errors import RejectedError
from bridge_server.wallet.models import Address, Approval, ApprovalId, ApprovalState, Caller
from bridge_server.wallet.store import ApprovalStore

_SWEEP_SLICE = 500
_TRY_AGAIN_SECONDS = 10


class Approvals:
    """Holds requests until `bridge-server approvals` decides, in another process; or lets all pass.

    `is_on` says which. A request waits `timeout_seconds`, and at most `most_waiting` wait at once.
    """

    def __init__(
        self,
        store: ApprovalStore,
        signals: Signals,
        clock: Clock,
        ids: IdMaker,
        *,
        is_on: bool,
        timeout_seconds: int,
        kept_ms: int,
        most_waiting: int = 64,
    ) -> None:
        self._store = store
        self._signals = signals
        self._clock = clock
        self._ids = ids
        self.is_on = is_on
        self._timeout_seconds = timeout_seconds
        self._kept_ms = kept_ms
        self._most_waiting = most_waiting
        self._waiting: set[ApprovalId] = set()
        self._withdrawals: set[asyncio.Task[bool]] = set()

    @property
    def waiting(self) -> int:
        """How many requests wait for a decision."""
        return len(self._waiting)

    async def approved(
        self, method: str, address: Address, subject: bytes, caller: Caller
    ) -> ApprovalId | None:
        """Return once the request is approved; at once, with None, when nobody has to.

        `subject` is the JSON text of what would be signed. Raises RejectedError when it is rejected, or
        nobody decides in time; LimitError when too many wait already.
        """
        if not self.is_on:
            return None
        if len(self._waiting) >= self._most_waiting:
            raise LimitError(
                f"{self._most_waiting} requests wait to be approved, and no more may.", _TRY_AGAIN_SECONDS
            )
        now_ms = self._clock.now_ms()
        approval = Approval(
            ApprovalId(self._ids.random_uuid()),
            method,
            address,
            subject,
            caller,
            asked_at_ms=now_ms,
            expires_at_ms=now_ms + self._timeout_seconds * 1000,
        )
        self._waiting.add(approval.approval_id)
        try:
            await self._store.add(approval)
            await self._decided(approval.approval_id)
        finally:
            self._waiting.discard(approval.approval_id)
        return approval.approval_id

    def look_again(self) -> None:
        """Another process has written to the database: see whether it was a decision."""
        for approval_id in self._waiting:
            self._signals.touch(_key(approval_id))

    async def forget_waiting(self) -> None:
        """The server has just started: whoever waited before does so no longer."""
        await self._store.expire_all()

    async def withdrawn(self) -> None:
        """Wait until what was left undecided is stored as such."""
        if self._withdrawals:
            await asyncio.wait(self._withdrawals)

    async def sweep(self, now_ms: int) -> int:
        """Delete a slice of what was asked long ago; returns how many rows."""
        return await self._store.sweep(now_ms - self._kept_ms, _SWEEP_SLICE)

    async def _decided(self, approval_id: ApprovalId) -> None:
        try:
            state = await self._signals.wait_for(
                _key(approval_id), lambda: self._decision(approval_id), self._timeout_seconds
            )
        except BaseException:  # the client left: an approval must not be taken for one that counts
            self._withdraw(approval_id)
            raise
        if state is None and not await self._withdraw(approval_id):
            state = await self._decision(approval_id)  # made at the last moment
        if state is ApprovalState.REJECTED:
            raise RejectedError("The request was rejected.")
        if state is not ApprovalState.APPROVED:
            raise RejectedError(f"Nobody approved the request within {self._timeout_seconds} s.")

    async def _decision(self, approval_id: ApprovalId) -> ApprovalState | None:
        approval = await self._store.get(approval_id)
        if approval is None or approval.state is ApprovalState.PENDING:
            return None
        return approval.state

    def _withdraw(self, approval_id: ApprovalId) -> asyncio.Task[bool]:
        """Nobody waits for the decision any more; the result is False when it has been made."""
        task = asyncio.ensure_future(
            self._store.decide(approval_id, ApprovalState.EXPIRED, self._clock.now_ms())
        )
        self._withdrawals.add(task)
        task.add_done_callback(self._withdrawals.discard)
        return task


def _key(approval_id: ApprovalId) -> Key:
    return ("approval", approval_id)
