"""What the tests of the headless wallet start from."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bridge_server.kit.client import Generation
from tests.headless.dapps import GENERATIONS, relay_at
from tests.support.server import RunningServer


@pytest.fixture
async def relay(tmp_path: Path) -> AsyncIterator[RunningServer]:
    """A bridge of all generations."""
    async with relay_at(tmp_path / "data") as server:
        yield server


@pytest.fixture(params=GENERATIONS)
def generation(request: pytest.FixtureRequest) -> Generation:
    """Each generation of the protocol."""
    chosen: Generation = request.param
    return chosen
