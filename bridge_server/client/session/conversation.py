"""The state of a session over a WebSocket, and the tasks that wait for a change of it."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Callable
from typing import Any, TypeVar

from bridge_server.client.session.contents import Approval, Call, Event, Proposal, read_result
from bridge_server.client.session.errors import BridgeClientError, CallExpiredError, SessionEndedError

Found = TypeVar("Found")

_KEPT = 1_000
"""The number of answers, calls and request ids that a session keeps in memory."""


class Conversation:
    """The messages received in one session. Each change wakes the waiting tasks."""

    def __init__(self) -> None:
        self.proposal: Proposal | None = None
        self.approval: Approval | None = None
        self.failure: BridgeClientError | None = None
        self._asked: OrderedDict[str, None] = OrderedDict()
        self._answers: OrderedDict[str, dict[str, Any]] = OrderedDict()
        self._calls: OrderedDict[str, Call] = OrderedDict()
        self._fresh_calls: deque[Call] = deque()
        self._fresh_updates: deque[Approval] = deque(maxlen=_KEPT)
        self._fresh_events: deque[Event] = deque(maxlen=_KEPT)
        self._waiters: set[asyncio.Future[None]] = set()

    def proposed(self, proposal: Proposal) -> None:
        """Store the dapp's proposal. Later proposals are ignored."""
        self.proposal = self.proposal or proposal
        self.wake()

    def approved(self, approval: Approval) -> None:
        """Store the wallet's approval, or its update."""
        if self.approval is not None:
            self._fresh_updates.append(approval)
        self.approval = approval
        self.wake()

    def fail(self, failure: BridgeClientError) -> None:
        """End the session with an error for all waiting tasks. Later errors are ignored."""
        self.failure = self.failure or failure
        self.wake()

    def ask(self, call_id: str) -> None:
        """Expect an answer to a call. Unexpected answers are ignored."""
        _remember(self._asked, call_id, None)

    def answered(self, call_id: str, answer: dict[str, Any]) -> None:
        """Store a JSON-RPC response."""
        if call_id in self._asked:
            _remember(self._answers, call_id, answer)
            self.wake()

    def called(self, call: Call) -> None:
        """Store a call for the wallet. A repetition is ignored."""
        if call.call_id not in self._calls:
            _remember(self._calls, call.call_id, call)
            self._fresh_calls.append(call)
            self.wake()

    def happened(self, event: Event) -> None:
        """Store an event of the wallet."""
        self._fresh_events.append(event)
        self.wake()

    def call(self, call_id: str) -> Call:
        """A received call. Raises CallExpiredError."""
        try:
            return self._calls[call_id]
        except KeyError:
            raise CallExpiredError(f"No call {call_id} has come, or it was too long ago.") from None

    def require_open(self) -> None:
        """Raise the error that ended the session, if it has ended."""
        if self.failure is not None:
            raise self.failure

    async def approval_given(self) -> Approval:
        """Wait for the approval; returns the latest. Raises the error that ended the session."""
        self.require_open()
        return await self.until(lambda: self.approval)

    async def proposal_made(self) -> Proposal:
        """Wait for the proposal. Raises the error that ended the session."""
        self.require_open()
        return await self.until(lambda: self.proposal)

    async def result_of(self, call_id: str) -> Any:
        """Wait for the result of a call. Raises CallFailedError, CallExpiredError, BadPayloadError."""
        if call_id not in self._asked:
            raise CallExpiredError(f"This object has asked no call {call_id}, or it was too long ago.")
        return read_result(await self.until(lambda: self._answers.get(call_id)))

    def next_calls(self) -> AsyncGenerator[Call, None]:
        """Yield the calls as they arrive, until the session ends."""
        return self._each(self._fresh_calls)

    def next_updates(self) -> AsyncGenerator[Approval, None]:
        """Yield the approvals after the first one as they arrive, until the session ends."""
        return self._each(self._fresh_updates)

    def next_events(self) -> AsyncGenerator[Event, None]:
        """Yield the events as they arrive, until the session ends."""
        return self._each(self._fresh_events)

    async def until(self, read: Callable[[], Found | None]) -> Found:
        """Wait until `read` finds something. Raises the error that ended the session before that."""
        while (found := read()) is None:
            self.require_open()
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.add(waiter)
            try:
                await waiter
            finally:
                self._waiters.discard(waiter)
        return found

    async def _each(self, fresh: deque[Found]) -> AsyncGenerator[Found, None]:
        """Yield and remove the items one by one; several loops share them."""
        while True:
            try:
                yield await self.until(lambda: fresh.popleft() if fresh else None)
            except SessionEndedError:
                return

    def wake(self) -> None:
        """Have the waiting tasks look again."""
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)


def _remember(kept: OrderedDict[str, Found], key: str, value: Found) -> None:
    kept[key] = value
    if len(kept) > _KEPT:
        kept.popitem(last=False)
