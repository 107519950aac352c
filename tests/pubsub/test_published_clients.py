"""The published clients of generations 1.x and 2.x, unmodified, in Node."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.support.engines import settings_over
from tests.support.inbox_client import until_stored
from tests.support.needs import PACKAGES, needs_node, slow
from tests.support.rows import each_row
from tests.support.server import running_server, server_process

pytestmark = needs_node


# The published client of generation 1.x, unmodified, in Node: `@walletconnect/client`.

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


@pytest.fixture(scope="module")
async def scenes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The outcome of every scene."""
    folder = tmp_path_factory.mktemp("published")
    async with (
        running_server(folder / "data") as server,
        node("v1_scenes.js", server.url, folder) as process,
    ):
        results: dict[str, Any] = orjson.loads(await line_of(process))
        return {"bridge": server.url, **results}


async def test_a_wallet_of_1x_that_scans_the_uri_gets_a_session(scenes: dict[str, Any]) -> None:
    bridge = scenes["bridge"].replace(":", "%3A").replace("/", "%2F")
    pairing = scenes["pairing"]

    assert pairing["uri"] == f"1?bridge={bridge}"
    assert pairing["asked"] == "exchange"
    assert pairing["connected"]["peerMeta"]["name"] == "safe"
    assert (pairing["connected"]["chainId"], pairing["connected"]["accounts"]) == (5, [ACCOUNT])


async def test_calls_of_1x_that_are_pending_together_find_their_answers(scenes: dict[str, Any]) -> None:
    messages = [f"0x{number}" for number in range(20)]

    assert sorted(scenes["pendingCalls"]["asked"]) == sorted(messages)
    assert scenes["pendingCalls"]["answered"] == messages


@each_row(
    ("scene", "expected"),
    [
        ("rejection", {"disconnected": {"message": "not today"}, "connected": False}),
        (
            "methods",
            [
                *("personal_sign", "eth_sign", "eth_signTypedData", "eth_sendTransaction"),
                *("eth_signTransaction", "eth_sendRawTransaction"),
            ],
        ),
        ("refusedCall", "rejected by the user"),
        ("update", {"updated": {"chainId": 100, "accounts": [ACCOUNT]}, "chain": 100}),
        ("killedByWallet", [False, False]),
        ("killedByDapp", [False, False]),
        ("walletOffline", {"order": ["0x01", "0x02", "0x03"], "answered": ["0x01", "0x02", "0x03"]}),
        (
            "twoOfEach",
            {
                "accounts": ["0x" + "1" * 40, "0x" + "2" * 40],
                "answered": [[f"{number} 0x{call}" for call in (1, 2, 3)] for number in (0, 1)],
            },
        ),
    ],
)
async def test_a_scene_of_1x_ends_as_it_should(scenes: dict[str, Any], scene: str, expected: Any) -> None:
    assert scenes[scene] == expected


async def test_a_session_of_1x_goes_on_after_the_server_was_killed_and_started_again(tmp_path: Path) -> None:
    with server_process(tmp_path / "data") as first:
        port = first.url.rpartition(":")[2]
        async with node("v1_restart.js", first.url, tmp_path) as process:
            assert process.stdin is not None
            assert await line_of(process) == b"waiting\n"
            await until_stored(settings_over(first.data_dir), messages=2)
            first.kill()
            with server_process(tmp_path / "data", "--port", port):
                process.stdin.write(b"back\n")

                result = orjson.loads(await line_of(process))

    answered = ["0x02", "0x03"]
    assert result["restart"] == {"before": "0x01", "answered": answered, "after": "0x04", "chain": 100}


# The published clients of generation 2.x, unmodified, in Node: sign-client, ethereum-provider, walletkit.


async def played(script: str, tmp_path: Path, **settings: str) -> Any:
    """The outcome of every scene of a script; settings by their environment variables."""
    with server_process(tmp_path / "data", environment=settings) as server:
        async with node(script, server.url.replace("http", "ws"), tmp_path) as process:
            return orjson.loads(await line_of(process))


@pytest.fixture(scope="module")
async def scenes_of_2x(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The outcome of every scene: the clients take longer to load than to play most of them."""
    return await played("v2_scenes.js", tmp_path_factory.mktemp("scenes"))


async def test_a_session_from_its_proposal_to_its_end(scenes_of_2x: Any) -> None:
    assert scenes_of_2x["session"] == {
        "peer": "wallet",
        "account": True,
        "signed": "0x68656c6c6f",
        "event": {"name": "chainChanged", "data": 1},
        "accounts": 2,
        "ended": True,
        "left": 0,
    }


async def test_a_wallet_that_a_full_topic_refuses_goes_on(tmp_path: Path) -> None:
    results = await played("v2_full_topic.js", tmp_path, BRIDGE_MAX_TOPIC_CLIENTS="2")

    outcome = {"hasJoined": False, "seen": 0, "peer": "wallet", "next": "wallet"}
    assert results["aThirdClientIsRefusedAndGoesOn"] == outcome


async def test_every_client_with_every_other(scenes_of_2x: Any) -> None:
    assert {name: outcome for name, outcome in scenes_of_2x.items() if name != "session"} == {
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
    with server_process(tmp_path / "data") as first:
        port = first.url.rpartition(":")[2]
        async with node("v2_restart.js", first.url.replace("http", "ws"), tmp_path) as process:
            assert process.stdin is not None
            assert await line_of(process) == b"waiting\n"
            first.kill()
            with server_process(tmp_path / "data", "--port", port):
                process.stdin.write(b"back\n")

                result = orjson.loads(await line_of(process))

    assert result["restart"] == {"before": "0x01", "answered": ["0x02", "0x03"], "after": "0x04"}
