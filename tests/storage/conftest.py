"""A database of every driver, with the tables of `tests.storage.notes`."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bridge_server.kernel.signals import Key, Signals
from bridge_server.storage import connection
from bridge_server.storage.database import Database
from tests.support.drivers import DRIVERS, Driver


@pytest.fixture
def signals() -> Signals:
    return Signals()


@pytest.fixture
def heard(signals: Signals) -> list[Key]:
    """Every announcement, in its order."""
    keys: list[Key] = []
    signals.listen(keys.append)
    return keys


@pytest.fixture(params=DRIVERS, ids=lambda driver: driver.name)
async def database(
    request: pytest.FixtureRequest, tmp_path: Path, signals: Signals
) -> AsyncIterator[Database]:
    driver: Driver = request.param
    async with driver.opened(tmp_path, signals) as database:
        yield database


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give up on a locked database soon. To be named before the database, which is opened with it."""
    monkeypatch.setattr(connection, "BUSY_TIMEOUT_SECONDS", 0.05)
