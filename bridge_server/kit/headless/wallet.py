"""`HeadlessWallet`: pairs by URI, answers by rules, and does what a test program says."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import AsyncExitStack, suppress
from typing import Any, Self
from uuid import uuid4

import aiohttp

from bridge_server.ethereum.address import hex_of, quantity
from bridge_server.ethereum.signing_key import SigningKey
from bridge_server.kernel.errors import ForbiddenError
from bridge_server.kernel.version import USER_AGENT
from bridge_server.kit.client import (
    BadPairingError,
    BridgeClientError,
    Generation,
    Pace,
    Wallet,
    parse_pairing,
)
from bridge_server.kit.client.authentication import read_authentication
from bridge_server.kit.client.v2_protocol import is_relay_pairing, parse_relay_pairing
from bridge_server.kit.headless.keys import (
    AUTHENTICATE,
    CHANGING_CHAIN,
    QUIET,
    RAW_TRANSACTIONS,
    SIGNING,
    KeySource,
    OwnKeys,
    Signer,
    signing_account,
)
from bridge_server.kit.headless.links import BridgeSession, PageSession
from bridge_server.kit.headless.rules import Rule, RuleInMaking, RuleList, read_rule
from bridge_server.kit.headless.sessions import (
    OPEN,
    PLAIN_ACTIONS,
    UNDECIDED,
    Action,
    Answer,
    Approve,
    Ask,
    CallDecidedError,
    CallHappening,
    CallLog,
    CallState,
    Deliver,
    Failure,
    Feed,
    Hang,
    Happening,
    HeadlessCall,
    HeadlessSession,
    Offer,
    Outcome,
    Policy,
    Refuse,
    Result,
    SessionGeneration,
    SessionHappening,
    SessionState,
    UnknownSessionError,
)
from bridge_server.kit.headless.terminal import text_of
from bridge_server.wallet.models import (
    Address,
    Caller,
    InvalidParamsError,
    MethodNotFoundError,
    UnknownAccountError,
)
from bridge_server.wallet.rpc.wire import RESOURCE_UNAVAILABLE, permissions, read_chain, rpc_error_of

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


# How a call is answered: by the first rule that matches, else by the policy, else by the test program.


class NotConnectedError(ForbiddenError, code="not-connected", title="Not connected"):
    """The wallet has not approved a session with the dapp."""

    detail = "The wallet has no approved session with this dapp: call eth_requestAccounts first."


class Answering:
    """Does what calls ask, and signs for approved sessions alone, with the accounts that they were given."""

    def __init__(self, signer: Signer) -> None:
        self._signer = signer
        self._methods: dict[str, Callable[[HeadlessCall], Awaitable[Any]]] = {
            "eth_accounts": self._accounts,
            "eth_requestAccounts": self._connect,
            "eth_chainId": self._chain_id,
            "net_version": self._net_version,
            "web3_clientVersion": self._client_version,
            "wallet_getPermissions": self._permissions,
            "wallet_requestPermissions": self._request_permissions,
            "wallet_revokePermissions": self._revoke_permissions,
            AUTHENTICATE: self._authenticate,
            **dict.fromkeys(CHANGING_CHAIN, self._go_to_chain),
            **dict.fromkeys((*SIGNING, *RAW_TRANSACTIONS), self._sign),
        }

    async def answer(self, call: HeadlessCall) -> Any:
        """The result. Raises BridgeError, BridgeClientError."""
        method = self._methods.get(call.method)
        return await self._signer.read(call.method, call.params) if method is None else await method(call)

    async def _accounts(self, call: HeadlessCall) -> list[str]:
        return list(call.session.accounts) if call.session.is_open else []

    async def _connect(self, call: HeadlessCall) -> list[str]:
        if not call.session.is_open:
            await call.session.connect()
        return list(call.session.accounts)

    async def _chain_id(self, call: HeadlessCall) -> str:
        return quantity(call.session.chain_id)

    async def _net_version(self, call: HeadlessCall) -> str:
        return str(call.session.chain_id)

    async def _client_version(self, _: HeadlessCall) -> str:
        return USER_AGENT

    async def _permissions(self, call: HeadlessCall) -> list[dict[str, Any]]:
        if not call.session.is_open:
            return []
        addresses = [Address(address) for address in call.session.accounts]
        return permissions(Caller("", call.session.origin), addresses)

    async def _request_permissions(self, call: HeadlessCall) -> list[dict[str, Any]]:
        await self._connect(call)
        return await self._permissions(call)

    async def _revoke_permissions(self, call: HeadlessCall) -> None:
        """End a web page's connection. A session over a bridge is ended by its own protocol."""
        if call.session.generation == "page":
            await call.session.disconnect()

    async def _authenticate(self, call: HeadlessCall) -> list[dict[str, Any]]:
        """Sign in with each account of the session, which is decided afterwards."""
        session = call.session
        if session.generation != "2.x" or session.state is not SessionState.PROPOSED:
            raise MethodNotFoundError(f"The wallet has no method {call.method} in a session.")
        asked = read_authentication(call.params)
        chain = f"eip155:{call.chain_id}"
        if chain not in asked.chains:
            raise InvalidParamsError("The sign-in must be on a chain of Ethereum, such as eip155:1.")
        cacaos = []
        for address in session.accounts:
            account = f"{chain}:{address}"
            params = [hex_of(asked.message(account).encode()), address]
            signature = await self._signer.sign("personal_sign", params, call.chain_id)
            cacaos.append(asked.cacao(account, signature))
        return cacaos

    async def _go_to_chain(self, call: HeadlessCall) -> None:
        """Go to any chain that a dapp names (EIP-3326, EIP-3085)."""
        _require_open(call)
        chain_id = read_chain(call.method, call.params)
        if chain_id != call.session.chain_id:
            await call.session.switch_chain(chain_id)

    async def _sign(self, call: HeadlessCall) -> Any:
        _require_open(call)
        if call.method in SIGNING:
            try:
                account = signing_account(call.method, call.params)
            except (LookupError, TypeError):
                raise InvalidParamsError(f"params of {call.method} name no account to sign with.") from None
            if isinstance(account, str) and not call.session.has_account(account):
                raise UnknownAccountError(account)
        return await self._signer.sign(call.method, call.params, call.chain_id)


def _require_open(call: HeadlessCall) -> None:
    if not call.session.is_open:
        raise NotConnectedError


class CallDispatcher:
    """Takes the calls of all sessions, each in a task of its own."""

    def __init__(
        self, rules: RuleList, policy: Policy, answering: Answering, calls: CallLog, feed: Feed
    ) -> None:
        self._rules = rules
        self._policy = policy
        self._answering = answering
        self._calls = calls
        self._feed = feed
        self._tasks: dict[asyncio.Task[None], HeadlessCall] = {}

    def take(
        self, session: HeadlessSession, method: str, params: Any, chain_id: int, deliver: Deliver
    ) -> HeadlessCall:
        """Decide and answer a new call, in the background."""
        call = HeadlessCall(
            id=uuid4().hex,
            session=session,
            method=method,
            params=params,
            chain_id=chain_id,
            text=text_of(method, params),
            decide=self.decide,
            deliver=deliver,
            came_at=asyncio.get_running_loop().time(),
        )
        self._calls.add(call)
        self._start(call, self._decide_by_rules(call))
        return call

    async def decide(self, call: HeadlessCall, action: Action) -> None:
        """Do as the test program says; returns when the answer is on its way. Raises CallDecidedError."""
        if call.state not in UNDECIDED:
            raise CallDecidedError(f"The call is {call.state}: it waits for no decision.")
        call.state, call.because = CallState.DECIDING, ""
        await asyncio.shield(self._start(call, self._act(call, action)))

    def abandon(self, session: HeadlessSession) -> None:
        """Give up the calls of a session that is over."""
        current = asyncio.current_task()
        ending = self._tasks.get(current) if current is not None else None  # by a call of its own
        for task, call in list(self._tasks.items()):
            if call.session is session and task is not current:
                task.cancel()
        for call in self._calls:
            if call.session is session and call.state in OPEN and call is not ending:
                call.state = CallState.LOST
                session.lose(call)
                self._settled(call)

    async def close(self) -> None:
        """End everything that is under way."""
        ending = list(self._tasks)
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)

    def _start(self, call: HeadlessCall, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks[task] = call
        task.add_done_callback(lambda done: self._tasks.pop(done, None))
        return task

    async def _decide_by_rules(self, call: HeadlessCall) -> None:
        try:
            action, delay_seconds, rule = self._rules.decide(call)
        except Exception as error:  # the function of a rule's `when`
            await self._deliver(call, _failure(error, call))
            return
        if rule is not None:
            call.because = rule.text
        if delay_seconds:
            await asyncio.sleep(delay_seconds)
        if action is not None:
            await self._act(call, action)
        elif call.method in QUIET:
            await self._act(call, Approve())
        else:
            call.because = call.because or ("" if self._policy == "approve" else f"--policy {self._policy}")
            await self._act(call, PLAIN_ACTIONS[self._policy])

    async def _act(self, call: HeadlessCall, action: Action) -> None:
        match action:
            case Ask():
                self._wait(call, CallState.PENDING)
            case Hang():
                self._wait(call, CallState.HANGING)
            case Refuse(code, message):
                await self._deliver(call, Failure(code, message))
            case Answer(result):
                await self._deliver(call, Result(result))
            case Approve():
                await self._deliver(call, await self._approved(call))

    def _wait(self, call: HeadlessCall, state: CallState) -> None:
        call.state = state
        self._calls.changed()
        self._feed.tell(CallHappening("call", call))

    async def _approved(self, call: HeadlessCall) -> Outcome:
        try:
            return Result(await self._answering.answer(call))
        except BridgeClientError as error:
            return Failure(RESOURCE_UNAVAILABLE, str(error))
        except Exception as error:
            return _failure(error, call)

    async def _deliver(self, call: HeadlessCall, outcome: Outcome) -> None:
        """Note and announce the outcome, and send it: a dapp that has it may end the session at once."""
        call.milliseconds = round((asyncio.get_running_loop().time() - call.came_at) * 1000)
        if isinstance(outcome, Result):
            call.state, call.result = CallState.ANSWERED, outcome.value
        else:
            call.state, call.error = CallState.REFUSED, outcome
        self._settled(call)
        try:
            await call.deliver(outcome)
        except BridgeClientError as error:
            call.state, call.because = CallState.LOST, str(error)
            self._settled(call)

    def _settled(self, call: HeadlessCall) -> None:
        self._calls.changed()
        self._feed.tell(CallHappening("answer", call))


def _failure(error: Exception, call: HeadlessCall) -> Failure:
    rpc_error = rpc_error_of(error, call.method, call.id)
    return Failure(rpc_error.code, rpc_error.message, rpc_error.data)
