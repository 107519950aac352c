"""The ways to a dapp: a session over a bridge or a relay, and web pages that call an injected provider."""

import asyncio
import logging
import re
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Literal
from urllib.parse import urlsplit

from bridge_server.ethereum.address import quantity
from bridge_server.kit.client import (
    AnswerTimeoutError,
    Authentication,
    BridgeClientError,
    BridgeUnreachableError,
    Call,
    Proposal,
    UnsupportedError,
    Wallet,
)
from bridge_server.kit.client.authentication import write_authentication
from bridge_server.kit.client.payloads import REJECTION
from bridge_server.kit.headless.keys import AUTHENTICATE
from bridge_server.kit.headless.sessions import (
    CallHappening,
    DappFacts,
    Failure,
    Feed,
    Happening,
    HeadlessCall,
    HeadlessSession,
    Outcome,
    Policy,
    ProviderEvent,
    Result,
    SessionHappening,
    SessionState,
)
from bridge_server.wallet.models import SignatureRejectedError
from bridge_server.wallet.rpc.wire import DISCONNECTED

Deliver = Callable[[HeadlessCall, Outcome], Coroutine[Any, Any, None]]
TakeCall = Callable[[HeadlessSession, str, Any, int, Deliver], None]

_CONNECT_SECONDS = 5.0
_ENDED_BY_WALLET = "The wallet ended the session."
_NOT_ASKED = "The dapp did not ask for a session: have it show a new URI while it is there."

_ETHEREUM = "eip155"
_CHAIN = re.compile(rf"{_ETHEREUM}:([0-9]{{1,19}})")
_NAMESPACES = ("requiredNamespaces", "optionalNamespaces")

_log = logging.getLogger(__name__)


class BridgeLink:
    """The way to a dapp over a bridge, and the task that follows the session."""

    def __init__(self, client: Wallet, policy: Policy, feed: Feed, take: TakeCall) -> None:
        self._client = client
        self._policy = policy
        self._feed = feed
        self._take = take
        self._other_chains: list[int] = []
        self._is_leaving = False
        self._task: asyncio.Task[None] | None = None
        self.decided: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done once the session was approved or rejected, or waits; or with the error of the pairing."""

    def start(self, session: HeadlessSession, proposal_seconds: float) -> asyncio.Task[None]:
        """Follow the session in the background, from its proposal to its end."""
        self._task = asyncio.create_task(self._follow(session, proposal_seconds))
        return self._task

    async def connect(self, session: HeadlessSession) -> None:
        """A dapp on a bridge has asked already."""

    async def update(self, session: HeadlessSession, *, accounts: bool, chain: bool) -> None:
        """Publish the accounts and the chain, and the events of generation 2.x. Raises BridgeClientError."""
        await self._publish(session)
        caip2 = f"eip155:{session.chain_id}"
        with suppress(UnsupportedError):
            if chain:
                await self._client.emit("chainChanged", session.chain_id, caip2)
            if accounts:
                await self._client.emit("accountsChanged", list(session.accounts), caip2)
        self._feed.tell(SessionHappening("changed", session))

    async def end(self, session: HeadlessSession) -> None:
        """End the session. Raises BridgeClientError."""
        if session.state is SessionState.PROPOSED:
            with suppress(BridgeClientError):
                await self._client.reject()
        else:
            self._is_leaving = True
            await self._client.end()
        self._over(session, SessionState.ENDED, "wallet", _ENDED_BY_WALLET)
        await self.leave()

    def lose(self, call: HeadlessCall) -> None:
        """The dapp has left its session, and knows that no answer comes."""

    async def leave(self) -> None:
        """Close the connection; the session stays open."""
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _deliver(self, call: Call, outcome: Outcome) -> None:
        """Answer a call, however long the bridge is away. Raises BridgeClientError for what is final."""
        if isinstance(outcome, Result):
            await _until_it_is_back(lambda: self._client.answer(call, outcome.value))
        else:
            await _until_it_is_back(lambda: self._client.refuse(call, outcome.code, outcome.message))

    async def _follow(self, session: HeadlessSession, proposal_seconds: float) -> None:
        try:
            async with self._client:
                await self._begin(session, await self._proposal(proposal_seconds))
                if session.state is SessionState.APPROVED:
                    async for call in self._client.calls():
                        self._called(session, call)
                    self._over(session, SessionState.ENDED, *self._end_of_calls())
        except BridgeClientError as error:
            self._failed(session, error)
        except TimeoutError:
            self._failed(session, AnswerTimeoutError(_NOT_ASKED))
        except Exception:
            _log.exception("a session failed")
            self._failed(session, BridgeClientError("The wallet failed; the reason is in its log."))
        finally:
            self._over(session, SessionState.ENDED, "wallet", "The wallet was closed.")
            if not self.decided.done():
                self.decided.cancel()

    def _end_of_calls(self) -> tuple[str, str]:
        return ("wallet", _ENDED_BY_WALLET) if self._is_leaving else ("dapp", "The dapp ended the session.")

    async def _proposal(self, seconds: float) -> Proposal:
        """The dapp's proposal. Raises BridgeUnreachableError long before a dapp that is slow is given up."""
        async with asyncio.timeout(seconds):
            while True:
                try:
                    return await self._client.proposal(_CONNECT_SECONDS)
                except AnswerTimeoutError as error:
                    _log.info("the dapp has not asked for a session yet: %s", error)

    async def _begin(self, session: HeadlessSession, proposal: Proposal) -> None:
        session.dapp = DappFacts(proposal.name, proposal.url)
        session.origin = _origin_of(proposal.url) or proposal.name
        asked = _asked_chains(proposal)
        session.chain_id = _chosen_chain(session.chain_id, asked)
        self._other_chains = [chain for chain in asked if chain != session.chain_id]
        self._feed.tell(SessionHappening("paired", session))
        cacaos = await self._signed_in(session, proposal) if await self._is_approved(session) else None
        if cacaos is None:
            await self._client.reject()
            self._decide(session, SessionState.REJECTED)
            session.end(SessionState.REJECTED, "wallet")
        else:
            await self._approve(session, cacaos)

    async def _signed_in(self, session: HeadlessSession, proposal: Proposal) -> list[Any] | None:
        """The sign-ins that the proposal asks for, each decided as a call; None if one is refused."""
        cacaos: list[Any] = []
        with self._feed.watched_by(partial(self._waits, session)):
            for asked in proposal.authentications:
                outcome = await self._decided_authentication(session, asked)
                if not isinstance(outcome, Result):
                    return None
                cacaos += outcome.value if isinstance(outcome.value, list) else [outcome.value]
        return cacaos

    async def _decided_authentication(self, session: HeadlessSession, asked: Authentication) -> Outcome:
        decided: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

        async def decide(_: HeadlessCall, outcome: Outcome) -> None:
            if not decided.done():
                decided.set_result(outcome)

        numbers = [number for number in map(_chain_number, asked.chains) if number is not None]
        chain_id = _chosen_chain(session.chain_id, numbers)
        self._take(session, AUTHENTICATE, write_authentication(asked), chain_id, decide)
        return await decided

    def _waits(self, session: HeadlessSession, happening: Happening) -> None:
        """Let `pair` return: the sign-in waits for the test program."""
        match happening:
            case CallHappening("call", call) if call.session is session and not self.decided.done():
                self.decided.set_result(None)

    async def _is_approved(self, session: HeadlessSession) -> bool:
        if self._policy in ("approve", "reject"):
            return self._policy == "approve"
        self._feed.tell(SessionHappening("session", session))
        self.decided.set_result(None)
        return await session.decision

    async def _approve(self, session: HeadlessSession, cacaos: list[Any]) -> None:
        """Approve. Over HTTP this is the first request, which tells whether the bridge is there."""
        if session.generation in ("1.x", "2.x"):
            await _until_it_is_back(lambda: self._publish(session, cacaos))
        else:
            await self._publish(session)
        self._decide(session, SessionState.APPROVED)

    def _decide(self, session: HeadlessSession, state: SessionState) -> None:
        session.state = state
        self._feed.tell(SessionHappening("session", session))
        if not self.decided.done():
            self.decided.set_result(None)

    async def _publish(self, session: HeadlessSession, cacaos: Sequence[Any] = ()) -> None:
        """Publish the accounts on the session's chain; in generation 2.x on all that were asked for."""
        ids = [
            f"eip155:{chain}:{account}"
            for chain in ([session.chain_id, *self._other_chains] if session.generation == "2.x" else ())
            for account in session.accounts
        ]
        await self._client.approve(ids or session.accounts, chain_id=session.chain_id, cacaos=cacaos)

    def _called(self, session: HeadlessSession, call: Call) -> None:
        chain_id = _chain_number(call.chain) or session.chain_id
        self._take(session, call.method, call.params, chain_id, lambda _, to: self._deliver(call, to))

    def _failed(self, session: HeadlessSession, error: BridgeClientError) -> None:
        if not self.decided.done():
            self.decided.set_exception(error)
            session.end(SessionState.ENDED, "bridge", str(error))
        else:
            self._over(session, SessionState.ENDED, "bridge", str(error))

    def _over(self, session: HeadlessSession, state: SessionState, ended_by: str, reason: str) -> None:
        if not session.is_over:
            session.end(state, ended_by, reason)
            self._feed.tell(SessionHappening("ended", session))


async def _until_it_is_back(attempt: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Try again as long as the bridge cannot be reached."""
    while True:
        try:
            await attempt()
        except BridgeUnreachableError as error:
            _log.info("an answer waits for the bridge: %s", error)
        else:
            return


# The chains that a dapp asks for: only generation 2.x names them in its proposal.


def _asked_chains(proposal: Proposal) -> list[int]:
    """The Ethereum chains of a proposal, required ones first, each once."""
    texts = [text for name in _NAMESPACES for text in _chain_texts(proposal.content.get(name))]
    numbers = (_chain_number(text) for text in texts)
    return list(dict.fromkeys(number for number in numbers if number is not None))


def _chain_texts(namespaces: Any) -> list[Any]:
    if not isinstance(namespaces, dict):
        return []
    texts: list[Any] = []
    for key, scope in namespaces.items():
        chains = scope.get("chains") if isinstance(scope, dict) else None
        texts += [key, *(chains if isinstance(chains, list) else ())]
    return texts


def _chosen_chain(own: int, asked: list[int]) -> int:
    """The wallet's own chain, unless the dapp asks for others alone: then the first of them."""
    return own if not asked or own in asked else asked[0]


def _chain_number(caip2: object) -> int | None:
    """The number in `eip155:1`; None for anything else."""
    found = _CHAIN.fullmatch(caip2) if isinstance(caip2, str) else None
    return int(found[1]) if found else None


def _origin_of(url: str) -> str:
    """`https://dapp.example` of any URL there; empty for a text that is no URL of a page."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    if parts.scheme not in ("http", "https") or not parts.netloc:
        return ""
    return f"{parts.scheme}://{parts.netloc}".lower()


# Web pages that call an injected provider (EIP-1193): each origin is a session, decided when it connects.


class PageLink:
    """The way to the pages of one origin. Its events go to the watchers of the wallet."""

    def __init__(self, policy: Policy, feed: Feed) -> None:
        self._policy = policy
        self._feed = feed
        self._answers: dict[str, asyncio.Future[Outcome]] = {}
        self.has_asked = False
        """Whether a page has asked to be connected."""

    async def connect(self, session: HeadlessSession) -> None:
        """Have the session decided by the policy, or by the test program. Raises SignatureRejectedError."""
        if not self.has_asked:
            self.has_asked = True
            self._feed.tell(SessionHappening("paired", session))
            if self._policy in ("approve", "reject"):
                session.decision.set_result(self._policy == "approve")
            else:
                self._feed.tell(SessionHappening("session", session))
        if not await asyncio.shield(session.decision):
            self._end(session, SessionState.REJECTED, "wallet")
            raise SignatureRejectedError(REJECTION)
        if session.state is SessionState.PROPOSED:
            session.state = SessionState.APPROVED
            self._feed.tell(SessionHappening("session", session))

    async def update(self, session: HeadlessSession, *, accounts: bool, chain: bool) -> None:
        """Emit the events of a provider."""
        if chain:
            self._emit(session, "chainChanged", quantity(session.chain_id))
        if accounts:
            self._emit(session, "accountsChanged", list(session.accounts))
        self._feed.tell(SessionHappening("changed", session))

    async def end(self, session: HeadlessSession) -> None:
        """Take the accounts away from the page."""
        was_open = session.is_open
        self._end(session, SessionState.ENDED, "wallet")
        if was_open:
            self._emit(session, "accountsChanged", [])
            self._emit(session, "disconnect", {"code": DISCONNECTED, "message": "The wallet disconnected."})

    async def deliver(self, call: HeadlessCall, outcome: Outcome) -> None:
        """Hand the outcome to the request that waits for it."""
        self._answer(call, outcome)

    async def leave(self) -> None:
        """A page has no connection."""

    def lose(self, call: HeadlessCall) -> None:
        """Answer a call that nobody will decide any more."""
        self._answer(call, Failure(DISCONNECTED, "The wallet disconnected."))

    async def outcome_of(self, call: HeadlessCall, take: Callable[[HeadlessCall], None]) -> Outcome:
        """Have the call taken, and wait for its outcome."""
        answer: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._answers[call.id] = answer
        try:
            take(call)
            return await answer
        finally:
            del self._answers[call.id]

    def _answer(self, call: HeadlessCall, outcome: Outcome) -> None:
        answer = self._answers.get(call.id)
        if answer is not None and not answer.done():
            answer.set_result(outcome)

    def _emit(self, session: HeadlessSession, name: str, value: Any) -> None:
        self._feed.tell(ProviderEvent(name, value, session))

    def _end(self, session: HeadlessSession, state: SessionState, ended_by: str) -> None:
        if session.is_over:
            return
        session.end(state, ended_by)
        if not session.decision.done():
            session.decision.set_result(False)
        event: Literal["session", "ended"] = "session" if state is SessionState.REJECTED else "ended"
        self._feed.tell(SessionHappening(event, session))


class Pages:
    """The sessions of web pages by origin. When one is over, the origin may begin another."""

    def __init__(self, make: Callable[[PageLink], HeadlessSession], policy: Policy, feed: Feed) -> None:
        self._make = make
        self._policy = policy
        self._feed = feed
        self._links: dict[str, PageLink] = {}
        self._sessions: dict[str, HeadlessSession] = {}

    def session_of(self, origin: str, name: str) -> tuple[HeadlessSession, PageLink]:
        """The session of the origin, which may not have asked for anything yet."""
        known = self._sessions.get(origin)
        if known is None or known.is_over:
            link = self._links[origin] = PageLink(self._policy, self._feed)
            known = self._sessions[origin] = self._make(link)
            known.dapp, known.origin = DappFacts(name or origin, origin), origin
        return known, self._links[origin]

    def connected(self) -> list[HeadlessSession]:
        """The sessions that a page has asked for and that are not over."""
        asked = (each for origin, each in self._sessions.items() if self._links[origin].has_asked)
        return [session for session in asked if not session.is_over]

    def forget(self) -> None:
        """Forget all pages."""
        self._links.clear()
        self._sessions.clear()
