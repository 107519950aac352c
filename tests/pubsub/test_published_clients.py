"""The published client of generation 1.x, unmodified, in Node: `@walletconnect/client`."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
import pytest_asyncio

from tests.support.engines import settings_over
from tests.support.node_packages import PACKAGES, needs_node
from tests.support.rows import each_row
from tests.support.server import running_server, server_process
from tests.support.stored_messages import until_stored

pytestmark = [needs_node, pytest.mark.asyncio(loop_scope="module")]

_PATIENCE_SECONDS = 240
ACCOUNT = "0xcd2a3d9f938e13cd947ec05abc7fe734df8dd826"


@asynccontextmanager
async def node(script: str, *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A script in Node, ended on leaving."""
    process = await asyncio.create_subprocess_exec(
        "node", str(PACKAGES / script), *arguments,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def line_of(process: asyncio.subprocess.Process) -> bytes:
    """The next line that the script prints."""
    assert process.stdout is not None
    return await asyncio.wait_for(process.stdout.readline(), _PATIENCE_SECONDS)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def played(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What came of every scene."""
    async with (
        running_server(tmp_path_factory.mktemp("published")) as server,
        node("v1_scenes.js", server.url) as process,
    ):
        results: dict[str, Any] = orjson.loads(await line_of(process))
        return {"bridge": server.url, **results}


async def test_a_wallet_that_scans_the_uri_gets_a_session(played: dict[str, Any]) -> None:
    bridge = played["bridge"].replace(":", "%3A").replace("/", "%2F")
    pairing = played["pairing"]

    assert pairing["uri"] == f"1?bridge={bridge}"
    assert pairing["asked"] == "exchange"
    assert pairing["connected"]["peerMeta"]["name"] == "safe"
    assert (pairing["connected"]["chainId"], pairing["connected"]["accounts"]) == (5, [ACCOUNT])


async def test_a_wallet_may_refuse_a_session(played: dict[str, Any]) -> None:
    assert played["rejection"] == {"disconnected": {"message": "not today"}, "connected": False}


async def test_each_method_is_asked_and_answered(played: dict[str, Any]) -> None:
    assert played["methods"] == [
        "personal_sign",
        "eth_sign",
        "eth_signTypedData",
        "eth_sendTransaction",
        "eth_signTransaction",
        "eth_sendRawTransaction",
    ]


async def test_a_wallet_may_refuse_a_call(played: dict[str, Any]) -> None:
    assert played["refusedCall"] == "rejected by the user"


async def test_calls_that_are_pending_together_find_their_answers(played: dict[str, Any]) -> None:
    messages = [f"0x{number}" for number in range(20)]

    assert sorted(played["pendingCalls"]["asked"]) == sorted(messages)
    assert played["pendingCalls"]["answered"] == messages


async def test_a_wallet_updates_its_session(played: dict[str, Any]) -> None:
    assert played["update"] == {"updated": {"chainId": 100, "accounts": [ACCOUNT]}, "chain": 100}


@each_row("scene", ["killedByWallet", "killedByDapp"])
async def test_a_session_that_one_side_ends_is_over_for_both(played: dict[str, Any], scene: str) -> None:
    assert played[scene] == [False, False]


async def test_a_wallet_that_was_offline_finds_the_calls_in_order(played: dict[str, Any]) -> None:
    messages = ["0x01", "0x02", "0x03"]

    assert played["walletOffline"] == {"order": messages, "answered": messages}


async def test_two_dapps_and_two_wallets_do_not_mix(played: dict[str, Any]) -> None:
    assert played["twoOfEach"] == {
        "accounts": ["0x" + "1" * 40, "0x" + "2" * 40],
        "answered": [[f"{number} 0x{call}" for call in (1, 2, 3)] for number in (0, 1)],
    }


async def test_a_session_goes_on_after_the_server_was_killed_and_started_again(tmp_path: Path) -> None:
    with server_process(tmp_path / "data") as first:
        port = first.url.rpartition(":")[2]
        async with node("v1_restart.js", first.url) as process:
            assert process.stdin is not None
            assert await line_of(process) == b"waiting\n"
            await until_stored(settings_over(first.data_dir), messages=2)
            first.kill()
            with server_process(tmp_path / "data", "--port", port):
                process.stdin.write(b"back\n")

                result = orjson.loads(await line_of(process))

    assert result["restart"] == {
        "before": "0x01",
        "answered": ["0x02", "0x03"],
        "after": "0x04",
        "chain": 100,
    }
