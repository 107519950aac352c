"""Fixtures of the wallet's tests."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.rpc_client import RpcClient
from tests.support.server import running_server


@pytest.fixture
async def rpc(tmp_path: Path) -> AsyncIterator[RpcClient]:
    """A wallet with the development accounts and no node; the clock stands still."""
    async with running_server(tmp_path / "data", dev_accounts=True, light_kdf=True) as server:
        yield RpcClient(server)
