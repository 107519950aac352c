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
    State.QUEUED: {
        _Event.POSTPONE: State.QUEUED,
        _Event.SIGN: State.SIGNED,
        _Event.REFUSE: State.REFUSED,
    },
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
    State.MINED: {
        _Event.UNMINE: State.SENT,
        _Event.SET_BACK: State.FORGOTTEN,
    },
    State.REPLACED: {},
    State.REFUSED: {},
    State.FORGOTTEN: {},
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
