"""Fixtures of the wallet's tests."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from bridge_server.kit.testing.fake_node import FakeNode, open_fake_node
from tests.support.rpc_client import RpcClient
from tests.support.server import RunningServer
from tests.wallet.rig import Rig, open_rig


@pytest.fixture(scope="module")
def server_settings() -> dict[str, Any]:
    return {"dev_accounts": True, "light_kdf": True}


@pytest.fixture
def rpc(server: RunningServer) -> RpcClient:
    """A wallet with the development accounts and no node; the clock stands still."""
    return RpcClient(server)


@pytest.fixture
async def fake() -> AsyncIterator[FakeNode]:
    async with open_fake_node() as fake:
        yield fake


@pytest.fixture
def node_url(fake: FakeNode) -> str:
    return fake.url


@pytest.fixture
async def rig(node_url: str, tmp_path: Path) -> AsyncIterator[Rig]:
    """The wallet without its HTTP face."""
    async with open_rig(tmp_path, node_url) as rig:
        yield rig


@pytest.fixture
async def idle_rig(node_url: str, tmp_path: Path) -> AsyncIterator[Rig]:
    """Nothing is sent in the background unless the test begins it."""
    async with open_rig(tmp_path, node_url, broadcasts=False) as rig:
        yield rig
