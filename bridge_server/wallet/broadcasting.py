"""Sees to it that what was asked for reaches the node, and is there until it is on the chain."""

import asyncio
from functools import partial

import structlog

from bridge_server.kernel.clock import Clock
from bridge_server.kernel.errors import BridgeError, UnavailableError
from bridge_server.kernel.signals import Key, Signals
from bridge_server.kernel.turns import Turns
from bridge_server.wallet.confirming import Confirming
from bridge_server.wallet.dispatching import Dispatching
from bridge_server.wallet.errors import NodeError, NoNodeError, WrongChainError
from bridge_server.wallet.models import Address, StoredTransaction, TransactionId, TransactionState
from bridge_server.wallet.node import Node
from bridge_server.wallet.sending import Sending
from bridge_server.wallet.store import TransactionStore

_TICK_SECONDS = 1.0
_FIRST_CHECK_MS = 1_000
_LATEST_CHECK_MS = 60_000
_LOOK_AGAIN_MS = 60_000
_NEVER_MS = 2**62

log = structlog.get_logger()


class Broadcaster:
    """Sends what is owed when it is due, and checks what became of it: soon after it was sent, then more and
    more seldom, but at least once a minute.

    Whenever a connection leads to the node again, both are done at once. Nothing that it does is lost when it
    is cancelled: every step is stored before the next.
    """

    def __init__(
        self,
        store: TransactionStore,
        sending: Sending,
        dispatching: Dispatching,
        confirming: Confirming,
        node: Node,
        turns: Turns,
        signals: Signals,
        clock: Clock,
    ) -> None:
        self._store = store
        self._sending = sending
        self._dispatching = dispatching
        self._confirming = confirming
        self._node = node
        self._turns = turns
        self._clock = clock
        self._due_at_ms = 0
        self._check_at_ms = 0
        self._check_after_ms = _FIRST_CHECK_MS
        self._is_woken = False
        self._waiting: dict[TransactionId, asyncio.Task[None]] = {}
        signals.listen(self._on_touch)
        node.on_connected(self.wake)

    def wake(self) -> None:
        """Try everything that is owed within a second, whether it is due or not, and check what was sent."""
        self._is_woken = True

    async def run_forever(self) -> None:
        """Work until cancelled."""
        if not self._node.exists:
            return
        try:
            while True:
                await self.work()
                await asyncio.sleep(_TICK_SECONDS)
        finally:
            for task in self._waiting.values():
                task.cancel()
            await asyncio.gather(*self._waiting.values(), return_exceptions=True)

    async def work(self) -> None:
        """Send what is due, and check what is to be checked; what fails is tried again at the next tick."""
        is_woken, self._is_woken = self._is_woken, False
        try:
            await self._send_due(is_woken)
            await self._check(is_woken)
        except UnavailableError as error:  # of the database
            self._due_at_ms = 0
            log.warning("broadcasting_postponed", reason=error.detail)
        except Exception:  # what failed may work next time; what was asked for must not stay for ever
            self._due_at_ms = 0
            log.exception("broadcasting_failed")

    async def _send_due(self, is_woken: bool) -> None:
        now_ms = self._clock.now_ms()
        if now_ms < self._due_at_ms and not is_woken:
            return
        owing = await self._store.owing(_NEVER_MS if is_woken else now_ms)
        self._due_at_ms = _NEVER_MS  # what is announced meanwhile lowers it
        async with asyncio.TaskGroup() as group:
            for sender in owing:
                group.create_task(self._send_owed(sender))
        next_due_at_ms = await self._store.next_due()
        if next_due_at_ms is not None:
            self._due_at_ms = min(self._due_at_ms, next_due_at_ms)

    async def _check(self, is_woken: bool) -> None:
        now_ms = self._clock.now_ms()
        if now_ms < self._check_at_ms and not is_woken:
            return
        self._check_at_ms = now_ms + self._check_after_ms
        self._check_after_ms = min(2 * self._check_after_ms, _LATEST_CHECK_MS)
        try:
            await self._confirming.check()
        except (NoNodeError, WrongChainError) as error:
            self._is_woken = False
            log.warning("node_not_asked", reason=error.detail)

    async def _send_owed(self, sender: Address) -> None:
        try:
            async with self._turns.taken(sender):
                await self._dispatching.send_owed(sender, self._node.now())
            if self._sending.asks_for_approval:
                await self._ask_for_approvals(sender)
        except (UnavailableError, WrongChainError, NodeError):
            self._is_woken = False  # the connection on which it failed is no reason to hurry

    async def _ask_for_approvals(self, sender: Address) -> None:
        """Nobody else is kept waiting for a human. When the server stops before the answer, it asks again."""
        for transaction_id in await self._store.owed(sender):
            queued = await self._store.get(transaction_id)
            if queued is None or queued.state is not TransactionState.QUEUED:
                continue
            later_ms = self._clock.now_ms() + _LOOK_AGAIN_MS
            await self._store.postpone(
                {transaction_id: later_ms}, "It waits to be approved.", is_attempt=False
            )
            if transaction_id in self._waiting:
                continue
            task = asyncio.create_task(self._send_when_approved(queued))
            self._waiting[transaction_id] = task
            task.add_done_callback(partial(self._stop_waiting, transaction_id))

    def _stop_waiting(self, transaction_id: TransactionId, _: object) -> None:
        del self._waiting[transaction_id]

    async def _send_when_approved(self, queued: StoredTransaction) -> None:
        try:
            await self._sending.resume(queued)
        except BridgeError as error:
            await self._dispatching.settle(queued, error)
        except Exception:
            log.exception("broadcasting_failed")

    def _on_touch(self, key: Key) -> None:
        if key[0] == "transactions":
            due_at_ms = int(key[1])
            self._due_at_ms = min(self._due_at_ms, due_at_ms)
            self._check_at_ms = min(self._check_at_ms, due_at_ms)
            self._check_after_ms = _FIRST_CHECK_MS
