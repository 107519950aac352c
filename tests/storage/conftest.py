"""A database of every driver: with the tables of `tests.storage.notes`, or with those of the rooms.

White-box: how long a lock is waited for has no setting.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bridge_server.kernel.events import Events
from bridge_server.kernel.signals import Key, Touched
from bridge_server.storage import connection
from bridge_server.storage.database import Database
from bridge_server.storage.postgres import connection as postgres_connection
from tests.support.drivers import DRIVERS, Driver
from tests.support.engines import ENGINES, schema_database


@pytest.fixture
def events() -> Events:
    return Events()


@pytest.fixture
def heard(events: Events) -> list[Key]:
    """The keys that commits have touched, in their order."""
    keys: list[Key] = []
    events.subscribe(Touched, lambda event: keys.append(event.key))
    return keys


@pytest.fixture(params=DRIVERS, ids=lambda driver: driver.name)
async def database(request: pytest.FixtureRequest, tmp_path: Path, events: Events) -> AsyncIterator[Database]:
    driver: Driver = request.param
    server = request.getfixturevalue("postgres") if driver.needs_server else None
    async with driver.opened(tmp_path, events, server) as database:
        yield database


@pytest.fixture(params=ENGINES)
async def rooms(request: pytest.FixtureRequest, tmp_path: Path, events: Events) -> AsyncIterator[Database]:
    """A database of every engine with the tables of the rooms."""
    async with schema_database(request, tmp_path, events) as database:
        yield database


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give up on a locked database soon. To be named before the database, which is opened with it."""
    monkeypatch.setattr(connection, "BUSY_TIMEOUT_SECONDS", 0.05)


@pytest.fixture
def short_lock_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give up on locks of PostgreSQL soon. To be named before the database."""
    monkeypatch.setitem(postgres_connection._SETTINGS, "lock_timeout", "50ms")
