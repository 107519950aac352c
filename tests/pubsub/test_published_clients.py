"""The published clients of generations 1.x and 2.x, unmodified, in Node."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import orjson

from tests.support.engines import settings_over
from tests.support.inbox_client import until_stored
from tests.support.needs import PACKAGES, needs_node, slow
from tests.support.programs import output_of
from tests.support.server import running_server, server_process

pytestmark = needs_node


_PATIENCE_SECONDS = 240
ACCOUNT = "0xcd2a3d9f938e13cd947ec05abc7fe734df8dd826"


@asynccontextmanager
async def node(script: str, url: str, folder: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """A script in Node, ended on leaving. It leaves its files in the folder."""
    process = await asyncio.create_subprocess_exec(
        "node", str(PACKAGES / script), url,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, cwd=folder,
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


async def go_on_after_a_kill(
    script: str, folder: Path, scheme: str = "http", waiting: int | None = None
) -> Any:
    """The outcome of a script whose server is killed, once so many messages wait, and started again."""
    with server_process(folder / "data") as server:
        async with node(script, server.url.replace("http", scheme), folder) as process:
            assert process.stdin is not None
            assert await line_of(process) == b"waiting\n"
            if waiting is not None:
                await until_stored(settings_over(server.data_dir), messages=waiting)
            server.kill()
            server.start()
            process.stdin.write(b"back\n")

            return orjson.loads(await line_of(process))["restart"]


async def test_scenes_of_1x_end_as_they_should(tmp_path: Path) -> None:
    async with running_server(tmp_path / "data") as server:
        script = str(PACKAGES / "v1_scenes.js")
        scenes = orjson.loads(await output_of("node", script, server.url, folder=tmp_path))
    pairing, pending = scenes.pop("pairing"), scenes.pop("pendingCalls")
    messages, answered = [f"0x{number}" for number in range(20)], ["0x01", "0x02", "0x03"]

    assert pairing["uri"] == f"1?bridge={quote(server.url, safe='')}"
    assert pairing["asked"] == "exchange"
    connected = pairing["connected"]
    assert (connected["peerMeta"]["name"], connected["chainId"], connected["accounts"]) == (
        "safe",
        5,
        [ACCOUNT],
    )
    assert (sorted(pending["asked"]), pending["answered"]) == (sorted(messages), messages)
    assert scenes == {
        "rejection": {"disconnected": {"message": "not today"}, "connected": False},
        "methods": [
            *("personal_sign", "eth_sign", "eth_signTypedData", "eth_sendTransaction"),
            *("eth_signTransaction", "eth_sendRawTransaction"),
        ],
        "refusedCall": "rejected by the user",
        "update": {"updated": {"chainId": 100, "accounts": [ACCOUNT]}, "chain": 100},
        "killedByWallet": [False, False],
        "killedByDapp": [False, False],
        "walletOffline": {"order": answered, "answered": answered},
        "twoOfEach": {
            "accounts": ["0x" + "1" * 40, "0x" + "2" * 40],
            "answered": [[f"{number} 0x{call}" for call in (1, 2, 3)] for number in (0, 1)],
        },
    }


async def test_a_session_of_1x_goes_on_after_the_server_was_killed_and_started_again(tmp_path: Path) -> None:
    outcome = await go_on_after_a_kill("v1_restart.js", tmp_path, waiting=2)
    assert outcome == {"before": "0x01", "answered": ["0x02", "0x03"], "after": "0x04", "chain": 100}


async def played(script: str, folder: Path, **settings: str) -> Any:
    """The outcome of every scene of a script of 2.x; settings by their environment variables."""
    with server_process(folder / "data", environment=settings) as server:
        url = server.url.replace("http", "ws")
        return orjson.loads(await output_of("node", str(PACKAGES / script), url, folder=folder))


async def test_a_wallet_that_a_full_topic_refuses_goes_on(tmp_path: Path) -> None:
    results = await played("v2_full_topic.js", tmp_path, BRIDGE_MAX_TOPIC_CLIENTS="2")
    outcome = {"hasJoined": False, "seen": 0, "peer": "wallet", "next": "wallet"}
    assert results["aThirdClientIsRefusedAndGoesOn"] == outcome


async def test_every_client_of_2x_with_every_other(tmp_path: Path) -> None:
    assert await played("v2_scenes.js", tmp_path) == {
        "session": {
            "peer": "wallet",
            "account": True,
            "signed": "0x68656c6c6f",
            "event": {"name": "chainChanged", "data": 1},
            "accounts": 2,
            "ended": True,
            "left": 0,
        },
        "twelvePairs": [f"0x{number}" for number in range(12)],
        "rejection": "User rejected.",
        "severalAtOnce": [True] * 4,
        "refusedCall": "User rejected.",
        "walletAway": ["0x01", "0x02", "0x03"],
        "extension": True,
        "disconnectionByWallet": True,
        "providerAndWalletKit": {
            "accounts": [ACCOUNT],
            "signed": "0x68656c6c6f",
            "chain": "0x5",
            "connected": True,
        },
        "kitRejects": "User rejected.",
    }


@slow
async def test_a_session_goes_on_after_the_server_was_killed_and_started_again(tmp_path: Path) -> None:
    outcome = await go_on_after_a_kill("v2_restart.js", tmp_path, scheme="ws")
    assert outcome == {"before": "0x01", "answered": ["0x02", "0x03"], "after": "0x04"}
