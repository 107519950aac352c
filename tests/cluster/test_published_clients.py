"""The published clients of every generation, unmodified: dapps at one process, their wallets at the other."""

import asyncio
import os
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.cluster.processes import Pair
from tests.support.needs import PACKAGES, needs_node
from tests.support.postgres import needs_postgres

pytestmark = [needs_postgres, needs_node]

_PATIENCE_SECONDS = 240


@pytest.fixture(scope="module")
def cluster_settings() -> dict[str, Any]:
    """A wallet has a push server on this machine."""
    return {"allow_private_webhooks": True}


async def played(script: str, dapps_at: str, wallets_at: str, folder: Path) -> Any:
    """What the script prints. It leaves its files in the folder."""
    process = await asyncio.create_subprocess_exec(
        "node", str(PACKAGES / script), dapps_at, cwd=folder, stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "WALLET_URL": wallets_at},
    )  # fmt: skip
    try:
        output, _ = await asyncio.wait_for(process.communicate(), _PATIENCE_SECONDS)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return orjson.loads(output)


async def test_clients_of_generation_0_7(pair: Pair, tmp_path: Path) -> None:
    outcomes = await played("v07_run.js", pair[0].url, pair[1].url, tmp_path)

    assert len(outcomes) > 10
    failed = {name: failure for name, failure in outcomes.items() if failure}
    assert failed.keys() == {"pairing by URI"}, failed  # it wants the wallet to use the URI's own server


async def test_clients_of_generation_1_x(pair: Pair, tmp_path: Path) -> None:
    results = await played("v1_scenes.js", pair[0].url, pair[1].url, tmp_path)

    messages = [f"0x{number}" for number in range(20)]
    assert results["pairing"]["connected"]["chainId"] == 5
    assert sorted(results["pendingCalls"]["asked"]) == sorted(messages)
    assert results["pendingCalls"]["answered"] == messages
    assert results["refusedCall"] == "rejected by the user"
    assert (results["killedByWallet"], results["killedByDapp"]) == ([False, False], [False, False])
    assert results["walletOffline"]["order"] == ["0x01", "0x02", "0x03"]
    assert results["walletOffline"]["answered"] == ["0x01", "0x02", "0x03"]


async def test_clients_of_generation_2_x(pair: Pair, tmp_path: Path) -> None:
    one, two = (process.url.replace("http", "ws") for process in pair)

    session = (await played("v2_pairing.js", one, two, tmp_path))["session"]

    assert (session["peer"], session["signed"]) == ("wallet", "0x68656c6c6f")
    assert (session["event"], session["accounts"]) == ({"name": "chainChanged", "data": 1}, 2)
    assert (session["ended"], session["left"]) == (True, 0)
