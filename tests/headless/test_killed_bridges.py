"""A bridge that is killed and started again in the middle loses nothing of a headless wallet's session."""

import asyncio
from pathlib import Path

from yarl import URL

from bridge_server.kit.client import Generation
from bridge_server.kit.headless import HeadlessWallet
from tests.headless.dapps import BRISK, FIRST, HELLO, dapp_at
from tests.support.server import server_process


async def test_calls_go_on_after_the_bridge_was_killed(tmp_path: Path, generation: Generation) -> None:
    with server_process(tmp_path / "data") as first:
        url = first.url
        dapp = dapp_at(url, generation)
        await dapp.__aenter__()
        wallet = HeadlessWallet(policy="ask", relay_url=url, pace=BRISK)
        await wallet.__aenter__()
        session = await wallet.pair(dapp.uri)
        asked = await dapp.request("personal_sign", [HELLO, FIRST])
        call = await wallet.next_call("personal_sign", timeout=60)
        result = asyncio.create_task(dapp.result(asked))
        first.kill()
    answered = asyncio.create_task(call.approve())

    with server_process(tmp_path / "data", "--port", str(URL(url).port)):
        async with asyncio.timeout(120):
            await answered
            assert len(await result) == 132
            again = asyncio.create_task(dapp.call("personal_sign", [HELLO, FIRST]))
            await (await wallet.next_call("personal_sign", timeout=60)).reject()
            assert isinstance((await asyncio.gather(again, return_exceptions=True))[0], Exception)
            await session.switch_chain(5)
            await dapp.end()
            await session.wait_until_over()
        await wallet.__aexit__(None, None, None)
        await dapp.__aexit__(None, None, None)

    assert [each.state for each in wallet.calls] == ["answered", "refused"]
