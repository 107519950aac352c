"""A session over a bridge or a relay: from the pairing URI to its end."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from bridge_server.client import (
    AnswerTimeoutError,
    Authentication,
    BridgeClientError,
    BridgeUnreachableError,
    Call,
    Proposal,
    UnsupportedError,
    Wallet,
)
from bridge_server.client.session.authentication import write_authentication
from bridge_server.headless.actions import Policy
from bridge_server.headless.calls import HeadlessCall, Outcome, Result
from bridge_server.headless.chains import asked_chains, chain_number, chosen_chain
from bridge_server.headless.feed import (
    CallCame,
    Feed,
    Happening,
    Paired,
    SessionChanged,
    SessionDecided,
    SessionEnded,
)
from bridge_server.headless.methods import AUTHENTICATE
from bridge_server.headless.origins import origin_of
from bridge_server.headless.sessions import DappFacts, HeadlessSession, SessionState

_CONNECT_SECONDS = 5.0
_ENDED_BY_WALLET = "The wallet ended the session."
_NOT_ASKED = "The dapp did not ask for a session: have it show a new URI while it is there."

_log = logging.getLogger(__name__)

Deliver = Callable[[HeadlessCall, Outcome], Coroutine[Any, Any, None]]
TakeCall = Callable[[HeadlessSession, str, Any, int, Deliver], None]


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
        self._feed.tell(SessionChanged(session))

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
        """Let go of the connection and not of the session."""
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
        session.origin = origin_of(proposal.url) or proposal.name
        asked = asked_chains(proposal)
        session.chain_id = chosen_chain(session.chain_id, asked)
        self._other_chains = [chain for chain in asked if chain != session.chain_id]
        self._feed.tell(Paired(session))
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

        numbers = [number for number in map(chain_number, asked.chains) if number is not None]
        chain_id = chosen_chain(session.chain_id, numbers)
        self._take(session, AUTHENTICATE, write_authentication(asked), chain_id, decide)
        return await decided

    def _waits(self, session: HeadlessSession, happening: Happening) -> None:
        """Let `pair` return: the sign-in waits for the test program."""
        if isinstance(happening, CallCame) and happening.call.session is session and not self.decided.done():
            self.decided.set_result(None)

    async def _is_approved(self, session: HeadlessSession) -> bool:
        if self._policy in ("approve", "reject"):
            return self._policy == "approve"
        self._feed.tell(SessionDecided(session))
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
        self._feed.tell(SessionDecided(session))
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
        chain_id = chain_number(call.chain) or session.chain_id
        self._take(
            session, call.method, call.params, chain_id, lambda _, outcome: self._deliver(call, outcome)
        )

    def _failed(self, session: HeadlessSession, error: BridgeClientError) -> None:
        if not self.decided.done():
            self.decided.set_exception(error)
            session.end(SessionState.ENDED, "bridge", str(error))
            return
        self._over(session, SessionState.ENDED, "bridge", str(error))

    def _over(self, session: HeadlessSession, state: SessionState, ended_by: str, reason: str) -> None:
        if not session.is_over:
            session.end(state, ended_by, reason)
            self._feed.tell(SessionEnded(session))


async def _until_it_is_back(attempt: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Try again as long as the bridge cannot be reached."""
    while True:
        try:
            await attempt()
        except BridgeUnreachableError as error:
            _log.info("an answer waits for the bridge: %s", error)
        else:
            return
