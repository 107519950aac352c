"""The states of a transaction, as one table: the next state by state and event.

1. A request is stored as `queued` while the node cannot be asked for what it leaves open; else as `signed`.
2. A transaction is signed once. From then on its bytes never change, and its nonce is taken.
3. `queued` and `signed` wait for the node. A transaction that does not reach it is postponed in its state.
4. The node accepts a signed transaction. Another one of the account with that nonce, signed or sent, is
   replaced then.
5. Only a waiting transaction can be refused, by the node or by the person who approves. Its nonce is free
   again.
6. A sent transaction is mined; or the node drops it, and its bytes are broadcast again; or another one has
   used its nonce on the chain.
7. A reorganisation of the chain takes a mined transaction back into the node's pool.
8. When the chain is set back, transactions that the node does not know any more are forgotten: nothing is
   broadcast into another history.
9. `replaced`, `refused` and `forgotten` are final.

An event that a state does not list changes nothing: the transaction has moved on meanwhile, or something else
decides (the node's answer to the next broadcast tells more of a signed one than its pool does).
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

from bridge_server.kernel.clock import Clock
from bridge_server.kernel.events import DomainEvent
from bridge_server.kernel.values import dataclass
from bridge_server.wallet.models import TransactionId
from bridge_server.wallet.models import TransactionState as State


class TransactionEvent(StrEnum):
    """An event in the life of a stored transaction."""

    SIGN = "sign"
    """The wallet has signed it."""
    POSTPONE = "postpone"
    """The attempt did not reach the node, or waits for a person; the next one comes later."""
    ACCEPT = "accept"
    """The node has taken it, or had it already."""
    REFUSE = "refuse"
    """The node calls it invalid, or the person who approves said no."""
    REPLACE = "replace"
    """The node has accepted another transaction with its nonce."""
    MINE = "mine"
    """The node says which block it is in."""
    UNMINE = "unmine"
    """The node has it in its pool, in no block."""
    DROP = "drop"
    """The node does not know it, and its nonce is not used on the chain."""
    LOSE_NONCE = "lose nonce"
    """The node does not know it, and its nonce is used on the chain."""
    SET_BACK = "set back"
    """The chain was set back, and the node does not know it."""


_Event = TransactionEvent

TRANSITIONS: Mapping[State, Mapping[TransactionEvent, State]] = {
    State.QUEUED: {_Event.POSTPONE: State.QUEUED, _Event.SIGN: State.SIGNED, _Event.REFUSE: State.REFUSED},
    State.SIGNED: {
        _Event.POSTPONE: State.SIGNED,
        _Event.ACCEPT: State.SENT,
        _Event.REPLACE: State.REPLACED,
        _Event.REFUSE: State.REFUSED,
        _Event.SET_BACK: State.FORGOTTEN,
    },
    State.SENT: {
        _Event.MINE: State.MINED,
        _Event.REPLACE: State.REPLACED,
        _Event.LOSE_NONCE: State.REPLACED,
        _Event.DROP: State.SIGNED,
        _Event.SET_BACK: State.FORGOTTEN,
    },
    State.MINED: {_Event.UNMINE: State.SENT, _Event.SET_BACK: State.FORGOTTEN},
    **{final: {} for final in (State.REPLACED, State.REFUSED, State.FORGOTTEN)},
}

WAITING = (State.QUEUED, State.SIGNED)
"""The node does not have it: an account's queue."""
LIVE = (State.SIGNED, State.SENT)
"""States in which a transaction has its nonce for itself."""
FOLLOWED = (State.SIGNED, State.SENT, State.MINED)
"""The node may know it."""
SETTLED = tuple(state for state in State if state not in (*WAITING, *LIVE))
"""Nothing is left to do; the row is deleted some time later."""


def next_state(state: State, event: TransactionEvent) -> State:
    """The state after the event; the given one when the event does not concern it."""
    return TRANSITIONS[state].get(event, state)


def states_before(event: TransactionEvent) -> tuple[State, ...]:
    """The states which the event concerns."""
    return tuple(state for state in State if event in TRANSITIONS[state])


def state_after(event: TransactionEvent) -> State:
    """The one state that the event leads to. Raises ValueError if it depends on the state before."""
    (after,) = {TRANSITIONS[state][event] for state in states_before(event)}
    return after


def is_in(states: Iterable[State]) -> str:
    """The SQL condition that a row is in one of the states, spelled as the indexes spell it."""
    listed = ", ".join(f"'{state}'" for state in states)
    return f"state IN ({listed})" if "," in listed else f"state = {listed}"


@dataclass(frozen=True, slots=True)
class TransactionsDue(DomainEvent):
    """Transactions for the node are due at this time, or others may have become due by it."""

    due_at_ms: int


@dataclass(frozen=True, slots=True)
class TransactionsMoved(DomainEvent):
    """Transactions are in another state, or were tried in vain."""


@dataclass(frozen=True, slots=True)
class TransactionsPostponed(DomainEvent):
    """The next attempt to send some transactions is due at this time, and no earlier."""

    due_at_ms: int


# The pause of a transaction before its next attempt: doubled each time, at most a minute.

_FIRST_DELAY_MS = 1_000
_LONGEST_DELAY_MS = 60_000
_MOST_DOUBLINGS = 6
_CALM_US = 600_000_000
"""A node that has dropped nothing for so long is trusted again."""


def delay_ms(attempts: int) -> int:
    """The delay after this number of attempts that did not reach the node."""
    return min(_LONGEST_DELAY_MS, _FIRST_DELAY_MS << min(attempts, _MOST_DOUBLINGS))


class _Drop(NamedTuple):
    """The number of drops of a transaction, and the time of the next broadcast, of time elapsed."""

    times: int
    due_at_us: int


class DropPauses:
    """Pauses before a transaction which the node took and dropped is broadcast again: none at first, since a
    node that was restarted needs it, then growing ones. They are in memory: a restart costs one broadcast.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._drops: dict[TransactionId, _Drop] = {}  # the longest paused first

    def add(self, transaction_id: TransactionId) -> int:
        """Note that the node has dropped it; returns in how many milliseconds the next broadcast is due."""
        now_us = self._clock.elapsed_us()
        while self._drops and now_us - next(iter(self._drops.values())).due_at_us >= _CALM_US:
            del self._drops[next(iter(self._drops))]
        before = self._drops.pop(transaction_id, None)
        times, due_at_us = 1, now_us
        if before is not None:
            times = before.times + 1
            due_at_us = max(now_us, before.due_at_us + delay_ms(before.times - 1) * 1_000)
        self._drops[transaction_id] = _Drop(times, due_at_us)
        return -((now_us - due_at_us) // 1_000)

    def is_paused(self, transaction_id: TransactionId) -> bool:
        """Whether the transaction must not be broadcast yet."""
        drop = self._drops.get(transaction_id)
        return drop is not None and self._clock.elapsed_us() < drop.due_at_us
