"""The table of a transaction's states: complete, and the same in the statements and in the documentation."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from bridge_server.storage.migrate import migrate, packaged_migrations
from bridge_server.wallet.models import TransactionState as State
from bridge_server.wallet.transactions import store
from bridge_server.wallet.transactions.states import (
    FOLLOWED,
    LIVE,
    SETTLED,
    TRANSITIONS,
    WAITING,
    TransactionEvent,
    is_in,
    next_state,
    state_after,
    states_before,
)
from tests.support.rows import each_row

PAGE = Path(__file__).parents[2] / "docs" / "wallet.md"
HEADER = "States of a transaction, and what each becomes:"


def rows_of_the_page() -> Iterator[tuple[str, set[str]]]:
    """Each state that the page lists, with the states that it says it becomes."""
    _, _, table = PAGE.read_text("utf-8").partition(f"{HEADER}\n\n")
    for item in table.split("\n\n")[0].replace("\n  ", " ").splitlines():
        states, _, becomes = item.rpartition(": ")
        for state in re.findall(r"`(\w+)`", states):
            yield state, set(re.findall(r"`(\w+)`", becomes)) & set(State)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    migrate(tmp_path / "bridge.db", packaged_migrations())
    with closing(sqlite3.connect(tmp_path / "bridge.db", isolation_level=None)) as connection:
        yield connection


def state_after_statement(database: sqlite3.Connection, state: State, statement: str, *values: object) -> str:
    """The state of a row that was in `state` before the statement."""
    database.execute("DELETE FROM wallet_transactions")
    database.execute(
        "INSERT INTO wallet_transactions (transaction_id, sender, params, caller, request_id, asked_at_ms,"
        " state, chain_id, nonce, transaction_hash, raw, next_attempt_at_ms)"
        " VALUES ('one', '0xa1', '{}', '', '', 0, ?, 1, 0, '0xhash', '0xraw', 0)",
        (state,),
    )
    database.execute(statement, values).fetchall()
    ((after,),) = database.execute("SELECT state FROM wallet_transactions")
    return str(after)


def test_the_documentation_has_the_table_of_states() -> None:
    assert list(rows_of_the_page()) == [
        (state, {after for after in TRANSITIONS[state].values() if after is not state}) for state in State
    ]


def test_every_state_has_a_row_and_every_event_an_effect() -> None:
    assert list(TRANSITIONS) == list(State)
    assert {event for row in TRANSITIONS.values() for event in row} == set(TransactionEvent)


def test_final_states_have_no_events() -> None:
    final = {state for state, row in TRANSITIONS.items() if not row}

    assert final == {State.REPLACED, State.REFUSED, State.FORGOTTEN}
    assert set(SETTLED) == final | {State.MINED}
    assert set(WAITING) | set(FOLLOWED) | final == set(State)
    assert set(LIVE) == set(FOLLOWED) - {State.MINED}


def test_every_state_is_reached_from_the_two_that_a_request_begins_in() -> None:
    reached = {State.QUEUED, State.SIGNED}
    for _ in State:
        reached |= {after for state in reached for after in TRANSITIONS[state].values()}

    assert reached == set(State)


@each_row("state", State)
def test_an_event_that_a_state_does_not_list_changes_nothing(state: State) -> None:
    for event in TransactionEvent:
        after = next_state(state, event)
        assert (after is state) == (TRANSITIONS[state].get(event, state) is state)


def test_an_event_with_two_outcomes_has_no_state_after_it() -> None:
    with pytest.raises(ValueError, match="too many values"):
        state_after(TransactionEvent.POSTPONE)


def test_conditions_are_spelled_as_the_indexes_spell_them(database: sqlite3.Connection) -> None:
    indexes = {text for (text,) in database.execute("SELECT sql FROM sqlite_master WHERE type = 'index'")}
    conditions = {text.partition(" WHERE ")[2] for text in indexes if text and "wallet_transactions" in text}

    assert {is_in(WAITING), is_in(FOLLOWED), is_in([State.SENT])} <= {
        " ".join(each.split()) for each in conditions
    }


@each_row("state", State)
@each_row(
    ("event", "statement", "values"),
    [
        (TransactionEvent.ACCEPT, store.ACCEPT, ("one",)),
        (TransactionEvent.REFUSE, store.REFUSE, ("no", 1, "one")),
        (TransactionEvent.POSTPONE, store.POSTPONE, (1, 2, "away", "one")),
        (TransactionEvent.REPLACE, store.REPLACE_OTHERS, ("another", 1, 1, "0xa1", 0, "0xother")),
    ],
)
def test_a_statement_moves_a_row_as_the_table_says(
    database: sqlite3.Connection,
    state: State,
    event: TransactionEvent,
    statement: str,
    values: tuple[object, ...],
) -> None:
    assert state_after_statement(database, state, statement, *values) == next_state(state, event)


@each_row("state", State)
def test_only_a_queued_transaction_becomes_signed(database: sqlite3.Connection, state: State) -> None:
    values = ("one", "0xa1", "{}", 0, "", None, "", 1, State.SIGNED, 7, "0xnew", "0xnew", 0)

    after = state_after_statement(database, state, store.UPSERT, *values)

    assert after == next_state(state, TransactionEvent.SIGN)
    ((nonce,),) = database.execute("SELECT nonce FROM wallet_transactions")
    assert nonce == (7 if state in states_before(TransactionEvent.SIGN) else 0)
