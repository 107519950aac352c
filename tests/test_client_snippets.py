"""The examples for the published clients run in Node as they stand: each makes a pairing URI."""

import re
from pathlib import Path

from tests.support.node_packages import PACKAGES, needs_node
from tests.support.program_output import output_of
from tests.support.rows import each_row
from tests.support.server import RunningServer, server_process

_PAGE = (Path(__file__).parent.parent / "docs" / "connect.md").read_text("utf-8")
_PRINTED_URL = "https://bridge.example.org"
_SHOW = "console.log(connector.uri); process.exit()"
_PACKAGE = {"0.7": "require('walletconnect')", "1.x": "require('@walletconnect/client')"}
_OPENING = {"0.7": "connector.initSession()", "1.x": "connector.createSession()"}


def snippet(generation: str) -> str:
    (found,) = [block for block in blocks() if _PACKAGE[generation] in block]
    return found


def blocks() -> list[str]:
    """The programs of the page."""
    found: list[str] = re.findall(r"```js\n(.*?)```", _PAGE, re.DOTALL)
    return found


@needs_node
@each_row("generation", list(_PACKAGE))
async def test_snippet_makes_a_pairing_uri(server: RunningServer, generation: str) -> None:
    example = snippet(generation).replace(_PRINTED_URL, server.url)
    program = f"{example}{_OPENING[generation]}.then(() => {{ {_SHOW} }})"

    output = await output_of("node", "-e", program, folder=PACKAGES)

    assert re.match(r"(ethereum:)?wc[:-]", output)


@needs_node
async def test_the_short_example_of_generation_2_connects(tmp_path: Path) -> None:
    showing = (
        "connecting.then(dapp => dapp.connect({})).then(({ uri }) => { console.log(uri); process.exit() })"
    )

    output = await printed_with_relay(tmp_path, "wss://bridge.example.org", "const connecting", showing)

    assert re.match(r"wc:[0-9a-f]{64}@2\?", output)


@needs_node
async def test_both_sides_of_generation_2_in_one_program(tmp_path: Path) -> None:
    output = await printed_with_relay(tmp_path, "ws://127.0.0.1:8080", "session_proposal")

    assert output.splitlines() == ["The dapp wants personal_sign", "It signed: 0x5f1c...1b"]


async def printed_with_relay(folder: Path, printed_url: str, part: str, addition: str = "") -> str:
    """The output of the page's example that has this part, with a server whose clock is right."""
    (example,) = [block for block in blocks() if part in block]
    with server_process(folder / "data") as server:
        program = example.replace(printed_url, server.url.replace("http", "ws")) + addition
        modules = str(PACKAGES / "node_modules")
        return await output_of("node", "-e", program, folder=folder, NODE_PATH=modules, IS_VITEST="true")
