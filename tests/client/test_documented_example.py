"""The programs in the documentation do what they seem to."""

import asyncio
import re
from pathlib import Path

from tests.support.program_output import output_of_program
from tests.support.rows import each_row
from tests.support.server import RunningServer

_PAGE = (Path(__file__).parent.parent.parent / "docs" / "connect.md").read_text("utf-8")
_EVERY_GENERATION, _GENERATION_2, _SIGN_IN = re.findall(r"```python\n(.*?)```", _PAGE, re.DOTALL)
_PRINTED_URL = "http://127.0.0.1:8080"
_PRINTED_DAPP = 'name="Example Dapp"'


@each_row("generation", ["plain", "0.7", "1.x"])
async def test_the_dapp_and_the_wallet_of_the_documentation_pair_and_sign(
    relay: RunningServer, generation: str
) -> None:
    assert _EVERY_GENERATION.count(_PRINTED_DAPP) == 1
    program = _EVERY_GENERATION.replace(_PRINTED_DAPP, f'{_PRINTED_DAPP}, generation="{generation}"')

    assert await _printed(program, relay.url) == [
        "The wallet has ('0xcd2a3d9f938e13cd947ec05abc7fe734df8dd826',)",
        "The dapp wants personal_sign",
        "It signed: 0x5f1c...1b",
    ]


async def test_the_session_of_2_x_of_the_documentation_has_namespaces_and_events(
    relay: RunningServer,
) -> None:
    address = "0xcd2a3d9f938e13cd947ec05abc7fe734df8dd826"

    assert await _printed(_GENERATION_2, relay.url) == [
        "Example Dapp asks for ['eip155:1', 'eip155:10']",
        f"The wallet has ['eip155:1:{address}', 'eip155:10:{address}']",
        "The dapp wants personal_sign on eip155:10",
        "It signed: 0x5f1c...1b",
        "It says chainChanged 10",
    ]


async def test_the_wallet_of_the_documentation_signs_in(relay: RunningServer) -> None:
    account = "eip155:1:0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"

    assert await _printed(_SIGN_IN, relay.url) == [f"Signed in: ('{account}',)"]


async def _printed(program: str, url: str) -> list[str]:
    """What a program of the page prints when it runs against the server at that URL."""
    assert _PRINTED_URL in program
    printed = await asyncio.to_thread(output_of_program, program.replace(_PRINTED_URL, url))
    return printed.splitlines()
