"""Fixtures of the admin API's tests."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.admin_client import ADMIN_TOKEN, AdminClient
from tests.support.server import running_server


@pytest.fixture
async def admin(tmp_path: Path) -> AsyncIterator[AdminClient]:
    """The operator of a server that calls webhooks on this machine; the clock stands still."""
    async with running_server(
        tmp_path / "data", admin_token=ADMIN_TOKEN, allow_private_webhooks=True, sweep_interval=0.02
    ) as server:
        yield AdminClient(server)
