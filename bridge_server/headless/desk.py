"""The decision of calls: by the first rule that matches, else by the policy, else by the test program."""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any

from bridge_server.client import BridgeClientError
from bridge_server.headless.actions import (
    PLAIN_ACTIONS,
    Action,
    Answer,
    Approve,
    Ask,
    Hang,
    Policy,
    Refuse,
)
from bridge_server.headless.answering import Answering
from bridge_server.headless.calls import (
    OPEN,
    UNDECIDED,
    CallDecidedError,
    CallLog,
    CallState,
    Failure,
    HeadlessCall,
    Outcome,
    Result,
)
from bridge_server.headless.feed import CallCame, CallSettled, Feed
from bridge_server.headless.methods import QUIET
from bridge_server.headless.rules import RuleList
from bridge_server.headless.sessions import HeadlessSession
from bridge_server.wallet.rpc.rpc_errors import RESOURCE_UNAVAILABLE, rpc_error_of


class Desk:
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

    def take(self, call: HeadlessCall) -> None:
        """Decide and answer a new call, in the background."""
        self._calls.add(call)
        self._start(call, self._decide_by_rules(call))

    async def decide(self, call: HeadlessCall, action: Action) -> None:
        """Do what the test program says, and return when the answer is on its way.

        Raises CallDecidedError for a call that does not wait for a decision.
        """
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
                call.lose(call)
                self._settled(call)

    async def close(self) -> None:
        """End everything that is under way."""
        await _end(self._tasks)

    def _start(self, call: HeadlessCall, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks[task] = call
        task.add_done_callback(lambda done: self._tasks.pop(done, None))
        return task

    async def _decide_by_rules(self, call: HeadlessCall) -> None:
        try:
            decision = self._rules.decide(call)
        except Exception as error:  # the function of a rule's `when`
            await self._deliver(call, _failure(error, call))
            return
        if decision.rule is not None:
            call.because = decision.rule.text
        if decision.delay_seconds:
            await asyncio.sleep(decision.delay_seconds)
        if decision.action is not None:
            await self._act(call, decision.action)
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
        self._feed.tell(CallCame(call))

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
            await call.deliver(call, outcome)
        except BridgeClientError as error:
            call.state, call.because = CallState.LOST, str(error)
            self._settled(call)

    def _settled(self, call: HeadlessCall) -> None:
        self._calls.changed()
        self._feed.tell(CallSettled(call))


def _failure(error: Exception, call: HeadlessCall) -> Failure:
    rpc_error = rpc_error_of(error, call.method, call.id)
    return Failure(rpc_error.code, rpc_error.message, rpc_error.data)


async def _end(tasks: Iterable[asyncio.Task[None]]) -> None:
    ending = list(tasks)
    for task in ending:
        task.cancel()
    await asyncio.gather(*ending, return_exceptions=True)
