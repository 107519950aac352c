"""The examples of the pages by task run as they stand: quickstart, dapps with packages from npm, wallets."""

import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from bridge_server.ethereum.address import hex_of
from bridge_server.kit.testing.fake_node import ETHER, Chain, open_fake_node
from tests.support.eventually import until
from tests.support.forked_program import folder_of_command
from tests.support.node_packages import PACKAGES, needs_node
from tests.support.program_output import output_of
from tests.support.rows import each_row
from tests.support.server import server_process

_DOCS = Path(__file__).parent.parent / "docs"
_PRINTED_URL = "http://127.0.0.1:8080"
_ACCOUNT = "eip155:1:0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"

_PROGRAMS: list[str] = [
    program
    for program in re.findall(r"```js\n(.*?)```", (_DOCS / "connect.md").read_text("utf-8"), re.DOTALL)
    if f"{_PRINTED_URL}/rpc" in program
]
_NAMES = ["viem", "ethers", "wagmi"]


def _shell_example(page: str, beginning: str) -> str:
    blocks: list[str] = re.findall(r"```sh\n(.*?)```", (_DOCS / page).read_text("utf-8"), re.DOTALL)
    (example,) = [block for block in blocks if block.startswith(beginning)]
    return example


def test_the_page_of_dapps_has_a_program_for_each_package() -> None:
    assert all(
        f"'{name}" in program or f"@{name}/" in program
        for name, program in zip(_NAMES, _PROGRAMS, strict=True)
    )


@needs_node
@each_row("program", _PROGRAMS, ids=_NAMES)
async def test_a_package_from_npm_gets_a_valid_signature(tmp_path: Path, program: str) -> None:
    modules = tmp_path / "node_modules"
    if not modules.exists():  # all programs share the folder
        modules.symlink_to(PACKAGES / "node_modules")
    with server_process(tmp_path / "data", "--dev-accounts") as server:
        (tmp_path / "dapp.mjs").write_text(program.replace(_PRINTED_URL, server.url), "utf-8")

        assert await output_of("node", "dapp.mjs", folder=tmp_path) == "true\n"


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
async def test_the_quickstart_sends_a_notification(tmp_path: Path) -> None:
    answer = json.loads(await printed_beside_dev(tmp_path, _shell_example("quickstart.md", "curl")))

    assert answer == {"sent": [_ACCOUNT], "failed": [], "not_found": []}


async def test_in_the_quickstart_a_dapp_and_a_wallet_meet(tmp_path: Path) -> None:
    example = _shell_example("quickstart.md", "cat > dapp.py")

    printed = await printed_beside_dev(tmp_path, f"{{\n{example}}} 2>&1\n")

    assert re.search(r"^The dapp has 0xf16ea9a3[0-9a-f]{122}$", printed, re.MULTILINE)
    assert re.search(r'  call     personal_sign "hello" .* signed 0xf16e…', printed)


async def printed_beside_dev(folder: Path, example: str) -> str:
    """The output of an example beside `bridge-server dev`, with the values of its banner."""
    script = "trap 'kill $!' EXIT\nbridge-server dev --port 0 --config-out dev.env > dev.log &\n"
    script += "until [ -e dev.env ]; do sleep 0.1; done\n. ./dev.env\n"
    script += f"URL=$BRIDGE_URL SECRET=$BRIDGE_PROJECT_SECRET\n{example}"
    path = f"{folder_of_command(folder)}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    return await output_of("sh", "-euc", script, folder=folder, PATH=path)


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
async def test_a_call_wakes_a_wallet_that_has_registered(tmp_path: Path) -> None:
    script = 'SESSION=$(curl -s -X POST "$URL/session/new" | cut -d\'"\' -f4)\n'
    with server_process(tmp_path / "data", "--allow-private-webhooks") as server:
        script += _shell_example("connect.md", "curl")

        answers = await output_of("sh", "-euc", script, folder=tmp_path, URL=server.url)

        assert re.fullmatch(r'{"success":true}{"callId":"[-0-9a-f]+"}', answers)
        until(lambda: "New request from Example Dapp" in server.log(), server.log)


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
async def test_the_wallet_sends_through_a_node(tmp_path: Path) -> None:
    chain = Chain()
    example = _shell_example("wallet.md", "rpc()")
    async with open_fake_node(results=chain.methods()) as node:
        with server_process(tmp_path / "data", "--dev-accounts", "--node-url", node.url) as server:
            script = example.replace(_PRINTED_URL, server.url)
            printed = await output_of("sh", "-euc", script, folder=tmp_path)
    sent, request, balance = map(json.loads, printed.replace("}{", "}\n{").splitlines())

    assert [hex_of(transaction.hash) for transaction in chain.transactions] == [sent["result"]]
    assert request["result"]["hash"] == sent["result"]
    assert int(balance["result"], 16) == 10_000 * ETHER + 1
