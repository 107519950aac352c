"""Web pages that call an injected provider (EIP-1193): each origin is a session, decided when it connects."""

import asyncio
from collections.abc import Callable
from typing import Any

from bridge_server.ethereum.hex_data import quantity
from bridge_server.headless.actions import Policy
from bridge_server.headless.calls import Failure, HeadlessCall, Outcome
from bridge_server.headless.feed import (
    Feed,
    Paired,
    ProviderEvent,
    SessionChanged,
    SessionDecided,
    SessionEnded,
)
from bridge_server.headless.sessions import DappFacts, HeadlessSession, SessionState
from bridge_server.wallet.errors import SignatureRejectedError
from bridge_server.wallet.rpc.rpc_errors import DISCONNECTED

_REJECTED = "The user rejected the request."


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
            self._feed.tell(Paired(session))
            self._begin(session)
        if not await asyncio.shield(session.decision):
            self._end(session, SessionState.REJECTED, "wallet")
            raise SignatureRejectedError(_REJECTED)
        if session.state is SessionState.PROPOSED:
            session.state = SessionState.APPROVED
            self._feed.tell(SessionDecided(session))

    async def update(self, session: HeadlessSession, *, accounts: bool, chain: bool) -> None:
        """Emit the events of a provider."""
        if chain:
            self._emit(session, "chainChanged", quantity(session.chain_id))
        if accounts:
            self._emit(session, "accountsChanged", list(session.accounts))
        self._feed.tell(SessionChanged(session))

    async def end(self, session: HeadlessSession) -> None:
        """Take the accounts away from the page."""
        was_open = session.is_open
        self._end(session, SessionState.ENDED, "wallet")
        if was_open:
            self._emit(session, "accountsChanged", [])
            self._emit(session, "disconnect", {"code": DISCONNECTED, "message": "The wallet disconnected."})

    async def deliver(self, call: HeadlessCall, outcome: Outcome) -> None:
        """Hand the outcome to the request that waits for it."""
        answer = self._answers.get(call.id)
        if answer is not None and not answer.done():
            answer.set_result(outcome)

    async def leave(self) -> None:
        """A page has no connection."""

    def lose(self, call: HeadlessCall) -> None:
        """Answer a call that nobody will decide any more."""
        answer = self._answers.get(call.id)
        if answer is not None and not answer.done():
            answer.set_result(Failure(DISCONNECTED, "The wallet disconnected."))

    async def outcome_of(self, call: HeadlessCall, take: Callable[[HeadlessCall], None]) -> Outcome:
        """Have the call taken, and wait for its outcome."""
        answer: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._answers[call.id] = answer
        try:
            take(call)
            return await answer
        finally:
            del self._answers[call.id]

    def _emit(self, session: HeadlessSession, name: str, value: Any) -> None:
        self._feed.tell(ProviderEvent(name, value, session))

    def _begin(self, session: HeadlessSession) -> None:
        match self._policy:
            case "approve" | "reject":
                session.decision.set_result(self._policy == "approve")
            case _:
                self._feed.tell(SessionDecided(session))

    def _end(self, session: HeadlessSession, state: SessionState, ended_by: str) -> None:
        if session.is_over:
            return
        session.end(state, ended_by)
        if not session.decision.done():
            session.decision.set_result(False)
        self._feed.tell(SessionDecided(session) if state is SessionState.REJECTED else SessionEnded(session))


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
        return [
            session
            for origin, session in self._sessions.items()
            if self._links[origin].has_asked and not session.is_over
        ]

    def forget(self) -> None:
        """Forget all pages."""
        self._links.clear()
        self._sessions.clear()
