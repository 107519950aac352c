"""`HeadlessWallet`: pairs by URI, answers by rules, and does what a test program says."""

import asyncio
import re
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack, suppress
from typing import Any, Self

import aiohttp

from bridge_server.ethereum.signing_key import SigningKey
from bridge_server.kit.client import (
    BadPairingError,
    BridgeClientError,
    Generation,
    Pace,
    Wallet,
    parse_pairing,
)
from bridge_server.kit.client.v2_protocol import is_relay_pairing, parse_relay_pairing
from bridge_server.kit.headless.answering import Answering, CallDispatcher
from bridge_server.kit.headless.keys import KeySource, OwnKeys
from bridge_server.kit.headless.links import BridgeSession, PageSession
from bridge_server.kit.headless.rules import Rule, RuleInMaking, RuleList, read_rule
from bridge_server.kit.headless.sessions import (
    CallLog,
    Feed,
    Happening,
    HeadlessCall,
    HeadlessSession,
    Offer,
    Outcome,
    Policy,
    SessionGeneration,
    SessionHappening,
    UnknownSessionError,
)

_PROPOSAL_SECONDS = 30.0
_PACE = Pace(longest_retry_seconds=2.0, patience_seconds=5.0)
_SHOWN_CHARACTERS = 4
_OTHER_VERSION = re.compile(r"(?:ethereum:wc-|wc:)[^@?]*@(?!1(?:\?|$))")
_V07_PATH = "/compat/v0.7"


class HeadlessWallet:
    """A wallet for tests: `async with HeadlessWallet(accounts=2, chain_id=31337) as wallet`.

    It signs with the accounts of the development mnemonic, of another `mnemonic`, with `private_keys`, or
    through another wallet's JSON-RPC at `rpc`. `accounts` are given to dapps: so many, or these
    numbers; by default the first of a mnemonic, else all. Sessions begin on `chain_id`; by default on the
    chain of `rpc` or of the node, else on 31337. With `node_url` transactions are sent; without, they are
    answered by their hashes and kept. `session` decides sessions, `policy` the calls that no rule decides.
    A URI of generation 2.x names no relay: `relay_url` does.

    Leaving the block closes the connections; the sessions stay open. Raises ValueError for options that
    do not fit together.
    """

    def __init__(
        self,
        accounts: int | Sequence[int] | None = None,
        *,
        chain_id: int | None = None,
        mnemonic: str | None = None,
        private_keys: Sequence[SigningKey] = (),
        rpc: str | None = None,
        rpc_token: str | None = None,
        node_url: str | None = None,
        session: Policy = "approve",
        policy: Policy = "approve",
        rules: Iterable[Rule | str] = (),
        relay_url: str | None = None,
        project_id: str | None = None,
        name: str = "Headless Wallet",
        pace: Pace | None = None,
    ) -> None:
        source = KeySource(mnemonic, private_keys, rpc, rpc_token, node_url)
        self._numbers = source.numbers(accounts)
        self._signer = source.signer(chain_id, self._numbers)
        self._session_policy = session
        self._relay_url, self._project_id, self._name = relay_url, project_id, name
        self._pace = pace or _PACE
        self._http: aiohttp.ClientSession | None = None
        self._closing = AsyncExitStack()
        self._sessions: dict[str, HeadlessSession] = {}
        self._uris: dict[str, HeadlessSession] = {}
        self._call_log = CallLog()
        self.feed = Feed()
        self.rules = RuleList(read_rule(rule) if isinstance(rule, str) else rule for rule in rules)
        answering = Answering(self._signer)
        self._dispatcher = CallDispatcher(self.rules, policy, answering, self._call_log, self.feed)
        self._pages: dict[str, PageSession] = {}

    async def __aenter__(self) -> Self:
        """Raises BridgeError when the node or the other wallet cannot be used; ValueError for `accounts`."""
        async with AsyncExitStack() as opening:
            opening.push_async_callback(self._signer.close)
            await self._signer.open()
            signer = self._signer
            policy = self._session_policy
            self._offer = Offer(signer.addresses, self._numbers, signer.chain_id, policy, self.feed)
            self.accounts = self._offer.accounts
            self._http = await opening.enter_async_context(
                aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), trust_env=False)
            )
            opening.enter_context(self.feed.watched_by(self._clear_up))
            opening.push_async_callback(self._leave)
            self._closing = opening.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._closing.aclose()

    @property
    def calls(self) -> list[HeadlessCall]:
        """The calls of all dapps, oldest first."""
        return list(self._call_log)

    @property
    def call_log(self) -> CallLog:
        """The calls, for tests that wait for one."""
        return self._call_log

    @property
    def sessions(self) -> list[HeadlessSession]:
        """The sessions since the start or the last reset, also sessions that are over."""
        pages = self._pages.values()
        return [*self._sessions.values(), *(each for each in pages if each.has_asked and not each.is_over)]

    @property
    def sent(self) -> list[str]:
        """The signed transactions that were kept, because there is no node to send them to."""
        return list(self._signer.kept) if isinstance(self._signer, OwnKeys) else []

    def session(self, session_id: str) -> HeadlessSession:
        """The session with this id. Raises UnknownSessionError."""
        for session in self.sessions:
            if session.id == session_id:
                return session
        raise UnknownSessionError("There is no such session: GET /sessions lists them.")

    def on(self, method: str, origin: str | None = None) -> RuleInMaking:
        """Begin a rule for a method (`*` for every one), perhaps of one dapp only. It comes after others."""
        return RuleInMaking(self.rules, method, origin)

    async def pair(
        self, uri: str, *, relay_url: str | None = None, generation: Generation | None = None
    ) -> HeadlessSession:
        """Pair with the dapp that shows this URI; returns when the session is decided, or waits for that.

        A URI that is paired already gives its session. Raises BadPairingError, BridgeUnreachableError and
        other kinds of BridgeClientError.
        """
        known = self._uris.get(uri.strip())
        if known is not None and not known.is_over:
            return known
        kind = generation_of(uri, generation)
        client = Wallet.from_uri(
            uri,
            relay_url=relay_url or self._relay_url,
            generation=generation,
            name=self._name,
            project_id=self._project_id,
            http=self._http,
            pace=self._pace,
        )
        session = BridgeSession(kind, self._offer, topic_of(uri), client, self._dispatcher.take)
        self._sessions[session.id] = self._uris[uri.strip()] = session
        task = session.start(_PROPOSAL_SECONDS)
        try:
            await asyncio.shield(session.decided)
        except BridgeClientError:
            del self._sessions[session.id], self._uris[uri.strip()]
            await asyncio.wait([task])
            raise
        return session

    async def request(self, method: str, params: Any = None, *, origin: str = "", name: str = "") -> Outcome:
        """The outcome of a call of an injected provider, in a page of this origin (EIP-1193)."""
        session = self._pages.get(origin)
        if session is None or session.is_over:
            session = self._pages[origin] = PageSession(self._offer, origin, name)
        return await session.request(method, [] if params is None else params, self._dispatcher.take)

    async def next_call(self, method: str | None = None, timeout: float = 5.0) -> HeadlessCall:
        """The next call that waits for a decision (`ask`); each is given once. Raises TimeoutError."""
        try:
            return await self._call_log.next_pending(method, timeout)
        except TimeoutError:
            what = f"call of {method}" if method else "call"
            raise TimeoutError(f"No {what} waited for a decision within {timeout} s.") from None

    async def reset(self) -> None:
        """End all sessions, forget all calls and transactions, and return to the rules of the start."""
        open_sessions = [session for session in self.sessions if not session.is_over]
        await asyncio.gather(*map(_end_quietly, open_sessions))
        self._sessions.clear()
        self._uris.clear()
        self._pages.clear()
        self._call_log.forget()
        self.rules.reset()
        self._signer.reset()

    def _clear_up(self, happening: Happening) -> None:
        match happening:
            case SessionHappening("session" | "ended", session) if session.is_over:
                self._dispatcher.abandon(session)

    async def _leave(self) -> None:
        for session in list(self._sessions.values()):
            await session.leave()
        await self._dispatcher.close()


async def _end_quietly(session: HeadlessSession) -> None:
    """End a session, and leave it if its bridge is away."""
    with suppress(BridgeClientError):
        await session.disconnect()
    await session.leave()


def generation_of(uri: str, wanted: Generation | None = None) -> SessionGeneration:
    """The generation that the URI belongs to. Raises BadPairingError, which says what is wrong with it."""
    if is_relay_pairing(uri):
        parse_relay_pairing(uri)
        return "2.x"
    if _OTHER_VERSION.match(uri.strip()):
        raise BadPairingError(
            "The URI is of no known generation: one begins with ethereum:wc-...@1, wc:...@1 or wc:...@2."
        )
    pairing = parse_pairing(uri)
    if uri.strip().startswith("wc:") and wanted in (None, "1.x"):
        return "1.x"
    if wanted in ("1.x", "2.x"):
        raise BadPairingError(f"The URI is one of a session over HTTP, not of generation {wanted}.")
    return "0.7" if pairing.bridge_url.endswith(_V07_PATH) else "plain"


def topic_of(uri: str) -> str:
    """`wc:5a26…`, which tells sessions apart and gives no key away."""
    path = uri.strip().partition("@")[0]
    topic = path.partition(":")[2].removeprefix("wc-")
    return f"wc:{topic[:_SHOWN_CHARACTERS]}…"
