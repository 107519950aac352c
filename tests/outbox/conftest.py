"""What the outbox's tests start from."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.outbox.running import Outbox, running_outbox
from tests.support.clock import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "bridge.sqlite3"


@pytest.fixture
async def outbox(file: Path, clock: ManualClock) -> AsyncIterator[Outbox]:
    async with running_outbox(file, clock) as outbox:
        yield outbox
