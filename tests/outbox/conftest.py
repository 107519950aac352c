"""Fixtures of the outbox's tests."""

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from tests.outbox.running import Outbox, Start, running_outbox
from tests.support.clock import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "bridge.sqlite3"


@pytest.fixture
def start(file: Path, clock: ManualClock) -> Start:
    return partial(running_outbox, file, clock)


@pytest.fixture
async def outbox(start: Start) -> AsyncIterator[Outbox]:
    async with start() as outbox:
        yield outbox
