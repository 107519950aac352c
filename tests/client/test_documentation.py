"""The programs in docs/connect.md and docs/notify.md do what they seem to."""

import asyncio
import os
import re
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.needs import needs_node_alone
from tests.support.programs import folder_of_command, output_of, output_of_program
from tests.support.project import App, create_app, operator_beside, subscribe
from tests.support.rows import each_row
from tests.support.server import RunningServer

_ROOT = Path(__file__).parents[2]
_CONNECT = (_ROOT / "docs" / "connect.md").read_text("utf-8")
_EVERY_GENERATION, _GENERATION_2, _SIGN_IN = re.findall(r"```python\n(.*?)```", _CONNECT, re.DOTALL)
_PRINTED_URL = "http://127.0.0.1:8080"
_ACCOUNT = "eip155:1:0xab16a96D359eC26a11e2C2b3d8f8B8942d5Bfcdb"


@each_row("generation", ["plain", "1.x"])
async def test_the_documented_dapp_and_wallet_pair_and_sign(relay: RunningServer, generation: str) -> None:
    dapp = 'name="Example Dapp"'
    assert _EVERY_GENERATION.count(dapp) == 1
    program = _EVERY_GENERATION.replace(dapp, f'{dapp}, generation="{generation}"')
    assert await _output(program, relay.url) == [
        "The wallet has ('0xcd2a3d9f938e13cd947ec05abc7fe734df8dd826',)",
        "The dapp wants personal_sign",
        "It signed: 0x5f1c...1b",
    ]


async def test_the_documented_session_of_2_x_has_namespaces_and_events(relay: RunningServer) -> None:
    address = "0xcd2a3d9f938e13cd947ec05abc7fe734df8dd826"
    assert await _output(_GENERATION_2, relay.url) == [
        "Example Dapp asks for ['eip155:1', 'eip155:10']",
        f"The wallet has ['eip155:1:{address}', 'eip155:10:{address}']",
        "The dapp wants personal_sign on eip155:10",
        "It signed: 0x5f1c...1b",
        "It says chainChanged 10",
    ]


async def test_the_wallet_of_the_documentation_signs_in(relay: RunningServer) -> None:
    address = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
    assert await _output(_SIGN_IN, relay.url) == [f"Signed in: ('eip155:1:{address}',)"]


async def _output(program: str, url: str) -> list[str]:
    """The output of a program of the page that runs against the server at that URL."""
    assert _PRINTED_URL in program
    printed = await asyncio.to_thread(output_of_program, program.replace(_PRINTED_URL, url))
    return printed.splitlines()


@pytest.fixture
async def app(server: RunningServer) -> AsyncIterator[App]:
    """The project of the page."""
    async with operator_beside(server.settings, server.clock) as operator:
        app = await create_app(server, operator, "Example App", "example-app")
        await operator.projects.add_type("example-app", "Price alerts", "price-alert")
        await subscribe(operator, "example-app", [_ACCOUNT])
        yield app


def example(app: App, language: str) -> str:
    page = (_ROOT / "docs" / "notify.md").read_text("utf-8")
    section = page.partition("\n## From your backend\n")[2].partition("\n### HTTP\n")[0]
    (found,) = re.findall(rf"```{language}\n(.*?)```", section, re.DOTALL)
    program: str = found.replace(_PRINTED_URL, app.server.url).replace("bsk_...", app.secret)
    return program


async def test_the_example_in_python(app: App) -> None:
    printed = await asyncio.to_thread(output_of_program, example(app, "python"))
    assert printed.splitlines() == [
        f"Sent to ('{_ACCOUNT}',) but not to () ()",
        "eth-4000-all 0 of None",
        "eth-4000-all 1 of 1",
        f"{{'{_ACCOUNT}': SubscribedAccount(account='{_ACCOUNT}', "
        "notification_types=('news', 'offers', 'price-alert'))}",
        f"['{_ACCOUNT}']",
    ]


@needs_node_alone
async def test_the_example_in_javascript(app: App, tmp_path: Path) -> None:
    installed = tmp_path / "node_modules" / "@bridge-server" / "api"
    shutil.copytree(_ROOT / "javascript" / "api", installed)
    (tmp_path / "example.mjs").write_text(example(app, "js"), "utf-8")
    lines = (await output_of("node", "example.mjs", folder=tmp_path)).splitlines()
    assert lines[:4] == [
        f"Sent to [ '{_ACCOUNT}' ] but not to [] []",
        "eth-4000-all 0 of undefined",
        "eth-4000-all 1 of 1",
        "Map(1) {",
    ]
    assert f"  '{_ACCOUNT}' => {{" in lines


async def test_the_commands(app: App, tmp_path: Path) -> None:
    script = example(app, "sh").replace("notify example-app", f"notify example-app --server {app.server.url}")
    (tmp_path / "users.csv").write_text(f"name,account\nAlice,{_ACCOUNT}\n", "utf-8")
    path = f"{folder_of_command(tmp_path)}{os.pathsep}{os.environ['PATH']}"
    printed = await output_of("sh", "-euc", script, folder=tmp_path, PATH=path, HOME=str(tmp_path))
    sent = ["would be sent  1", "id    eth-4000", "sent  1", "id    eth-4000-users", "sent  1"]
    assert printed.splitlines() == sent
