"""Requests that a person must approve before anything is signed."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from bridge_server.kernel.clock import Clock
from bridge_server.kernel.errors import BridgeError, LimitError, UnavailableError
from bridge_server.kernel.ids import IdMaker
from bridge_server.kernel.signals import Key, Signals
from bridge_server.kernel.stopping import Stopping
from bridge_server.wallet.approval_store import ApprovalStore
from bridge_server.wallet.errors import SignatureRejectedError, UndecidedError
from bridge_server.wallet.models import Address, ApprovalId, ApprovalRequest, ApprovalState, Caller

MOST_WAITING = 64
"""The most requests that wait for a decision at once."""

_SWEEP_SLICE = 500
_TRY_AGAIN_SECONDS = 10

log = structlog.get_logger()


class Approvals:
    """Holds requests until `bridge-server approvals` decides, in another process; or lets all pass.

    `is_on` tells the two apart. A request waits `timeout_seconds`, and at most `most_waiting` wait at once.
    """

    def __init__(
        self,
        store: ApprovalStore,
        signals: Signals,
        stopping: Stopping,
        clock: Clock,
        ids: IdMaker,
        *,
        is_on: bool,
        timeout_seconds: int,
        kept_ms: int,
        most_waiting: int = MOST_WAITING,
    ) -> None:
        self._store = store
        self._signals = signals
        self._stopping = stopping
        self._clock = clock
        self._ids = ids
        self.is_on = is_on
        self._timeout_seconds = timeout_seconds
        self._kept_ms = kept_ms
        self._most_waiting = most_waiting
        self._waiting: set[ApprovalId] = set()
        self._some_wait = asyncio.Event()
        self._withdrawals: set[asyncio.Task[None]] = set()

    @property
    def waiting(self) -> int:
        """The number of requests that wait for a decision."""
        return len(self._waiting)

    async def approved(
        self, method: str, address: Address, subject: bytes, caller: Caller
    ) -> ApprovalId | None:
        """Return once the request is approved; at once, with None, when approval is off.

        `subject` is the JSON text of the data to sign. Raises SignatureRejectedError when it is rejected;
        UndecidedError without a decision in time; UnavailableError when the server stops before; LimitError
        when too many requests wait already.
        """
        if not self.is_on:
            return None
        if self._stopping.has_begun:
            raise self._not_decided()
        if len(self._waiting) >= self._most_waiting:
            raise LimitError(
                f"{self._most_waiting} requests wait to be approved: try again when some are decided.",
                _TRY_AGAIN_SECONDS,
            )
        approval = self._asked(method, address, subject, caller)
        with self._wait_of(approval.approval_id):
            state = await self._state_in_time(approval)
        if state is ApprovalState.REJECTED:
            raise SignatureRejectedError("The request was rejected.")
        if state is not ApprovalState.APPROVED:
            raise self._not_decided()
        return approval.approval_id

    async def some_wait(self) -> None:
        """Return as soon as a request waits for a decision."""
        await self._some_wait.wait()

    def look_again(self) -> None:
        """Look for decisions: another process has written to the database."""
        for approval_id in self._waiting:
            self._signals.touch(_key(approval_id))

    async def decide(self, approval_id: ApprovalId, decision: ApprovalState) -> bool:
        """Approve or reject a request, whose client is answered at once; False when it waits no more."""
        is_decided = await self._store.decide(approval_id, decision, self._clock.now_ms())
        if is_decided:
            log.info("approval_decided", approval=approval_id, decision=decision)
        self._signals.touch(_key(approval_id))
        return is_decided

    async def forget_waiting(self) -> None:
        """Expire the requests of a former run of the server: their clients are gone."""
        await self._store.expire_all(self._clock.now_ms())

    async def withdrawn(self) -> None:
        """Wait until the requests that were given up are stored as expired."""
        if self._withdrawals:
            await asyncio.wait(self._withdrawals)

    async def sweep(self, now_ms: int) -> int:
        """Delete a slice of old requests; returns how many rows."""
        longest_wait_ms = self._timeout_seconds * 1000
        return await self._store.sweep(now_ms - longest_wait_ms - self._kept_ms, _SWEEP_SLICE)

    def _asked(self, method: str, address: Address, subject: bytes, caller: Caller) -> ApprovalRequest:
        now_ms = self._clock.now_ms()
        return ApprovalRequest(
            ApprovalId(self._ids.random_uuid()),
            method,
            address,
            subject,
            caller,
            asked_at_ms=now_ms,
            expires_at_ms=now_ms + self._timeout_seconds * 1000,
        )

    @contextmanager
    def _wait_of(self, approval_id: ApprovalId) -> Iterator[None]:
        self._waiting.add(approval_id)
        self._some_wait.set()
        try:
            yield
        finally:
            self._waiting.discard(approval_id)
            if not self._waiting:
                self._some_wait.clear()

    async def _state_in_time(self, approval: ApprovalRequest) -> ApprovalState | None:
        """The decision; None when the time is over, after which it cannot be decided."""
        approval_id = approval.approval_id
        try:
            await self._store.add(approval)
            log.info("approval_waits", approval=approval_id, method=approval.method, account=approval.address)
            state = await self._signals.wait_for(
                _key(approval_id), lambda: self._decision(approval_id), self._timeout_seconds
            )
        except BaseException:  # such as a client that left: no one would receive the signature
            self._withdraw(approval_id)
            raise
        if state not in (None, ApprovalState.EXPIRED):
            return state
        await asyncio.shield(self._withdraw(approval_id))
        return await self._decision(approval_id)  # it may have been made at the last moment

    async def _decision(self, approval_id: ApprovalId) -> ApprovalState | None:
        approval = await self._store.get(approval_id)
        if approval is None:
            return None
        if approval.state is ApprovalState.PENDING:
            return ApprovalState.EXPIRED if approval.expires_at_ms <= self._clock.now_ms() else None
        return approval.state

    def _withdraw(self, approval_id: ApprovalId) -> asyncio.Task[None]:
        """Expire a request whose client does not wait any more."""
        task = asyncio.create_task(self._expire(approval_id))
        self._withdrawals.add(task)
        task.add_done_callback(self._withdrawals.discard)
        return task

    async def _expire(self, approval_id: ApprovalId) -> None:
        try:
            await self._store.decide(approval_id, ApprovalState.EXPIRED, self._clock.now_ms())
        except UnavailableError as error:  # it can be decided, with no effect, until its time is over
            log.warning("approval_not_withdrawn", approval=approval_id, reason=error.detail)

    def _not_decided(self) -> BridgeError:
        if self._stopping.has_begun:
            return UnavailableError("Nothing was signed: the server stops, and nobody has approved it yet.")
        return UndecidedError(f"Nobody approved the request within {self._timeout_seconds} s.")


def _key(approval_id: ApprovalId) -> Key:
    return ("approval", approval_id)
