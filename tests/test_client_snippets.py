"""The examples for the published clients run in Node as they stand: each makes a pairing URI."""

import asyncio
import re
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest

from tests.support.node_packages import PACKAGES, needs_node
from tests.support.server import RunningServer

_ROOT = Path(__file__).parent.parent
_PRINTED_URL = "https://bridge.example.org"
_SHOW = "console.log(connector.uri); process.exit()"
_PACKAGE = {"0.7": "require('walletconnect')", "1.x": "require('@walletconnect/client')"}
_OPENING = {"0.7": "connector.initSession()", "1.x": "connector.createSession()"}
_EXAMPLES = [("README.md", "1.x"), ("docs/clients.md", "0.7"), ("docs/clients.md", "1.x")]
_SECONDS = 60


def snippet(page: str, generation: str) -> str:
    blocks: list[str] = re.findall(r"```js\n(.*?)```", (_ROOT / page).read_text("utf-8"), re.DOTALL)
    (found,) = [block for block in blocks if _PACKAGE[generation] in block]
    return found


@needs_node
@pytest.mark.parametrize(("page", "generation"), _EXAMPLES)
async def test_snippet_makes_a_pairing_uri(server: RunningServer, page: str, generation: str) -> None:
    example = snippet(page, generation).replace(_PRINTED_URL, server.url)
    program = f"{example}{_OPENING[generation]}.then(() => {{ {_SHOW} }})"

    process = await asyncio.create_subprocess_exec("node", "-e", program, cwd=PACKAGES, stdout=PIPE)
    async with asyncio.timeout(_SECONDS):
        output, _ = await process.communicate()

    assert process.returncode == 0
    assert re.match(r"(ethereum:)?wc[:-]", output.decode())
