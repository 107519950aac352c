"""The instruments of test mode: a movable clock, ordered faults, and records of messages and requests."""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from itertools import count
from time import perf_counter
from typing import Any, NamedTuple, TypeAlias

import orjson

from bridge_server.kernel.clock import MovableClock
from bridge_server.kernel.errors import InvalidInputError
from bridge_server.kernel.signals import Signals
from bridge_server.kernel.values import dataclass
from bridge_server.outbox.channels import BRIDGE, Sender, about
from bridge_server.outbox.guarded_client import Outcome, Verdict
from bridge_server.outbox.models import OutgoingMessage
from bridge_server.web.traffic import Exchange, TrafficLog, contents

MOST_FAULTS = 100
MOST_KEPT = 2_000
"""The most messages that are kept."""

_KEY = ("test-mode", "sent")
_WEBHOOK = "webhook"
_WEBHOOK_PUSH = "webhook-push"

HeadersOf: TypeAlias = Callable[[OutgoingMessage, int], Mapping[str, str]]
IsPush: TypeAlias = Callable[[OutgoingMessage], bool]
DELIVERED = "delivered"


class Where(StrEnum):
    """The place that a fault strikes."""

    REQUEST = "request"
    WEBHOOK = "webhook"
    FCM = "fcm"
    APNS = "apns"
    WEBPUSH = "webpush"
    NODE = "node"
    DISK = "disk"


class FaultRule(NamedTuple):
    """A rule: which attempts fail, and how. The first `after` attempts pass, the following `times` fail
    (None: all of them). `route` is the name of a route, or of a JSON-RPC method at the node; None stands for
    every one. `status` and `retry_after` (seconds) are the answer's; `answer` is the failure in a provider's
    own words, or `full` or `locked` for the disk. With `drop` the connection is closed without an answer.
    """

    where: Where
    route: str | None = None
    status: int | None = None
    retry_after: int | None = None
    answer: str | None = None
    delay_ms: int = 0
    drop: bool = False
    after: int = 0
    times: int | None = None


class ClockMove(NamedTuple):
    """A move of the clock: to `now_us` since the Unix epoch, or by `advance_us`."""

    advance_us: int = 0
    now_us: int | None = None
    frozen: bool = False


class ClockState(NamedTuple):
    """The server's clock: rows `swept` and messages `delivered` since the move that it follows."""

    now_ms: int
    frozen: bool
    swept: int = 0
    delivered: int = 0


@dataclass(slots=True)
class CountedFault:
    """A rule with a number of its own, the attempts that it applied to, and how many of them it made fail."""

    number: int
    rule: FaultRule
    attempts: int = 0
    hits: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """An attempt to deliver `notice`, of which the receiver or the provider gets `headers` and `payload`."""

    message_id: str
    channel: str
    at_ms: int
    outcome: str
    reason: str
    notice: Mapping[str, Any]
    payload: Any
    url: str | None = None
    token: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def text(self, *names: str) -> str | None:
        """The first of these members of the notice that is a text."""
        found = (self.notice.get(name) for name in names)
        return next((value for value in found if isinstance(value, str)), None)

    @property
    def topic(self) -> str | None:
        """The topic or session that the message is about."""
        return self.text("topic", "sessionId")

    def matches(self, channel: str | None, topic: str | None, account: str | None) -> bool:
        """Whether the message has these properties (None: any). An account may be an address alone."""
        known, wanted = (self.text("account") or "").lower(), (account or "").lower()
        is_account = account is None or known == wanted or known.endswith(f":{wanted}")
        return channel in (None, self.channel) and topic in (None, self.topic) and is_account


class Faults:
    """The rules in force, each with its count of hits. The first that applies to an attempt strikes it."""

    def __init__(self) -> None:
        self._rules: list[CountedFault] = []
        self._numbers = count(1)
        self.on_change: list[Callable[[], None]] = []
        """Called after each change of the rules or of their hits."""

    @property
    def rules(self) -> Sequence[CountedFault]:
        """The rules in their order."""
        return tuple(self._rules)

    def replace(self, rules: Sequence[FaultRule]) -> None:
        """Put these rules in the place of all others."""
        self._rules = []
        self.add(rules)

    def add(self, rules: Sequence[FaultRule]) -> None:
        """Add rules after the others, which keep their counts. Raises InvalidInputError."""
        if len(self._rules) + len(rules) > MOST_FAULTS:
            raise InvalidInputError(f"There are at most {MOST_FAULTS} rules: remove some first.")
        self._rules += (CountedFault(next(self._numbers), rule) for rule in rules)
        self._announce()

    def remove(self, number: int) -> None:
        """Forget the rule of this number, if it is in force; the others keep their counts."""
        self._rules = [each for each in self._rules if each.number != number]
        self._announce()

    def strike(self, where: Where, *routes: str) -> FaultRule | None:
        """Count an attempt at this place, on these routes; returns the rule that strikes it, if any."""
        for counted in self._rules:
            rule = counted.rule
            if rule.where is where and rule.route in (None, *routes):
                counted.attempts += 1
                if counted.attempts > rule.after and (rule.times is None or counted.hits < rule.times):
                    counted.hits += 1
                    self._announce()
                    return rule
        return None

    def _announce(self) -> None:
        for listener in self.on_change:
            listener()


class SentMessages:
    """The newest messages that left the server, in memory; the oldest go when there are too many."""

    def __init__(self, signals: Signals) -> None:
        self._signals = signals
        self._kept: deque[Sent] = deque(maxlen=MOST_KEPT)
        self.delivered = 0

    def note(self, sent: Sent) -> None:
        """Keep a message that an attempt to deliver was made for."""
        self._kept.append(sent)
        self.delivered += sent.outcome == DELIVERED
        self._signals.touch(_KEY)

    async def matching(
        self, channel: str | None, topic: str | None, account: str | None, wait_seconds: float
    ) -> Sequence[Sent]:
        """The messages with these properties (None: any), oldest first; with a wait, once there is one."""

        async def read() -> Sequence[Sent] | None:
            return [sent for sent in self._kept if sent.matches(channel, topic, account)] or None

        if wait_seconds <= 0:
            return await read() or ()
        return await self._signals.wait_for(_KEY, read, wait_seconds) or ()

    def clear(self) -> int:
        """Forget all messages; returns how many there were."""
        count = len(self._kept)
        self._kept.clear()
        return count


class Instruments(NamedTuple):
    """The instruments of one server in test mode, and the bearer token of its control routes."""

    clock: MovableClock
    faults: Faults
    sent: SentMessages
    traffic: TrafficLog
    token: str


def attempted(message: OutgoingMessage, outcome: Outcome, started: float, path: str, route: str) -> Exchange:
    """An attempt to deliver that has begun at `started`, for the record of requests."""
    status, took_ms = outcome.status or 0, round((perf_counter() - started) * 1_000, 1)
    return Exchange(
        BRIDGE, "POST", path, route, status, took_ms, summary=outcome.reason, about=about(message)
    )


class ObservedWebhooks:
    """A sender of webhooks that faults strike first, and whose messages are kept for the test."""

    def __init__(
        self, sender: Sender, instruments: Instruments, headers_of: HeadersOf, is_push: IsPush
    ) -> None:
        self._sender = sender
        self._instruments = instruments
        self._headers_of = headers_of
        self._is_push = is_push

    async def send(self, message: OutgoingMessage, now_ms: int) -> Outcome:
        """Attempt to deliver once, unless a fault strikes."""
        started = perf_counter()
        outcome = await self._attempt(message, now_ms)
        headers = {str(name): value for name, value in self._headers_of(message, now_ms).items()}
        channel = _WEBHOOK_PUSH if self._is_push(message) else _WEBHOOK
        document = orjson.loads(message.body)
        self._instruments.sent.note(
            Sent(
                message_id=message.message_id,
                channel=channel,
                at_ms=now_ms,
                outcome=outcome.verdict.name.lower(),
                reason=outcome.reason,
                notice=document,
                payload=document,
                url=message.url,
                headers=headers,
            )
        )
        attempt = attempted(message, outcome, started, message.url, channel)
        attempt.request = contents(headers, message.body)
        self._instruments.traffic.note(attempt)
        return outcome

    async def _attempt(self, message: OutgoingMessage, now_ms: int) -> Outcome:
        fault = self._instruments.faults.strike(Where.WEBHOOK)
        if fault is not None and fault.delay_ms:
            await asyncio.sleep(fault.delay_ms / 1_000)
        if fault is None or not (fault.drop or fault.status):
            return await self._sender.send(message, now_ms)
        if fault.drop or fault.status is None:
            return Outcome(Verdict.FAILED, "the receiver closed the connection (ordered by the test)")
        if 200 <= fault.status < 300:
            return Outcome(Verdict.DELIVERED, status=fault.status)
        verdict = Verdict.GONE if fault.status == 410 else Verdict.FAILED
        reason = f"the receiver answered {fault.status} (ordered by the test)"
        return Outcome(verdict, reason, fault.status, fault.retry_after)
