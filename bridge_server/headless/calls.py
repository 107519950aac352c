"""The calls that dapps make: their states, their answers, and the programs that wait for them."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from bridge_server.headless.actions import (
    REJECTION,
    USER_REJECTED,
    Action,
    Answer,
    Approve,
    Refuse,
)
from bridge_server.headless.sessions import HeadlessSession
from bridge_server.kernel.errors import ConflictError, NotFoundError

_KEPT = 10_000
"""The number of calls that are remembered. It bounds the memory of a wallet that runs for weeks."""


class CallState(StrEnum):
    """The state of a call."""

    DECIDING = "deciding"
    """A rule waits, or the wallet signs, or the answer is on its way."""
    PENDING = "pending"
    """The call waits for the test program: `ask`."""
    HANGING = "hanging"
    """The call is never answered, unless the test program does."""
    ANSWERED = "answered"
    REFUSED = "refused"
    """Answered with an error."""
    LOST = "lost"
    """The session ended before the answer."""


UNDECIDED = (CallState.PENDING, CallState.HANGING)
OPEN = (CallState.DECIDING, *UNDECIDED)


@dataclass(frozen=True, slots=True)
class Failure:
    """An error that answers a call, as JSON-RPC has it."""

    code: int
    message: str
    data: Any = None


@dataclass(frozen=True, slots=True)
class Result:
    """A result that answers a call."""

    value: Any


Outcome = Result | Failure


class CallDecidedError(ConflictError):
    """The call does not wait for a decision."""

    code = "call-decided"
    title = "The call does not wait for a decision"


class UnknownCallError(NotFoundError):
    """There is no such call."""

    code = "unknown-call"
    title = "Unknown call"


@dataclass(slots=True, eq=False)
class HeadlessCall:
    """A call of a dapp. `text` is the call in a few words; of a message, the message."""

    id: str
    session: HeadlessSession
    method: str
    params: Any
    chain_id: int
    text: str
    decide: Callable[["HeadlessCall", Action], Awaitable[None]]
    deliver: Callable[["HeadlessCall", Outcome], Awaitable[None]]
    lose: Callable[["HeadlessCall"], None]
    came_at: float
    """The time of the call in seconds of the event loop."""
    state: CallState = CallState.DECIDING
    result: Any = None
    error: Failure | None = None
    because: str = ""
    """The rule that decided, or the policy, as the command line spells it."""
    milliseconds: int = 0
    """The time from the call's arrival to its answer."""

    @property
    def origin(self) -> str:
        """The origin of the dapp's page, or the dapp's name if it has none."""
        return self.session.origin

    async def approve(self) -> None:
        """Have the call done. Raises CallDecidedError."""
        await self.decide(self, Approve())

    async def reject(self, code: int = USER_REJECTED, message: str = REJECTION) -> None:
        """Answer with an error, by default a user's no. Raises CallDecidedError."""
        await self.decide(self, Refuse(code, message))

    async def answer(self, result: Any) -> None:
        """Answer with a result of the test's own. Raises CallDecidedError."""
        await self.decide(self, Answer(result))


class CallLog:
    """The calls in the order of their arrival. The oldest settled ones make room for new ones."""

    def __init__(self) -> None:
        self._calls: dict[str, HeadlessCall] = {}
        self._changed = asyncio.Event()
        self._handed_out: set[str] = set()
        self.counts: Counter[str] = Counter()
        """The number of calls of each method, forgotten ones included."""

    def __iter__(self) -> Iterator[HeadlessCall]:
        return iter(list(self._calls.values()))

    def add(self, call: HeadlessCall) -> None:
        """Take a new call."""
        self._calls[call.id] = call
        self.counts[call.method] += 1
        if len(self._calls) > _KEPT:
            self._make_room()
        self.changed()

    def get(self, call_id: str) -> HeadlessCall:
        """The call with this id. Raises UnknownCallError."""
        try:
            return self._calls[call_id]
        except KeyError:
            raise UnknownCallError("There is no such call: GET /calls lists them.") from None

    def changed(self) -> None:
        """Wake everybody who waits for a call."""
        self._changed.set()
        self._changed = asyncio.Event()

    def forget(self) -> None:
        """Forget all calls and their counts."""
        self._calls.clear()
        self._handed_out.clear()
        self.counts.clear()

    def matching(self, state: str | None, method: str | None) -> list[HeadlessCall]:
        """The calls in this state, of this method; None is any."""
        return [
            call
            for call in self._calls.values()
            if state in (None, call.state) and method in (None, call.method)
        ]

    async def wait_for(self, state: str | None, method: str | None, seconds: float) -> list[HeadlessCall]:
        """The matching calls as soon as there is one; none after so many seconds."""
        try:
            async with asyncio.timeout(seconds):
                while not (found := self.matching(state, method)):
                    await self._changed.wait()
                return found
        except TimeoutError:
            return []

    async def next_pending(self, method: str | None, seconds: float) -> HeadlessCall:
        """The oldest pending call that was not handed out before. Raises TimeoutError."""
        async with asyncio.timeout(seconds):
            while True:
                for call in self.matching(CallState.PENDING, method):
                    if call.id not in self._handed_out:
                        self._handed_out.add(call.id)
                        return call
                await self._changed.wait()

    def _make_room(self) -> None:
        oldest = next((call for call in self._calls.values() if call.state not in OPEN), None)
        if oldest is not None:
            del self._calls[oldest.id]
            self._handed_out.discard(oldest.id)
