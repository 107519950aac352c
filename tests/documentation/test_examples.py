"""The examples of the pages by task run as they stand: quickstart, dapps with packages from npm, wallets."""

import json
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from bridge_server.ethereum.address import hex_of
from bridge_server.kit.client import BadPairingError
from bridge_server.kit.headless.wallet import generation_of
from bridge_server.kit.testing.fake_node import ETHER, Chain, open_fake_node
from bridge_server.settings.settings import Settings
from tests.support.admin_client import ADMIN_TOKEN, ETHEREUM, AdminClient
from tests.support.needs import PACKAGES, needs_node
from tests.support.programs import folder_of_command, output_of
from tests.support.rows import each_row
from tests.support.rpc_client import DEVELOPMENT_ADDRESS, RpcClient
from tests.support.server import RunningServer, running_server, server_process
from tests.support.waiting import until

_DOCS = Path(__file__).parents[2] / "docs"
_PRINTED_URL = "http://127.0.0.1:8080"
_ACCOUNT = "eip155:1:0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"

needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")


def _blocks(page: str, language: str) -> list[str]:
    """The examples of a page in this language."""
    text = (_DOCS / page).read_text("utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def _shell_example(page: str, beginning: str) -> str:
    (example,) = [block for block in _blocks(page, "sh") if block.startswith(beginning)]
    return example


_PROGRAMS = [program for program in _blocks("connect.md", "js") if f"{_PRINTED_URL}/rpc" in program]


@needs_node
@each_row("program", _PROGRAMS, ids=["viem", "ethers", "wagmi"])
async def test_a_package_from_npm_gets_a_valid_signature(tmp_path: Path, program: str) -> None:
    (tmp_path / "node_modules").symlink_to(PACKAGES / "node_modules")
    with server_process(tmp_path / "data", "--dev-accounts") as server:
        (tmp_path / "dapp.mjs").write_text(program.replace(_PRINTED_URL, server.url), "utf-8")
        assert await output_of("node", "dapp.mjs", folder=tmp_path) == "true\n"


@needs_curl
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


@needs_curl
async def test_a_call_wakes_a_wallet_that_has_registered(tmp_path: Path) -> None:
    script = 'SESSION=$(curl -s -X POST "$URL/session/new" | cut -d\'"\' -f4)\n'
    with server_process(tmp_path / "data", "--allow-private-webhooks") as server:
        script += _shell_example("connect.md", "curl")
        answers = await output_of("sh", "-euc", script, folder=tmp_path, URL=server.url)
        assert re.fullmatch(r'{"success":true}{"callId":"[-0-9a-f]+"}', answers)
        until(lambda: "New request from Example Dapp" in server.log(), server.log)


@needs_curl
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


@needs_node
@each_row(
    ("package", "opening"), [("walletconnect", "initSession"), ("@walletconnect/client", "createSession")]
)
async def test_a_published_client_makes_a_pairing_uri(
    server: RunningServer, package: str, opening: str
) -> None:
    (example,) = [block for block in _blocks("connect.md", "js") if f"require('{package}')" in block]
    program = example.replace("https://bridge.example.org", server.url)
    program += f"connector.{opening}().then(() => {{ console.log(connector.uri); process.exit() }})"
    output = await output_of("node", "-e", program, folder=PACKAGES)
    assert re.match(r"(ethereum:)?wc[:-]", output)


@needs_node
async def test_the_examples_of_generation_2_connect_and_sign(tmp_path: Path) -> None:
    showing = (
        "connecting.then(dapp => dapp.connect({})).then(({ uri }) => { console.log(uri); process.exit() })"
    )
    short = await printed_with_relay(tmp_path, "wss://bridge.example.org", "const connecting", showing)
    both_sides = await printed_with_relay(tmp_path, "ws://127.0.0.1:8080", "session_proposal")
    assert re.match(r"wc:[0-9a-f]{64}@2\?", short)
    assert both_sides.splitlines() == ["The dapp wants personal_sign", "It signed: 0x5f1c...1b"]


async def printed_with_relay(folder: Path, printed_url: str, part: str, addition: str = "") -> str:
    """The output of the page's example that has this part, with a server whose clock is right."""
    (example,) = [block for block in _blocks("connect.md", "js") if part in block]
    with server_process(folder / "data") as server:
        program = example.replace(printed_url, server.url.replace("http", "ws")) + addition
        modules = str(PACKAGES / "node_modules")
        return await output_of("node", "-e", program, folder=folder, NODE_PATH=modules, IS_VITEST="true")


def test_the_parts_of_troubleshooting_are_whole_and_name_settings_and_codes_that_exist() -> None:
    page, reference = [(_DOCS / name).read_text("utf-8") for name in ("troubleshooting.md", "reference.md")]
    parts = dict(re.findall(r"^### (.*?)\n(.*?)(?=^##|\Z)", page, re.MULTILINE | re.DOTALL))
    named = set(re.findall(r"`([a-z]+(?:_[a-z]+)+)`", page))
    events = {"rpc_refused", "clock_jumped", "database_awaited", "more_requests_failed"}
    members = {"not_found", "invalid_grant", "relay_url", "personal_sign"}
    codes = set(re.findall(r"`([a-z]+(?:-[a-z]+)+)`", page))

    found = {title: re.findall(r"^- \*\*(\w+):\*\*", text, re.MULTILINE) for title, text in parts.items()}
    assert found == {title: ["Symptom", "Cause", "Cure"] for title in parts}
    assert named - events - members <= set(Settings.model_fields)
    assert {code for code in codes if f"- `{code}`: " not in reference} == set()
    assert codes >= {"database-full", "limit-exceeded"}


def test_a_uri_that_two_protocols_share_is_read_as_the_caller_says() -> None:
    uri = f"wc:8a5e5bdc-a0e4-4702-ba63-8f1a5655744f@1?bridge=https%3A%2F%2Fbridge.example.org&key={'ab' * 32}"
    assert generation_of(uri) == "1.x"
    assert generation_of(uri, "plain") == "plain"
    with pytest.raises(BadPairingError):
        generation_of("https://app.example.org/connect")


def _requests_on(page: str) -> list[str]:
    """The commands with curl in the shell blocks of a page."""
    lines = [line for block in _blocks(page, "sh") for line in re.split(r"(?<!\\)\n(?=curl )", block.strip())]
    return [line for line in lines if line.startswith("curl ")]


async def _answered(folder: Path, server: RunningServer, command: str, **variables: str) -> Any:
    """The output of the command, which must be JSON."""
    variables = {"URL": server.url, "ADMIN_TOKEN": ADMIN_TOKEN, **variables}
    return json.loads(await output_of("sh", "-ec", command, folder=folder, **variables))


@needs_curl
async def test_the_requests_of_the_admin_api_and_for_notifications_are_answered(tmp_path: Path) -> None:
    async with running_server(
        tmp_path / "data", admin_token=ADMIN_TOKEN, admin_wallet=True, dev_accounts=True, traffic=True
    ) as server:
        admin = AdminClient(server)
        await admin.create("app", "news")
        await admin.subscribe("app", ETHEREUM)
        await RpcClient(server).call("personal_sign", "0x00", DEVELOPMENT_ADDRESS)
        answers = [await _answered(tmp_path, server, command) for command in _requests_on("admin.md")]

        secret = await admin.create("example-app", "price-alert")
        await admin.subscribe("example-app", ETHEREUM)
        sent, dry_run = [
            await _answered(tmp_path, server, command, SECRET=secret) for command in _requests_on("notify.md")
        ]

    assert len(answers) >= 8
    assert all(isinstance(answer, dict) for answer in answers)
    assert sent == dry_run == {"sent": [ETHEREUM], "failed": [], "not_found": [], "next": None, "total": 1}
