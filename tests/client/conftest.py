"""Fixtures of the client's tests."""

import pytest

from tests.support.server import RunningServer


@pytest.fixture(params=["", "/compat/v0.7"], ids=["plain", "v0.7"])
def bridge_url(server: RunningServer, request: pytest.FixtureRequest) -> str:
    """The bridge in each of its two dialects."""
    path: str = request.param
    return server.url + path
