"""Fixtures of the wallet's tests."""

from typing import Any

import pytest

from tests.support.rpc_client import RpcClient
from tests.support.server import RunningServer


@pytest.fixture(scope="module")
def server_settings() -> dict[str, Any]:
    """The settings of the folder's server by name."""
    return {"dev_accounts": True, "light_kdf": True}


@pytest.fixture
def rpc(server: RunningServer) -> RpcClient:
    """A wallet with the development accounts and no node; the clock stands still."""
    return RpcClient(server)
