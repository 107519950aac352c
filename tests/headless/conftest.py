"""Fixtures of the headless wallet's tests."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from bridge_server.kit.client import Generation
from tests.headless.dapps import GENERATIONS, relay_at, to_the_present
from tests.support.server import RunningServer


@pytest.fixture(scope="module")
def relay_settings() -> dict[str, Any]:
    """The settings of `relay` by name; another folder replaces them."""
    return {}


@pytest.fixture(scope="module")
async def _shared_relay(
    tmp_path_factory: pytest.TempPathFactory, relay_settings: dict[str, Any]
) -> AsyncIterator[RunningServer]:
    async with relay_at(tmp_path_factory.mktemp("relay") / "data", test=True, **relay_settings) as server:
        yield server


@pytest.fixture
async def relay(_shared_relay: RunningServer) -> AsyncIterator[RunningServer]:
    """A server for clients of all generations, empty and at the present: it checks their tokens."""
    to_the_present(_shared_relay)
    yield _shared_relay
    await _shared_relay.reset()


@pytest.fixture(params=GENERATIONS)
def generation(request: pytest.FixtureRequest) -> Generation:
    """Each generation of the protocol."""
    chosen: Generation = request.param
    return chosen
