"""Unmodified published clients in Node.js are answered by every rule."""

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest

from tests.headless.dapps import FIRST, HELLO, SECOND, SIGN, WalletProcess, wallet_process
from tests.support.needs import needs_node, node_peers, slow
from tests.support.server import RunningServer

PUBLISHED = ("0.7", "1.x", "2.x")
SIGNATURE = "0xf16e"
PAYMENT = {"from": FIRST, "to": SECOND, "value": "0x1"}


async def _played(
    relay: RunningServer, wallet: WalletProcess, generation: str, calls: list[Any], hanging: Any = None
) -> dict[str, Any]:
    """The facts that the dapp of a generation reports."""
    orders = {"generation": generation, "bridge": relay.url, "calls": calls, "hanging": hanging}
    async with (
        asyncio.timeout(240),
        node_peers("headless_dapps.js", **orders) as printed,
        aiohttp.ClientSession(wallet.facts["url"], headers=wallet.headers) as http,
    ):
        body = orjson.loads(await printed.readline())
        async with http.post("/pair", json={**body, "relay_url": relay.url}) as response:
            assert response.status == 200, await response.text()
        decisions = asyncio.create_task(_decide_what_waits(http))
        facts: dict[str, Any] = orjson.loads(await printed.readline())
        decisions.cancel()
    return facts


async def _decide_what_waits(http: aiohttp.ClientSession) -> None:
    """Approve the first call that waits, reject the second, answer every other."""
    for verb, body in (("approve", {}), ("reject", {}), *[("answer", {"result": "0x0a"})] * 10):
        calls: list[dict[str, Any]] = []
        while not calls:
            async with http.get("/calls?state=pending&wait=30") as response:
                calls = (await response.json())["calls"]
        async with http.post(f"/calls/{calls[0]['id']}/{verb}", json=body) as response:
            assert response.status == 200


@needs_node
@pytest.mark.parametrize("generation", PUBLISHED)
async def test_a_published_client_has_a_message_signed_and_a_transaction_rejected(
    relay: RunningServer, tmp_path: Path, generation: str
) -> None:
    with wallet_process(tmp_path, "--on", "eth_sendTransaction=reject") as wallet:
        facts = await _played(relay, wallet, generation, [SIGN, ["eth_sendTransaction", [PAYMENT]]])
    signed, rejected = facts["outcomes"]
    assert facts["accounts"] == [FIRST]
    assert signed["result"].startswith(SIGNATURE)
    assert "error" in rejected


@needs_node
@slow
@pytest.mark.parametrize("generation", PUBLISHED)
async def test_a_published_client_is_answered_by_every_rule(
    relay: RunningServer, tmp_path: Path, generation: str
) -> None:
    rules = (
        'eth_sign=reject:4001:"not today"*1', 'eth_sign=error:-32000:"out of order"*1',
        'eth_sign=answer:"0xfeed"*1', "eth_sign=delay:50ms*1", "eth_sign=approve*1", "eth_sign=ask*3",
        "eth_sendTransaction=hang",
    )  # fmt: skip
    eth_sign = ("eth_sign", [FIRST, HELLO])
    flags = [text for rule in rules for text in ("--on", rule)]
    calls, hanging = [eth_sign] * 7 + [SIGN], ["eth_sendTransaction", [PAYMENT]]
    with wallet_process(tmp_path, *flags) as wallet:
        facts = await _played(relay, wallet, generation, calls, hanging)

    rejected, failed, answered, approved, asked, refused, given, signed = facts["outcomes"]
    assert (rejected["error"][1], failed["error"][1]) == ("not today", "out of order")
    assert [answered, given] == [{"result": "0xfeed"}, {"result": "0x0a"}]
    assert {each["result"][:6] for each in (approved, asked, signed)} == {SIGNATURE}
    assert "error" in refused
    assert facts["answered"] is False
