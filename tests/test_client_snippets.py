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
_OPENING = {"0.7": "connector.initSession()", "1.x": "connector.createSession()"}
_SECONDS = 60


def snippet(page: str, generation: str) -> str:
    blocks: list[str] = re.findall(r"```js\n(.*?)```", (_ROOT / page).read_text("utf-8"), re.DOTALL)
    assert len(blocks) == 2
    return blocks[list(_OPENING).index(generation)]


@needs_node
@pytest.mark.parametrize("generation", list(_OPENING))
@pytest.mark.parametrize("page", ["README.md", "docs/clients.md"])
async def test_snippet_makes_a_pairing_uri(server: RunningServer, page: str, generation: str) -> None:
    example = snippet(page, generation).replace(_PRINTED_URL, server.url)
    program = f"{example}{_OPENING[generation]}.then(() => {{ {_SHOW} }})"

    process = await asyncio.create_subprocess_exec("node", "-e", program, cwd=PACKAGES, stdout=PIPE)
    async with asyncio.timeout(_SECONDS):
        output, _ = await process.communicate()

    assert process.returncode == 0
    assert re.match(r"(ethereum:)?wc[:-]", output.decode())
