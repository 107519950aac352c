"""The program in the documentation does what it seems to."""

import asyncio
import re
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

from tests.support.server import RunningServer

_PAGE = (Path(__file__).parent.parent.parent / "docs" / "clients.md").read_text("utf-8")
_PRINTED_URL = "http://127.0.0.1:8080"
_SECONDS = 60


async def test_the_dapp_and_the_wallet_of_the_documentation_pair_and_sign(server: RunningServer) -> None:
    (program,) = re.findall(r"## From Python\n.*?```python\n(.*?)```", _PAGE, re.DOTALL)
    assert _PRINTED_URL in program

    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program.replace(_PRINTED_URL, server.url), stdout=PIPE
    )
    async with asyncio.timeout(_SECONDS):
        output, _ = await process.communicate()

    assert process.returncode == 0
    assert output.decode().splitlines() == [
        "The wallet has ('0xcd2a3d9f938e13cd947ec05abc7fe734df8dd826',)",
        "The dapp wants personal_sign",
        "It signed: 0x5f1c...1b",
    ]
