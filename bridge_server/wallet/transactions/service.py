"""Transactions: signed alone, or signed, stored and broadcast; and the worker that confirms them."""

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial

import orjson
import structlog

from bridge_server.ethereum.address import hex_of
from bridge_server.ethereum.transactions import RawTransaction, sign_transaction
from bridge_server.kernel.background import cancelled
from bridge_server.kernel.clock import Clock
from bridge_server.kernel.errors import BridgeError, UnavailableError
from bridge_server.kernel.events import Events
from bridge_server.wallet import approvals, models
from bridge_server.wallet.models import Address, NoNodeError, SendRequest, SignedTransaction, TransactionState
from bridge_server.wallet.node.connections import Attempt, new_attempt
from bridge_server.wallet.node.node import Node
from bridge_server.wallet.signing import Signing
from bridge_server.wallet.transactions.broadcasting import ZERO_HASH, Broadcasting, OtherChainError
from bridge_server.wallet.transactions.requests import TransactionRequest, read_transaction, write_transaction
from bridge_server.wallet.transactions.states import TransactionsDue, TransactionsPostponed, delay_ms
from bridge_server.wallet.transactions.store import TransactionStore

SEND = "eth_sendTransaction"
SIGN = "eth_signTransaction"

_SWEEP_SLICE = 500


class TransactionService:
    """Signs and broadcasts transactions, an account's one after the other: first its queue, then new ones.
    Settled transactions are kept for `kept_ms`.
    """

    def __init__(
        self,
        store: TransactionStore,
        node: Node,
        signing: Signing,
        broadcasting: Broadcasting,
        clock: Clock,
        kept_ms: int,
    ) -> None:
        self._store = store
        self._node = node
        self._filling = broadcasting.filling
        self._signing = signing
        self._broadcasting = broadcasting
        self._clock = clock
        self._kept_ms = kept_ms

    @property
    def asks_for_approval(self) -> bool:
        """Whether a signature may take as long as a human does."""
        return self._signing.asks_for_approval

    async def send(self, asked: SendRequest, request: TransactionRequest) -> str:
        """Send a transaction object; queue it when the node cannot be reached. Raises InvalidParamsError,
        UnknownAccountError, LockedError, SignatureRejectedError, WrongChainError, NodeError,
        TransactionRefusedError; NoNodeError when there is no node at all.
        """
        self._signing.key(request.sender)
        try:
            return await self._send(asked, request)
        except NoNodeError:  # if it was approved already, it is shown again, filled in anew
            if not self._node.exists:
                raise
        await self._store.keep(asked, self._node.known_chain_id, None, self._first_attempt_at_ms())
        return ZERO_HASH

    async def send_signed(self, asked: SendRequest, transaction: RawTransaction, raw: str) -> str:
        """Send a transaction that was signed elsewhere: `raw` is its DATA, as it came. Raises
        InvalidParamsError, WrongChainError, TransactionRefusedError; NoNodeError when there is no node at
        all.
        """
        if not self._node.exists:
            raise NoNodeError("There is no node to send it to: set node_url.")
        attempt = new_attempt()
        chain_id = await self._chain_of(transaction)
        signed = SignedTransaction(chain_id, transaction.nonce, hex_of(transaction.hash), raw)
        async with self._broadcasting.turn(asked.sender):
            stored = await self._store.keep(asked, chain_id, signed, self._first_attempt_at_ms())
            return await self._broadcasting.broadcast(stored, attempt)

    async def sign(self, request: TransactionRequest, caller: models.Caller) -> str:
        """Sign a transaction object without sending it, as DATA. Its nonce is not reserved. Raises
        InvalidParamsError, UnknownAccountError, LockedError, SignatureRejectedError, NoChainError,
        WrongChainError, NodeError; NoNodeError when only the node could fill a missing field.
        """
        self._signing.key(request.sender)
        filled = await self._filling.filled(request)
        approval_id = await self._approved(SIGN, filled, caller)
        nonce = await self._next_nonce(filled) if filled.nonce is None else filled.nonce
        return self._ready(SIGN, filled, caller, approval_id)(nonce).raw

    async def send_queued(self, queued: models.StoredTransaction) -> None:
        """Have a queued request approved, and send it. Raises what `send` raises; it stays queued then."""
        await self._send(queued.request, await self._reread(queued, None))

    async def work_off(self, sender: Address, on_failure: Callable[[], None]) -> None:
        """Broadcast the account's queue in its order, due or not. A fault of one transaction delays no other.
        Requests that a person must approve are left to `send_queued`. Raises NoNodeError, WrongChainError,
        NodeError: the rest comes later. `on_failure` is called at once, before the rest is postponed.
        """
        async with self._broadcasting.turn(sender):
            attempt = new_attempt()
            try:
                count = await self._broadcasting.catch_up(sender, attempt)
            except (NoNodeError, models.WrongChainError, models.NodeError) as error:
                on_failure()
                await self._broadcasting.postpone(await self._store.queue(sender), error.detail)
                raise
            await self._work_off(await self._store.queue(sender), count, attempt, on_failure)

    async def sweep(self, now_ms: int) -> int:
        """Delete a slice of the transactions settled longer ago than `kept_ms`; returns how many."""
        return await self._store.sweep(now_ms - self._kept_ms, _SWEEP_SLICE)

    async def _send(self, asked: SendRequest, request: TransactionRequest) -> str:
        """Have it approved, and send it. An approval delays no other; without approvals, they go in order."""
        approval_id = None
        if self._signing.asks_for_approval:
            request = await self._filling.filled(request)
            approval_id = await self._approved(SEND, request, asked.caller)
        attempt = new_attempt()
        async with self._broadcasting.turn(request.sender):
            count = await self._broadcasting.catch_up(request.sender, attempt)
            if request.nonce is None:
                await self._work_off(await self._store.queue(request.sender), count, attempt)
            return await self._sign_and_broadcast(asked, request, approval_id, count, attempt)

    async def _work_off(
        self,
        queue: Mapping[models.TransactionId, int],
        count: int,
        attempt: Attempt,
        on_failure: Callable[[], None] = lambda: None,
    ) -> None:
        for position, transaction_id in enumerate(queue):
            if self._broadcasting.is_paused(transaction_id):
                continue
            stored = await self._store.get(transaction_id)
            if stored is None:
                continue
            try:
                if stored.state is TransactionState.SIGNED:
                    await self._broadcasting.broadcast_again(stored, attempt)
                elif stored.state is TransactionState.QUEUED and not self._signing.asks_for_approval:
                    request = await self._reread(stored, attempt)
                    await self._sign_and_broadcast(stored.request, request, None, count, attempt)
            except OtherChainError as error:
                await self._broadcasting.settle(stored, error)
            except (NoNodeError, models.WrongChainError) as error:
                on_failure()
                await self._broadcasting.postpone(dict(list(queue.items())[position:]), error.detail)
                raise
            except BridgeError as error:
                await self._broadcasting.settle(stored, error)

    async def _sign_and_broadcast(
        self, asked: SendRequest, request: TransactionRequest, approval_id: models.ApprovalId | None,
        count: int, attempt: Attempt,
    ) -> str:  # fmt: skip
        """Raises NoNodeError when it cannot be filled in, and it is not signed."""
        filled = await self._filling.filled(request, attempt)
        assert filled.chain_id is not None
        sign = self._ready(SEND, filled, asked.caller, approval_id)
        stored = await self._store.reserve(
            asked, filled.chain_id, filled.nonce, count, sign, self._first_attempt_at_ms()
        )
        return await self._broadcasting.broadcast(stored)

    async def _approved(
        self, method: str, filled: TransactionRequest, caller: models.Caller
    ) -> models.ApprovalId | None:
        return await self._signing.approved(
            method, filled.sender, lambda: orjson.dumps(write_transaction(filled)), caller
        )

    def _ready(
        self,
        method: str,
        filled: TransactionRequest,
        caller: models.Caller,
        approval_id: models.ApprovalId | None,
    ) -> Callable[[int], SignedTransaction]:
        """A function that signs it with a nonce, in any thread; it may raise UnavailableError. Raises
        UnknownAccountError, LockedError.
        """
        key = self._signing.key(filled.sender)

        def sign(nonce: int) -> SignedTransaction:
            transaction = filled.transaction(nonce)
            raw, transaction_hash, signed_hash = sign_transaction(transaction, key)
            signed = SignedTransaction(transaction.chain_id, nonce, hex_of(transaction_hash), hex_of(raw))
            self._signing.record(
                method, filled.sender, signed_hash, caller, approval_id, signed.transaction_hash
            )
            return signed

        return sign

    async def _reread(self, stored: models.StoredTransaction, attempt: Attempt | None) -> TransactionRequest:
        """The request as it came. Raises OtherChainError, NoNodeError, WrongChainError."""
        await self._broadcasting.require_chain(stored, attempt)
        return read_transaction(json.loads(stored.request.params))

    async def _next_nonce(self, filled: TransactionRequest) -> int:
        if not self._node.exists:
            raise NoNodeError("There is no node to ask for the nonce: name it in params[0], or set node_url.")
        assert filled.chain_id is not None
        lowest = await self._filling.pending_count(filled.sender)
        return await self._store.next_nonce(filled.chain_id, filled.sender, lowest)

    async def _chain_of(self, transaction: RawTransaction) -> int:
        """The chain to send it on: the wallet's."""
        try:
            chain_id = await self._node.chain_id()
        except NoNodeError:
            if transaction.chain_id is None:
                raise
            return transaction.chain_id  # the wallet's is not known; the node is asked before the broadcast
        if transaction.chain_id not in (None, chain_id):
            raise models.InvalidParamsError(
                f"params[0] is for chain {transaction.chain_id}, and the wallet is on chain {chain_id}."
            )
        return chain_id

    def _first_attempt_at_ms(self) -> int:
        """The time of the next attempt if this one fails unnoticed, as in a crash."""
        return self._clock.now_ms() + delay_ms(0)


# The background worker: broadcasts waiting transactions when they are due, and confirms sent ones.

_FIRST_CHECK_US = 100_000
_LONGEST_FIRST_CHECK_US = 1_000_000
_SECOND_CHECK_US = 500_000
_LATEST_CHECK_US = 60_000_000
_CHECK_AGAIN_MS = 60_000
_NEVER_MS = 2**62

# While there are sends all the time, checks take no more than a tenth of it.
_SHARE = 10

# The other half of the places is for clients, who wait for their answers.
_ASKED_AT_ONCE = approvals.MOST_WAITING // 2

log = structlog.get_logger()


class TransactionWorker:
    """Broadcasts transactions when they are due, and confirms them: soon after they were sent, then more and
    more seldom, but at least once a minute. Whenever a connection leads to the node again, it does both at
    once. It may be cancelled at any time: every step is stored before the next.
    """

    def __init__(
        self,
        store: TransactionStore,
        service: TransactionService,
        broadcasting: Broadcasting,
        node: Node,
        events: Events,
        clock: Clock,
    ) -> None:
        self._store = store
        self._service = service
        self._broadcasting = broadcasting
        self._node = node
        self._clock = clock
        self._due_at_ms = 0  # by the clock on the wall, as the rows have it
        self._check_at_us = 0  # of time elapsed
        self._check_after_us = _SECOND_CHECK_US
        self._is_woken = False
        self._waiting: dict[models.TransactionId, asyncio.Task[None]] = {}
        self._places = asyncio.Semaphore(_ASKED_AT_ONCE)
        self._first_check_us = _FIRST_CHECK_US
        self._seen_mined: set[str] = set()
        self._has_news = asyncio.Event()
        self._asked: list[asyncio.Future[None]] = []
        events.subscribe(TransactionsDue, self._on_due)
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
        """Give up the requests that wait to be approved, and read the store anew."""
        await cancelled(self._waiting.values())
        self._due_at_ms = 0
        self._check_at_us = 0
        self._seen_mined.clear()

    async def work(self) -> None:
        """Broadcast and confirm once. A step that fails is tried again at the next tick."""
        is_woken, self._is_woken = self._is_woken, False
        try:
            await self._broadcast_due(is_woken)
            seen, self._seen_mined = self._seen_mined, set()
            for transaction_hash in seen:
                await self._broadcasting.settle_mined(transaction_hash)
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
            await self._broadcasting.check()
        except (NoNodeError, models.WrongChainError) as error:
            self._is_woken = False
            log.warning("node_not_asked", reason=error.detail)
        took_us = self._clock.elapsed_us() - began_us
        self._first_check_us = max(_FIRST_CHECK_US, min(_SHARE * took_us, _LONGEST_FIRST_CHECK_US))

    async def _work_off(self, sender: Address) -> None:
        with suppress(UnavailableError, models.WrongChainError, models.NodeError):
            await self._service.work_off(sender, self._forget_connection)
            if self._service.asks_for_approval:
                await self._ask_for_approvals(sender)

    def _forget_connection(self) -> None:
        self._is_woken = False  # the connection on which it failed is no reason to hurry; a later one is

    async def _ask_for_approvals(self, sender: Address) -> None:
        """Ask for each queued request in its own task: a person delays no other. It asks again later."""
        for transaction_id in await self._store.queue(sender):
            queued = await self._store.get(transaction_id)
            if queued is None or queued.state is not TransactionState.QUEUED:
                continue
            due_ms = self._clock.now_ms() + _CHECK_AGAIN_MS
            await self._store.postpone({transaction_id: due_ms}, "It waits to be approved.", is_attempt=False)
            if transaction_id in self._waiting:
                continue
            task = asyncio.create_task(self._send_queued(transaction_id))
            self._waiting[transaction_id] = task
            task.add_done_callback(partial(self._waiting.pop, transaction_id))

    async def _send_queued(self, transaction_id: models.TransactionId) -> None:
        try:
            async with self._places:
                queued = await self._store.get(transaction_id)
                if queued is None or queued.state is not TransactionState.QUEUED:
                    return
                try:
                    await self._service.send_queued(queued)
                except models.UndecidedError:
                    pass  # it is due again later, and asked for behind the requests that wait
                except BridgeError as error:
                    await self._broadcasting.settle(queued, error)
        except Exception:
            log.exception("broadcasting_failed")

    def _on_due(self, event: TransactionsDue) -> None:
        self._due_at_ms = min(self._due_at_ms, event.due_at_ms)
        self._check_at_us = min(self._check_at_us, self._clock.elapsed_us() + self._first_check_us)
        self._check_after_us = _SECOND_CHECK_US
        self._broadcasting.expect_blocks()
        self._has_news.set()

    def _on_postponed(self, event: TransactionsPostponed) -> None:
        self._due_at_ms = min(self._due_at_ms, event.due_at_ms)

    def _on_mined(self, transaction_hash: str) -> None:
        if self._broadcasting.awaits_blocks:
            self._seen_mined.add(transaction_hash)
            self._has_news.set()


def _answer(asked: Iterable[asyncio.Future[None]]) -> None:
    for each in asked:
        if not each.done():
            each.set_result(None)
