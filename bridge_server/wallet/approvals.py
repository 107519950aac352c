"""Requests that a person must approve before anything is signed."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple, TypeAlias

import structlog

from bridge_server.kernel import background, events, secrets
from bridge_server.kernel.clock import Clock
from bridge_server.kernel.errors import BridgeError, LimitError, UnavailableError
from bridge_server.kernel.signals import Key, Signals, Touched
from bridge_server.kernel.values import dataclass
from bridge_server.storage import database as sql
from bridge_server.wallet import models
from bridge_server.wallet.models import Address, ApprovalId, ApprovalRequest, ApprovalState, Caller

MOST_WAITING = 64
"""The most requests that wait for a decision at once."""

_SWEEP_SLICE = 500
_TRY_AGAIN_SECONDS = 10

log = structlog.get_logger()

_COLUMNS = """
approval_id, method, address, subject, caller, origin, request_id, asked_at_ms, expires_at_ms, state
"""
_INSERT = f"INSERT INTO wallet_approvals ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608
_STORED = f"{_COLUMNS}, decided_at_ms"
_GET = f"SELECT {_STORED} FROM wallet_approvals WHERE approval_id = ?"  # noqa: S608
_NAMED = f"""
SELECT {_STORED} FROM wallet_approvals
WHERE approval_id >= ? AND approval_id < ? ORDER BY approval_id LIMIT 2
"""  # noqa: S608
_PENDING = f"""
SELECT {_STORED} FROM wallet_approvals WHERE state = 'pending' AND expires_at_ms > ? ORDER BY id
"""  # noqa: S608
# The data to sign may be large, and a list is long.
_LISTED = _STORED.replace("subject", "'' AS subject")
_WAITING_PAGE = f"""
SELECT id, {_LISTED} FROM wallet_approvals
WHERE state = 'pending' AND expires_at_ms > ? AND id < ? ORDER BY id DESC LIMIT ?
"""  # noqa: S608
_SETTLED_PAGE = f"""
SELECT id, {_LISTED} FROM wallet_approvals
WHERE id < ? AND NOT (state = 'pending' AND expires_at_ms > ?) ORDER BY id DESC LIMIT ?
"""  # noqa: S608
_DECIDE = """
UPDATE wallet_approvals SET state = ?, decided_at_ms = ?
WHERE approval_id = ? AND state = 'pending' AND expires_at_ms > ?
"""
_EXPIRE = """
UPDATE wallet_approvals SET state = 'expired', decided_at_ms = ? WHERE approval_id = ? AND state = 'pending'
"""
_EXPIRE_ALL = "UPDATE wallet_approvals SET state = 'expired', decided_at_ms = ? WHERE state = 'pending'"
SWEEP = """
DELETE FROM wallet_approvals WHERE id IN
    (SELECT id FROM wallet_approvals WHERE asked_at_ms <= ? ORDER BY asked_at_ms LIMIT ?)
"""

# Sorts after every character of an id.
_AFTER_ALL = "~"


Fence: TypeAlias = Callable[[], sql.Transaction[None]]
"""Statements that keep the wallet for this process until the commit, or raise UnavailableError."""
_Page: TypeAlias = Sequence[tuple[int, ApprovalRequest]]


@dataclass(frozen=True, slots=True)
class ApprovalsChanged(events.DomainEvent):
    """A request waits for a decision, or waits no more."""


class ApprovalStore:
    """Requests that wait for a decision. A command in another process decides."""

    def __init__(self, database: sql.Database, fence: Fence | None = None) -> None:
        """A request is added behind the `fence` of the process that has the wallet."""
        self.database = database
        self._fence = fence

    @sql.adding_transaction
    def add(self, approval: ApprovalRequest) -> sql.Transaction[None]:
        """Store a pending request."""
        if self._fence is not None:
            yield from self._fence()
        row = (*approval[:4], *approval.caller, *approval[5:8])  # as _COLUMNS has them
        yield sql.Statement(_INSERT, row)
        yield ApprovalsChanged()

    async def get(self, approval_id: ApprovalId) -> ApprovalRequest | None:
        """One request."""
        rows = await self.database.read(_GET, (approval_id,))
        return _approval(rows[0]) if rows else None

    async def named(self, beginning: str) -> Sequence[ApprovalRequest]:
        """At most two requests whose ids begin with this, in any state."""
        rows = await self.database.read(_NAMED, (beginning, beginning + _AFTER_ALL))
        return [_approval(row) for row in rows]

    async def pending(self, now_ms: int) -> Sequence[ApprovalRequest]:
        """Pending requests whose time is not over, oldest first."""
        return [_approval(row) for row in await self.database.read(_PENDING, (now_ms,))]

    async def waiting_page(self, now_ms: int, before: int, limit: int) -> _Page:
        """Pending requests with smaller numbers, newest first, with their numbers but without subjects."""
        rows = await self.database.read(_WAITING_PAGE, (now_ms, before, limit))
        return [(row[0], _approval(row[1:])) for row in rows]

    async def settled_page(self, now_ms: int, before: int, limit: int) -> _Page:
        """Settled requests with smaller numbers, newest first, with their numbers but without subjects."""
        rows = await self.database.read(_SETTLED_PAGE, (before, now_ms, limit))
        return [(row[0], _approval(row[1:])) for row in rows]

    @sql.transaction
    def decide(self, approval_id: ApprovalId, state: ApprovalState, now_ms: int) -> sql.Transaction[bool]:
        """Settle a request; False if it waits no more. Publishes `Touched`, for the client in any process."""
        if state is ApprovalState.EXPIRED:
            ((decided,),) = yield sql.Statement(_EXPIRE, (now_ms, approval_id))
        else:
            ((decided,),) = yield sql.Statement(_DECIDE, (state, now_ms, approval_id, now_ms))
        if decided:
            yield ApprovalsChanged()
            yield Touched(("approval", approval_id))
        return bool(decided)

    @sql.transaction
    def expire_all(self, now_ms: int) -> sql.Transaction[int]:
        """Expire all pending requests: a server that starts has no waiting clients. Returns how many."""
        return sql.scalar(int, (yield sql.Statement(_EXPIRE_ALL, (now_ms,))))

    @sql.transaction(turns=sql.sweeping("approvals"))
    def sweep(self, before_ms: int, limit: int) -> sql.Transaction[int]:
        """Delete requests made up to then; returns how many."""
        return sql.scalar(int, (yield sql.Statement(SWEEP, (before_ms, limit))))


def _approval(row: sql.Row) -> ApprovalRequest:
    approval_id, method, address, subject, *caller, asked_at_ms, expires_at_ms, state, decided_at_ms = row
    return ApprovalRequest(
        approval_id, method, address, subject or b"", Caller(*caller), asked_at_ms, expires_at_ms,
        ApprovalState(state), decided_at_ms,
    )  # fmt: skip


def not_shown(_: ApprovalRequest) -> AbstractContextManager[None]:
    """Show nothing: no record of requests is kept."""
    return nullcontext()


class ApprovalRules(NamedTuple):
    """Whether signatures are approved by a person, how long a request waits, and how long it is kept."""

    is_on: bool
    timeout_seconds: int
    kept_ms: int
    shown: Callable[[ApprovalRequest], AbstractContextManager[None]] = not_shown
    """Shows a request to an operator while it waits, and then its outcome."""


class Approvals:
    """Holds requests until `bridge-server approvals` decides, MOST_WAITING at most; or lets all pass."""

    def __init__(
        self,
        store: ApprovalStore,
        signals: Signals,
        stopping: background.Stopping,
        clock: Clock,
        ids: secrets.IdMaker,
        rules: ApprovalRules,
    ) -> None:
        self._store = store
        self._signals = signals
        self._stopping = stopping
        self._clock = clock
        self._ids = ids
        self.is_on = rules.is_on
        self._rules = rules
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
        if len(self._waiting) >= MOST_WAITING:
            raise LimitError(
                f"{MOST_WAITING} requests wait to be approved: try again when some are decided.",
                _TRY_AGAIN_SECONDS,
            )
        approval_id, now_ms = ApprovalId(self._ids.random_uuid()), self._clock.now_ms()
        until_ms = now_ms + self._rules.timeout_seconds * 1000
        approval = ApprovalRequest(approval_id, method, address, subject, caller, now_ms, until_ms)
        with self._rules.shown(approval):
            self._waiting.add(approval_id)
            self._some_wait.set()
            try:
                state = await self._state_in_time(approval)
                if state is ApprovalState.REJECTED:
                    raise models.SignatureRejectedError("The request was rejected.")
                if state is not ApprovalState.APPROVED:
                    raise self._not_decided()
            finally:
                self._waiting.discard(approval_id)
                if not self._waiting:
                    self._some_wait.clear()
        return approval_id

    async def some_wait(self) -> None:
        """Return as soon as a request waits for a decision."""
        await self._some_wait.wait()

    def read_again(self) -> None:
        """Read decisions: another process has written to the database."""
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
        longest_wait_ms = self._rules.timeout_seconds * 1000
        return await self._store.sweep(now_ms - longest_wait_ms - self._rules.kept_ms, _SWEEP_SLICE)

    async def _state_in_time(self, approval: ApprovalRequest) -> ApprovalState | None:
        """The decision; None when the time is over, after which it cannot be decided."""
        approval_id = approval.approval_id
        try:
            await self._store.add(approval)
            log.info("approval_waits", approval=approval_id, method=approval.method, account=approval.address)
            state = await self._signals.wait_for(
                _key(approval_id), lambda: self._decision(approval_id), self._rules.timeout_seconds
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
        state = None if approval is None else approval.state_at(self._clock.now_ms())
        return None if state is ApprovalState.PENDING else state

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
        return models.UndecidedError(f"Nobody approved the request within {self._rules.timeout_seconds} s.")


def _key(approval_id: ApprovalId) -> Key:
    return ("approval", approval_id)
