"""The background worker: broadcasts waiting transactions when they are due, and confirms sent ones."""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from functools import partial

import structlog

from bridge_server.kernel.background import cancelled
from bridge_server.kernel.clock import Clock
from bridge_server.kernel.errors import BridgeError, UnavailableError
from bridge_server.kernel.events import Events
from bridge_server.wallet.approvals import MOST_WAITING
from bridge_server.wallet.errors import NodeError, NoNodeError, UndecidedError, WrongChainError
from bridge_server.wallet.models import Address, StoredTransaction, TransactionId, TransactionState
from bridge_server.wallet.node.node import Node
from bridge_server.wallet.transactions.broadcasting import Broadcasting
from bridge_server.wallet.transactions.confirming import Confirming
from bridge_server.wallet.transactions.events import TransactionsOwed, TransactionsPostponed
from bridge_server.wallet.transactions.service import TransactionService
from bridge_server.wallet.transactions.signing import TransactionSigning
from bridge_server.wallet.transactions.store import TransactionStore

_FIRST_CHECK_US = 100_000
_LONGEST_FIRST_CHECK_US = 1_000_000
_SECOND_CHECK_US = 500_000
_LATEST_CHECK_US = 60_000_000
_LOOK_AGAIN_MS = 60_000
_NEVER_MS = 2**62

# While there are sends all the time, checks take no more than a tenth of it.
_SHARE = 10

# The other half of the places is for clients, who wait for their answers.
_ASKED_AT_ONCE = MOST_WAITING // 2

log = structlog.get_logger()


class TransactionWorker:
    """Broadcasts transactions when they are due, and confirms them: soon after they were sent, then more and
    more seldom, but at least once a minute.

    Whenever a connection leads to the node again, it does both at once. It may be cancelled at any time:
    every step is stored before the next.
    """

    def __init__(
        self,
        store: TransactionStore,
        service: TransactionService,
        signing: TransactionSigning,
        broadcasting: Broadcasting,
        confirming: Confirming,
        node: Node,
        events: Events,
        clock: Clock,
    ) -> None:
        self._store = store
        self._service = service
        self._signing = signing
        self._broadcasting = broadcasting
        self._confirming = confirming
        self._node = node
        self._clock = clock
        self._due_at_ms = 0  # by the clock on the wall, as the rows have it
        self._check_at_us = 0  # of time elapsed
        self._check_after_us = _SECOND_CHECK_US
        self._is_woken = False
        self._waiting: dict[TransactionId, asyncio.Task[None]] = {}
        self._places = asyncio.Semaphore(_ASKED_AT_ONCE)
        self._first_check_us = _FIRST_CHECK_US
        self._seen_mined: set[str] = set()
        self._has_news = asyncio.Event()
        self._asked: list[asyncio.Future[None]] = []
        events.subscribe(TransactionsOwed, self._on_owed)
        events.subscribe(TransactionsPostponed, self._on_postponed)
        node.on_connected(self.wake)
        node.on_mined(self._on_mined)

    def wake(self) -> None:
        """Broadcast all waiting transactions within a second, due or not, and confirm the sent ones."""
        self._is_woken = True

    async def run_forever(self) -> None:
        """Work until cancelled."""
        if not self._node.exists:
            return
        asked: list[asyncio.Future[None]] = []
        try:
            while True:
                asked, self._asked = self._asked, []
                await self.work()
                _answer(asked)
                await self._rest()
        finally:
            _answer([*asked, *self._asked])
            await self.forget()

    async def catch_up(self) -> None:
        """Return once everything that was due at this call is broadcast, and checked."""
        if self._node.exists:
            done = asyncio.get_running_loop().create_future()
            self._asked.append(done)
            self._has_news.set()
            await asyncio.shield(done)

    async def forget(self) -> None:
        """Give up the requests that wait to be approved, and look at the store anew."""
        await cancelled(self._waiting.values())
        self._due_at_ms = 0
        self._check_at_us = 0
        self._seen_mined.clear()

    async def work(self) -> None:
        """Broadcast and confirm once. A step that fails is tried again at the next tick."""
        is_woken, self._is_woken = self._is_woken, False
        try:
            await self._broadcast_due(is_woken)
            await self._settle_mined()
            await self._check(is_woken)
        except UnavailableError as error:  # of the database
            self._due_at_ms = 0
            log.warning("broadcasting_postponed", reason=error.detail)
        except Exception:  # it may work next time, and no request may be left behind
            self._due_at_ms = 0
            log.exception("broadcasting_failed")

    async def _rest(self) -> None:
        """Return when the next check is due, after a tick, or when there is news."""
        seconds, tick_seconds = (self._check_at_us - self._clock.elapsed_us()) / 1e6, self._clock.tick_seconds
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds if 0 < seconds < tick_seconds else tick_seconds):
                await self._has_news.wait()
        self._has_news.clear()

    async def _settle_mined(self) -> None:
        seen, self._seen_mined = self._seen_mined, set()
        for transaction_hash in seen:
            await self._confirming.settle_mined(transaction_hash)

    async def _broadcast_due(self, is_woken: bool) -> None:
        now_ms = self._clock.now_ms()
        if now_ms < self._due_at_ms and not is_woken:
            return
        senders = await self._store.senders_with_due(_NEVER_MS if is_woken else now_ms)
        self._due_at_ms = _NEVER_MS  # an announcement meanwhile lowers it
        async with asyncio.TaskGroup() as group:
            for sender in senders:
                group.create_task(self._work_off(sender))
        next_due_at_ms = await self._store.next_due()
        if next_due_at_ms is not None:
            self._due_at_ms = min(self._due_at_ms, next_due_at_ms)

    async def _check(self, is_woken: bool) -> None:
        began_us = self._clock.elapsed_us()
        if began_us >= self._check_at_us:
            self._check_at_us = began_us + self._check_after_us
            self._check_after_us = min(2 * self._check_after_us, _LATEST_CHECK_US)
        elif not is_woken:
            return
        try:
            await self._confirming.check()
        except (NoNodeError, WrongChainError) as error:
            self._is_woken = False
            log.warning("node_not_asked", reason=error.detail)
        took_us = self._clock.elapsed_us() - began_us
        self._first_check_us = max(_FIRST_CHECK_US, min(_SHARE * took_us, _LONGEST_FIRST_CHECK_US))

    async def _work_off(self, sender: Address) -> None:
        try:
            await self._service.work_off(sender)
            if self._signing.asks_for_approval:
                await self._ask_for_approvals(sender)
        except (UnavailableError, WrongChainError, NodeError):
            self._is_woken = False  # the connection on which it failed is no reason to hurry

    async def _ask_for_approvals(self, sender: Address) -> None:
        """Ask for approval of each queued request in a separate task, so that a person delays no other
        request.

        Without an answer in time, or before the server stops, it asks again.
        """
        for transaction_id in await self._store.queue(sender):
            queued = await self._store.get(transaction_id)
            if queued is None or queued.state is not TransactionState.QUEUED:
                continue
            later_ms = self._clock.now_ms() + _LOOK_AGAIN_MS
            await self._store.postpone(
                {transaction_id: later_ms}, "It waits to be approved.", is_attempt=False
            )
            if transaction_id in self._waiting:
                continue
            task = asyncio.create_task(self._send_queued(transaction_id))
            self._waiting[transaction_id] = task
            task.add_done_callback(partial(self._stop_waiting, transaction_id))

    def _stop_waiting(self, transaction_id: TransactionId, _: object) -> None:
        del self._waiting[transaction_id]

    async def _send_queued(self, transaction_id: TransactionId) -> None:
        try:
            async with self._places:
                queued = await self._store.get(transaction_id)
                if queued is not None and queued.state is TransactionState.QUEUED:
                    await self._try_queued(queued)
        except Exception:
            log.exception("broadcasting_failed")

    async def _try_queued(self, queued: StoredTransaction) -> None:
        try:
            await self._service.send_queued(queued)
        except UndecidedError:
            pass  # it is due again later, and asked for behind the requests that wait
        except BridgeError as error:
            await self._broadcasting.settle(queued, error)

    def _on_owed(self, event: TransactionsOwed) -> None:
        self._due_at_ms = min(self._due_at_ms, event.due_at_ms)
        self._check_at_us = min(self._check_at_us, self._clock.elapsed_us() + self._first_check_us)
        self._check_after_us = _SECOND_CHECK_US
        self._confirming.expect_blocks()
        self._has_news.set()

    def _on_postponed(self, event: TransactionsPostponed) -> None:
        self._due_at_ms = min(self._due_at_ms, event.due_at_ms)

    def _on_mined(self, transaction_hash: str) -> None:
        if self._confirming.awaits_blocks:
            self._seen_mined.add(transaction_hash)
            self._has_news.set()


def _answer(asked: Iterable[asyncio.Future[None]]) -> None:
    for each in asked:
        if not each.done():
            each.set_result(None)
