"""How a call is answered: by the first rule that matches, else by the policy, else by the test program."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any
from uuid import uuid4

from bridge_server.ethereum.address import hex_of, quantity
from bridge_server.kernel.errors import ForbiddenError
from bridge_server.kernel.version import USER_AGENT
from bridge_server.kit.client import BridgeClientError
from bridge_server.kit.client.authentication import read_authentication
from bridge_server.kit.headless.keys import (
    AUTHENTICATE,
    CHANGING_CHAIN,
    QUIET,
    RAW_TRANSACTIONS,
    SIGNING,
    Signer,
    signing_account,
)
from bridge_server.kit.headless.rules import RuleList
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
    HeadlessCall,
    HeadlessSession,
    Outcome,
    Policy,
    Refuse,
    Result,
    SessionState,
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


class NotConnectedError(ForbiddenError):
    """The wallet has not approved a session with the dapp."""

    code = "not-connected"
    title = "Not connected"

    def __init__(self) -> None:
        super().__init__("The wallet has no approved session with this dapp: call eth_requestAccounts first.")


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
