"""Sees to it that what was asked for reaches the node, and is there until it is on the chain."""

import asyncio
from collections.abc import Sequence

import structlog

from bridge_server.kernel.clock import Clock
from bridge_server.kernel.errors import BridgeError, InvalidInputError, UnavailableError
from bridge_server.kernel.signals import Key, Signals
from bridge_server.kernel.stopping import Stopping
from bridge_server.kernel.turns import Turns
from bridge_server.wallet.confirming import Confirming
from bridge_server.wallet.errors import (
    NoNodeError,
    RejectedError,
    TransactionRefusedError,
    WrongChainError,
)
from bridge_server.wallet.models import StoredTransaction, TransactionId, TransactionState
from bridge_server.wallet.node import Node
from bridge_server.wallet.offering import Offering, OtherChainError
from bridge_server.wallet.sending import Sending
from bridge_server.wallet.store import TransactionStore

_TICK_SECONDS = 1.0
_CHECK_EVERY_MS = 60_000
_LOOK_AGAIN_MS = 60_000
_SLICE = 1_000
_NEVER_MS = 2**62

log = structlog.get_logger()


class Broadcaster:
    """Sends what is owed when it is due, and checks once a minute what became of it.

    Whenever a connection leads to the node again, both are done at once. Nothing that it does is lost when it
    is cancelled: every step is stored before the next.
    """

    def __init__(
        self,
        store: TransactionStore,
        sending: Sending,
        offering: Offering,
        confirming: Confirming,
        node: Node,
        turns: Turns,
        signals: Signals,
        stopping: Stopping,
        clock: Clock,
    ) -> None:
        self._store = store
        self._sending = sending
        self._offering = offering
        self._confirming = confirming
        self._node = node
        self._turns = turns
        self._stopping = stopping
        self._clock = clock
        self._due_at_ms = 0
        self._check_at_ms = 0
        self._is_woken = False
        self._has_failed = False
        self._waiting: dict[TransactionId, asyncio.Task[None]] = {}
        signals.listen(self._on_touch)
        node.on_connected(self.wake)

    def wake(self) -> None:
        """Try everything that is owed within a second, whether it is due or not, and check what was sent."""
        self._is_woken = True

    async def run_forever(self) -> None:
        """Work until cancelled; what fails is tried again at the next tick."""
        if not self._node.exists:
            return
        try:
            while True:
                await self._work()
                await asyncio.sleep(_TICK_SECONDS)
        finally:
            for task in self._waiting.values():
                task.cancel()
            await asyncio.gather(*self._waiting.values(), return_exceptions=True)

    async def _work(self) -> None:
        is_woken, self._is_woken, self._has_failed = self._is_woken, False, False
        try:
            await self._send_due(is_woken)
            await self._check(is_woken)
        except UnavailableError as error:  # of the database
            self._due_at_ms = 0
            log.warning("broadcasting_postponed", reason=error.detail)
        except Exception:  # what failed may work next time; what was asked for must not stay for ever
            self._due_at_ms = 0
            log.exception("broadcasting_failed")
        if self._has_failed:  # the connections that were opened meanwhile are no reason to hurry
            self._is_woken = False

    async def _send_due(self, is_woken: bool) -> None:
        now_ms = self._clock.now_ms()
        if now_ms < self._due_at_ms and not is_woken:
            return
        owed = await self._store.owed(_NEVER_MS if is_woken else now_ms, _SLICE)
        self._due_at_ms = _NEVER_MS  # what is announced meanwhile lowers it
        accounts: dict[str, list[StoredTransaction]] = {}
        for each in owed:
            if each.request.transaction_id not in self._waiting:
                accounts.setdefault(each.request.sender, []).append(each)
        async with asyncio.TaskGroup() as group:
            for transactions in accounts.values():
                group.create_task(self._send_all(transactions))
        next_due_at_ms = await self._store.next_due()
        if next_due_at_ms is not None:
            self._due_at_ms = min(self._due_at_ms, next_due_at_ms)

    async def _check(self, is_woken: bool) -> None:
        now_ms = self._clock.now_ms()
        if now_ms < self._check_at_ms and not is_woken:
            return
        self._check_at_ms = now_ms + _CHECK_EVERY_MS
        try:
            await self._confirming.check()
        except (NoNodeError, WrongChainError) as error:
            self._has_failed = True
            log.warning("node_not_asked", reason=error.detail)

    async def _send_all(self, transactions: Sequence[StoredTransaction]) -> None:
        """Send what one account owes, in its order, until the node does not take any more."""
        since = self._node.now()
        for position, each in enumerate(transactions):
            try:
                await self._send(each, since)
            except OtherChainError as error:
                await self._settle(each, error)
            except (NoNodeError, WrongChainError) as error:
                self._has_failed = True
                await self._offering.postpone(transactions[position:], error.detail)
                return
            except BridgeError as error:
                await self._settle(each, error)

    async def _send(self, stored: StoredTransaction, since: float) -> None:
        if stored.state is TransactionState.QUEUED:
            await self._sign_and_send(stored)
            return
        async with self._turns.taken(stored.request.sender):
            current = await self._store.get(stored.request.transaction_id)
            if current is not None and current.state is TransactionState.SIGNED:
                await self._offering.offer(current, since)

    async def _sign_and_send(self, queued: StoredTransaction) -> None:
        await self._offering.require_chain(queued)
        if not self._sending.asks_for_approval:
            await self._sending.resume(queued.request)
            return
        # Nobody else is kept waiting for a human. When the server stops before the answer, it asks again.
        transaction_id = queued.request.transaction_id
        later_ms = self._clock.now_ms() + _LOOK_AGAIN_MS
        await self._store.postpone({transaction_id: later_ms}, "It waits to be approved.", is_attempt=False)
        task = asyncio.create_task(self._send_when_approved(queued))
        self._waiting[transaction_id] = task
        task.add_done_callback(lambda _: self._waiting.pop(transaction_id, None))

    async def _send_when_approved(self, queued: StoredTransaction) -> None:
        try:
            await self._sending.resume(queued.request)
        except BridgeError as error:
            await self._settle(queued, error)
        except Exception:
            log.exception("broadcasting_failed")

    async def _settle(self, stored: StoredTransaction, error: BridgeError) -> None:
        """Store why a transaction was not sent, for good or for now."""
        if isinstance(error, TransactionRefusedError):
            return  # that is stored already
        if isinstance(error, UnavailableError) and self._stopping.has_begun:
            return  # it goes on after the restart
        if isinstance(error, RejectedError | InvalidInputError):
            await self._offering.refuse(stored, error.detail)
        else:  # such as an account that is locked, or a node that does not tell its price
            await self._offering.postpone([stored], error.detail)

    def _on_touch(self, key: Key) -> None:
        if key[0] == "transactions":
            self._due_at_ms = min(self._due_at_ms, int(key[1]))
