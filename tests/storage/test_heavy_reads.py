"""The reads that leave connections to the others are statements of the rooms."""

from pathlib import Path

import pytest

from bridge_server.assembly.postgres import PostgresBackend
from bridge_server.assembly.postgres_overrides import HEAVY
from bridge_server.inbox import store as inbox_sql
from bridge_server.kernel.clock import SystemClock
from bridge_server.kernel.events import Events
from bridge_server.notify import store as notify_sql
from bridge_server.outbox import store as outbox_store
from bridge_server.relay import store as relay_sql
from bridge_server.settings.settings import Settings
from bridge_server.storage.postgres import database
from tests.support.statements import STATEMENTS


def test_each_is_a_statement_that_reads() -> None:
    assert set(STATEMENTS.values()) >= HEAVY
    assert all(sql.lstrip().startswith("SELECT") for sql in HEAVY)


def test_pages_of_many_rows_are_among_them_and_polls_are_not() -> None:
    pages = {inbox_sql.PAGE, inbox_sql.SUBSCRIPTIONS, notify_sql.LISTING_PAGE, notify_sql.LOOKUP}

    assert pages | {outbox_store.PENDING_QUEUES} <= HEAVY
    assert not {relay_sql.SESSION_PAYLOAD, relay_sql.PENDING_CALLS, relay_sql.STATUS} & HEAVY


def test_the_database_of_the_server_is_given_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[object] = []
    monkeypatch.setattr(database.PostgresDatabase, "__init__", lambda *_, heavy, **__: given.append(heavy))

    settings = Settings(data_dir=tmp_path, database="postgresql://bridge@localhost/bridge")
    PostgresBackend(settings, Events(), SystemClock())

    assert given == [HEAVY]
