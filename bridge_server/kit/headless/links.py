"""The sessions over a bridge or a relay, and the sessions of web pages that call an injected provider."""

import asyncio
import logging
import re
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from bridge_server.ethereum.address import quantity
from bridge_server.kernel.background import settle
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
    Deliver,
    Failure,
    Happening,
    HeadlessCall,
    HeadlessSession,
    Offer,
    Outcome,
    ProviderEvent,
    Result,
    SessionEvent,
    SessionGeneration,
    SessionState,
)
from bridge_server.wallet.models import SignatureRejectedError
from bridge_server.wallet.rpc.wire import DISCONNECTED

TakeCall = Callable[[HeadlessSession, str, Any, int, Deliver], HeadlessCall]

_CONNECT_SECONDS = 5.0
_DISCONNECTED = "The wallet disconnected."
_ENDED_BY_WALLET = "The wallet ended the session."
_NOT_ASKED = "The dapp did not ask for a session: have it show a new URI while it is there."

_ETHEREUM = "eip155"
_CHAIN = re.compile(rf"{_ETHEREUM}:([0-9]{{1,19}})")
_NAMESPACES = ("requiredNamespaces", "optionalNamespaces")  # in this order

_log = logging.getLogger(__name__)


class BridgeSession(HeadlessSession):
    """A session over a bridge or a relay, and the task that follows it."""

    def __init__(
        self, generation: SessionGeneration, offer: Offer, topic: str, client: Wallet, take: TakeCall
    ) -> None:
        super().__init__(generation, offer, topic)
        self._client = client
        self._take = take
        self._other_chains: list[int] = []
        self._is_leaving = False
        self._task: asyncio.Task[None] | None = None
        self.decided: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done once the session was approved or rejected, or waits; or with the error of the pairing."""

    def start(self, proposal_seconds: float) -> asyncio.Task[None]:
        """Follow the session in the background, from its proposal to its end."""
        self._task = asyncio.create_task(self._follow(proposal_seconds))
        return self._task

    async def publish_change(self, *, accounts: bool, chain: bool) -> None:
        await self._publish()
        caip2 = f"eip155:{self.chain_id}"
        with suppress(UnsupportedError):
            if chain:
                await self._client.emit("chainChanged", self.chain_id, caip2)
            if accounts:
                await self._client.emit("accountsChanged", list(self.accounts), caip2)
        self.tell("changed")

    async def publish_end(self) -> None:
        if self.state is SessionState.PROPOSED:
            with suppress(BridgeClientError):
                await self._client.reject()
        else:
            self._is_leaving = True
            await self._client.end()
        self._finish("wallet", _ENDED_BY_WALLET)
        await self.leave()

    async def connect(self) -> None:
        """A dapp on a bridge has asked already."""

    def lose(self, call: HeadlessCall) -> None:
        """The dapp has left its session, and knows that no answer comes."""

    async def leave(self) -> None:
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _deliver(self, call: Call, outcome: Outcome) -> None:
        """Answer a call, however long the bridge is away. Raises BridgeClientError for what is final."""
        if isinstance(outcome, Result):
            await _until_it_is_back(lambda: self._client.answer(call, outcome.value))
        else:
            await _until_it_is_back(lambda: self._client.refuse(call, outcome.code, outcome.message))

    async def _follow(self, proposal_seconds: float) -> None:
        try:
            async with self._client:
                await self._begin(await self._proposal(proposal_seconds))
                if self.state is SessionState.APPROVED:
                    async for call in self._client.calls():
                        chain_id = _chain_number(call.chain) or self.chain_id
                        self._take(self, call.method, call.params, chain_id, partial(self._deliver, call))
                    ended_by_dapp = ("dapp", "The dapp ended the session.")
                    self._finish(*(("wallet", _ENDED_BY_WALLET) if self._is_leaving else ended_by_dapp))
        except BridgeClientError as error:
            self._failed(error)
        except TimeoutError:
            self._failed(AnswerTimeoutError(_NOT_ASKED))
        except Exception:
            _log.exception("a session failed")
            self._failed(BridgeClientError("The wallet failed; the reason is in its log."))
        finally:
            self._finish("wallet", "The wallet was closed.")
            if not self.decided.done():
                self.decided.cancel()

    async def _proposal(self, seconds: float) -> Proposal:
        """The dapp's proposal. Raises BridgeUnreachableError long before a dapp that is slow is given up."""
        async with asyncio.timeout(seconds):
            while True:
                try:
                    return await self._client.proposal(_CONNECT_SECONDS)
                except AnswerTimeoutError as error:
                    _log.info("the dapp has not asked for a session yet: %s", error)

    async def _begin(self, proposal: Proposal) -> None:
        self.dapp = DappFacts(proposal.name, proposal.url)
        self.origin = _origin_of(proposal.url) or proposal.name
        texts = [text for name in _NAMESPACES for text in _chain_texts(proposal.content.get(name))]
        numbers = map(_chain_number, texts)
        asked = list(dict.fromkeys(number for number in numbers if number is not None))
        self.chain_id = _chosen_chain(self.chain_id, asked)
        self._other_chains = [chain for chain in asked if chain != self.chain_id]
        self.tell("paired")
        cacaos = await self._signed_in(proposal) if await self._is_approved() else None
        if cacaos is None:
            await self._client.reject()
            self._decide_as(SessionState.REJECTED)
            self.end(SessionState.REJECTED, "wallet")
        else:
            await self._approve(cacaos)

    async def _signed_in(self, proposal: Proposal) -> list[Any] | None:
        """The sign-ins that the proposal asks for, each decided as a call; None if one is refused."""
        cacaos: list[Any] = []
        with self.offer.feed.watched_by(self._waits):
            for asked in proposal.authentications:
                outcome = await self._decided_authentication(asked)
                if not isinstance(outcome, Result):
                    return None
                cacaos += outcome.value if isinstance(outcome.value, list) else [outcome.value]
        return cacaos

    async def _decided_authentication(self, asked: Authentication) -> Outcome:
        decided: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

        async def decide(outcome: Outcome) -> None:
            settle(decided, outcome)

        numbers = [number for number in map(_chain_number, asked.chains) if number is not None]
        chain_id = _chosen_chain(self.chain_id, numbers)
        self._take(self, AUTHENTICATE, write_authentication(asked), chain_id, decide)
        return await decided

    def _waits(self, happening: Happening) -> None:
        """Let `pair` return: the sign-in waits for the test program."""
        match happening:
            case CallHappening("call", call) if call.session is self and not self.decided.done():
                self.decided.set_result(None)

    async def _is_approved(self) -> bool:
        if self.offer.policy in ("approve", "reject"):
            return self.offer.policy == "approve"
        self.tell("session")
        self.decided.set_result(None)
        return await self.decision

    async def _approve(self, cacaos: list[Any]) -> None:
        """Approve. Over HTTP this is the first request, which tells whether the bridge is there."""
        if self.generation in ("1.x", "2.x"):
            await _until_it_is_back(lambda: self._publish(cacaos))
        else:
            await self._publish()
        self._decide_as(SessionState.APPROVED)

    def _decide_as(self, state: SessionState) -> None:
        self.state = state
        self.tell("session")
        settle(self.decided, None)

    async def _publish(self, cacaos: Sequence[Any] = ()) -> None:
        """Publish the accounts on the session's chain; in generation 2.x on all that were asked for."""
        ids = [
            f"eip155:{chain}:{account}"
            for chain in ([self.chain_id, *self._other_chains] if self.generation == "2.x" else ())
            for account in self.accounts
        ]
        await self._client.approve(ids or self.accounts, chain_id=self.chain_id, cacaos=cacaos)

    def _failed(self, error: BridgeClientError) -> None:
        if not self.decided.done():
            self.decided.set_exception(error)
            self.end(SessionState.ENDED, "bridge", str(error))
        else:
            self._finish("bridge", str(error))

    def _finish(self, ended_by: str, reason: str) -> None:
        if not self.is_over:
            self.end(SessionState.ENDED, ended_by, reason)
            self.tell("ended")


async def _until_it_is_back(attempt: Callable[[], Coroutine[Any, Any, None]]) -> None:
    while True:
        try:
            await attempt()
        except BridgeUnreachableError as error:
            _log.info("an answer waits for the bridge: %s", error)
        else:
            return


# The chains that a dapp asks for: only generation 2.x names them in its proposal.


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


class PageSession(HeadlessSession):
    """The session of the pages of one origin. Its events go to the watchers of the wallet."""

    def __init__(self, offer: Offer, origin: str, name: str) -> None:
        super().__init__("page", offer)
        self.dapp, self.origin = DappFacts(name or origin, origin), origin
        self._answers: dict[str, asyncio.Future[Outcome]] = {}
        self.has_asked = False
        """Whether a page has asked to be connected."""

    async def connect(self) -> None:
        if not self.has_asked:
            self.has_asked = True
            self.tell("paired")
            if self.offer.policy in ("approve", "reject"):
                self.decision.set_result(self.offer.policy == "approve")
            else:
                self.tell("session")
        if not await asyncio.shield(self.decision):
            self._finish(SessionState.REJECTED, "session")
            raise SignatureRejectedError(REJECTION)
        if self.state is SessionState.PROPOSED:
            self.state = SessionState.APPROVED
            self.tell("session")

    async def publish_change(self, *, accounts: bool, chain: bool) -> None:
        if chain:
            self._emit("chainChanged", quantity(self.chain_id))
        if accounts:
            self._emit("accountsChanged", list(self.accounts))
        self.tell("changed")

    async def publish_end(self) -> None:
        """Take the accounts away from the page."""
        was_open = self.is_open
        self._finish(SessionState.ENDED, "ended")
        if was_open:
            self._emit("accountsChanged", [])
            self._emit("disconnect", {"code": DISCONNECTED, "message": _DISCONNECTED})

    async def leave(self) -> None:
        """A page has no connection."""

    def lose(self, call: HeadlessCall) -> None:
        answer = self._answers.get(call.id)
        if answer is not None:
            settle(answer, Failure(DISCONNECTED, _DISCONNECTED))

    async def request(self, method: str, params: Any, take: TakeCall) -> Outcome:
        """Have a call taken, and wait for its outcome."""
        answer: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

        async def deliver(outcome: Outcome) -> None:
            settle(answer, outcome)

        call = take(self, method, params, self.chain_id, deliver)
        self._answers[call.id] = answer
        try:
            return await answer
        finally:
            del self._answers[call.id]

    def _emit(self, name: str, value: Any) -> None:
        self.offer.feed.tell(ProviderEvent(name, value, self))

    def _finish(self, state: SessionState, event: SessionEvent) -> None:
        if not self.is_over:
            self.end(state, "wallet")
            settle(self.decision, False)
            self.tell(event)
