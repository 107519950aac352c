"""Sessions and calls as a test program sees them: their states, their answers, and who waits for them."""

import asyncio
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal, TypeAlias, get_args
from uuid import uuid4

import orjson

from bridge_server.kernel.errors import ConflictError, InvalidInputError, NotFoundError
from bridge_server.kit.client.payloads import REJECTION, USER_REJECTED

SessionGeneration = Literal["plain", "0.7", "1.x", "2.x", "page"]
"""The protocol's generation; `page` is a web page that calls an injected provider."""


class SessionState(StrEnum):
    """The state of a session."""

    PROPOSED = "proposed"
    APPROVED = "approved"
    REJECTED = "rejected"
    ENDED = "ended"


class SessionStateError(ConflictError, code="session-state", title="The session's state forbids it"):
    """The state of the session forbids the change."""


class UnknownSessionError(NotFoundError, code="unknown-session", title="Unknown session"):
    """There is no such session."""


class UnknownIndexError(InvalidInputError, code="unknown-index", title="Unknown account"):
    """The wallet has no such account."""


@dataclass(frozen=True, slots=True)
class DappFacts:
    """The dapp, as it introduces itself. `url` is empty when it has no page."""

    name: str
    url: str


class Offer:
    """A wallet's offer to every dapp: accounts and a chain, under a policy. `feed` hears of its sessions.

    `accounts` are numbers of all `addresses`; None is all of them.
    """

    def __init__(
        self,
        addresses: list[str],
        accounts: Sequence[int] | None,
        chain_id: int,
        policy: "Policy",
        feed: "Feed",
    ) -> None:
        self._addresses = addresses
        self._by_lower_case = {address.lower(): address for address in addresses}
        self.accounts = list(addresses if accounts is None else self.named(accounts))
        self.chain_id = chain_id
        self.policy = policy
        self.feed = feed

    def named(self, accounts: Sequence[int | str]) -> tuple[str, ...]:
        """The addresses of numbers and of addresses in any case. Raises UnknownIndexError."""
        return tuple(map(self._named, accounts))

    def _named(self, account: int | str) -> str:
        if isinstance(account, str) and account.lower() in self._by_lower_case:
            return self._by_lower_case[account.lower()]
        if isinstance(account, int) and 0 <= account < len(self._addresses):
            return self._addresses[account]
        raise UnknownIndexError(
            f"The wallet has no account {account}: name one of its addresses, or a number from 0 to "
            f"{len(self._addresses) - 1}."
        )


class HeadlessSession(ABC):
    """A session with a dapp. The wallet makes it; the test program changes and ends it."""

    def __init__(self, generation: SessionGeneration, offer: Offer, topic: str = "") -> None:
        self.id = uuid4().hex
        self.generation = generation
        self.topic = topic
        """The beginning of the pairing URI, for the terminal; empty for a page."""
        self.dapp = DappFacts("", "")
        self.origin = ""
        self.accounts = tuple(offer.accounts)
        self.chain_id = offer.chain_id
        self.state = SessionState.PROPOSED
        self.ended_by = ""
        """`dapp`, `wallet` or `bridge`, once the session is over."""
        self.reason = ""
        self.offer = offer
        self.decision: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._ended = asyncio.Event()

    @abstractmethod
    async def publish_change(self, *, accounts: bool, chain: bool) -> None:
        """Publish the accounts and the chain; the flags say which have changed. Raises BridgeClientError."""

    @abstractmethod
    async def publish_end(self) -> None:
        """End the session for the dapp, too. Raises BridgeClientError."""

    @abstractmethod
    async def connect(self) -> None:
        """Have the session decided, if the dapp can ask for that. Raises SignatureRejectedError."""

    @abstractmethod
    async def leave(self) -> None:
        """Close the connection, if there is one; the session stays open."""

    @abstractmethod
    def lose(self, call: "HeadlessCall") -> None:
        """Give up a call that nobody will answer."""

    def tell(self, event: "SessionEvent") -> None:
        """Tell the wallet's watchers."""
        self.offer.feed.tell(SessionHappening(event, self))

    @property
    def is_open(self) -> bool:
        """Whether the wallet may sign for the session."""
        return self.state is SessionState.APPROVED

    @property
    def is_over(self) -> bool:
        """Whether the session was rejected or has ended."""
        return self.state in (SessionState.REJECTED, SessionState.ENDED)

    def has_account(self, address: object) -> bool:
        """Whether the session was given the account."""
        return isinstance(address, str) and address.lower() in {each.lower() for each in self.accounts}

    async def approve(self) -> None:
        """Approve a session that waits. Raises SessionStateError."""
        self._decide(is_approved=True)

    async def reject(self) -> None:
        """Reject a session that waits. Raises SessionStateError."""
        self._decide(is_approved=False)

    async def switch_account(self, *accounts: int | str) -> None:
        """Give the dapp these accounts. Raises UnknownIndexError, SessionStateError, BridgeClientError."""
        await self.change(accounts=accounts)

    async def switch_chain(self, chain_id: int) -> None:
        """Go to another chain. Raises SessionStateError, BridgeClientError."""
        await self.change(chain_id=chain_id)

    async def change(self, accounts: Sequence[int | str] | None = None, chain_id: int | None = None) -> None:
        """Give the dapp other accounts, or another chain, or both. Raises what `switch_account` raises."""
        addresses = self.accounts if accounts is None else self.offer.named(accounts)
        if not addresses:
            raise UnknownIndexError("A session has at least one account: end it to take all of them away.")
        self._require(SessionState.APPROVED, "only an approved session can be changed")
        former, chosen = (self.accounts, self.chain_id), self.chain_id if chain_id is None else chain_id
        self.accounts, self.chain_id = addresses, chosen
        try:
            await self.publish_change(accounts=addresses != former[0], chain=chosen != former[1])
        except BaseException:
            self.accounts, self.chain_id = former
            raise

    async def disconnect(self) -> None:
        """End the session; the dapp hears of it. Again, it changes nothing. Raises BridgeClientError."""
        if not self.is_over:
            await self.publish_end()

    async def wait_until_over(self) -> None:
        """Return when the session was rejected or has ended."""
        await self._ended.wait()

    def end(self, state: SessionState, ended_by: str, reason: str = "") -> None:
        """Note that the session is over. The first reason stays."""
        if not self.is_over:
            self.state, self.ended_by, self.reason = state, ended_by, reason
        self._ended.set()

    def _decide(self, *, is_approved: bool) -> None:
        self._require(SessionState.PROPOSED, "only a session that waits can be decided")
        if self.decision.done():
            raise SessionStateError("The session has been decided.")
        self.decision.set_result(is_approved)

    def _require(self, state: SessionState, rule: str) -> None:
        if self.state is not state:
            raise SessionStateError(f"The session is {self.state}: {rule}.")


# The actions of rules.


@dataclass(frozen=True, slots=True)
class Approve:
    """Sign, send, or give what the wallet knows."""


@dataclass(frozen=True, slots=True)
class Hang:
    """Never answer."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Wait until the test program decides."""


@dataclass(frozen=True, slots=True)
class Refuse:
    """Answer with an error, by default the user's rejection (EIP-1193)."""

    code: int = USER_REJECTED
    message: str = REJECTION


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer with this result, whatever was asked. Raises TypeError for a result that JSON cannot say."""

    result: Any = None

    def __post_init__(self) -> None:
        orjson.dumps(self.result)


Action: TypeAlias = Approve | Hang | Ask | Refuse | Answer
Policy: TypeAlias = Literal["approve", "reject", "ask", "hang"]

POLICIES: tuple[Policy, ...] = get_args(Policy)
PLAIN_ACTIONS: dict[str, Action] = {"approve": Approve(), "reject": Refuse(), "ask": Ask(), "hang": Hang()}
"""The actions that are one word, which are also the policies."""


# The calls that dapps make: their states, their answers, and the programs that wait for them.

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
Deliver = Callable[[Outcome], Coroutine[Any, Any, None]]
"""Brings the outcome of a call to its dapp."""


class CallDecidedError(ConflictError, code="call-decided", title="The call does not wait for a decision"):
    """The call does not wait for a decision."""


class UnknownCallError(NotFoundError, code="unknown-call", title="Unknown call"):
    """There is no such call."""


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
    deliver: Deliver
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
        """Answer with an error, by default the user's rejection. Raises CallDecidedError."""
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
            oldest = next((each for each in self._calls.values() if each.state not in OPEN), None)
            if oldest is not None:
                del self._calls[oldest.id]
                self._handed_out.discard(oldest.id)
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
        calls = self._calls.values()
        return [each for each in calls if state in (None, each.state) and method in (None, each.method)]

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


# Everything that happens to a wallet, for its watchers: the terminal, JSON lines, server-sent events.


SessionEvent = Literal["paired", "session", "changed", "ended"]


@dataclass(frozen=True, slots=True)
class SessionHappening:
    """Something that happens to a session.

    `paired`: a dapp has been found behind a URI, or a web page has asked for accounts. `session`: it was
    approved or rejected, or waits: see its state. `changed`: it has other accounts, or is on another chain.
    """

    event: SessionEvent
    session: HeadlessSession


@dataclass(frozen=True, slots=True)
class CallHappening:
    """Something that happens to a call.

    `call`: it arrived and is not answered at once: see its state. `answer`: it was answered, refused or lost.
    """

    event: Literal["call", "answer"]
    call: HeadlessCall


@dataclass(frozen=True, slots=True)
class PairingFailed:
    """A URI led to no session."""

    reason: str


@dataclass(frozen=True, slots=True)
class ProviderEvent:
    """An event of the provider in a web page (EIP-1193): accountsChanged, chainChanged, disconnect."""

    name: str
    value: Any
    session: HeadlessSession


Happening = SessionHappening | CallHappening | PairingFailed | ProviderEvent
Watch = Callable[[Happening], None]


class Feed:
    """Calls the watchers, in the order of subscription."""

    def __init__(self) -> None:
        self._watching: list[Watch] = []

    @contextmanager
    def watched_by(self, watch: Watch) -> Iterator[None]:
        """Have the function called with everything that happens inside the block."""
        self._watching.append(watch)
        try:
            yield
        finally:
            self._watching.remove(watch)

    def tell(self, happening: Happening) -> None:
        """Call every watcher."""
        for watch in list(self._watching):
            watch(happening)
