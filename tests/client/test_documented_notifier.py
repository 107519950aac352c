"""The examples of docs/notify.md run as they stand."""

import asyncio
import os
import re
import shutil
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from tests.support.forked_program import folder_of_command
from tests.support.node_packages import needs_node_alone
from tests.support.program_output import output_of_program
from tests.support.project import App, create_app, operator_beside, subscribe
from tests.support.server import RunningServer

_ROOT = Path(__file__).parent.parent.parent
_PAGE = (_ROOT / "docs" / "notify.md").read_text("utf-8")
_ACCOUNT = "eip155:1:0xab16a96D359eC26a11e2C2b3d8f8B8942d5Bfcdb"
_PRINTED_URL, _PRINTED_SECRET = "http://127.0.0.1:8080", "bsk_..."
_SECONDS = 240


@pytest.fixture
async def app(server: RunningServer) -> AsyncIterator[App]:
    """The project of the page."""
    async with operator_beside(server.settings, server.clock) as operator:
        app = await create_app(server, operator, "Example App", "example-app")
        await operator.projects.add_type("example-app", "Price alerts", "price-alert")
        await subscribe(operator, "example-app", [_ACCOUNT])
        yield app


def example(app: App, language: str) -> str:
    section = _PAGE.partition("\n## From your backend\n")[2].partition("\n### HTTP\n")[0]
    (found,) = re.findall(rf"```{language}\n(.*?)```", section, re.DOTALL)
    program: str = found.replace(_PRINTED_URL, app.server.url).replace(_PRINTED_SECRET, app.secret)
    return program


async def printed(*command: str | Path, cwd: Path, environment: Mapping[str, str] | None = None) -> list[str]:
    variables = {**os.environ, **(environment or {})}
    process = await asyncio.create_subprocess_exec(*command, cwd=cwd, env=variables, stdout=PIPE)
    async with asyncio.timeout(_SECONDS):
        output, _ = await process.communicate()
    assert process.returncode == 0
    return output.decode().splitlines()


async def test_the_example_in_python(app: App, tmp_path: Path) -> None:
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

    lines = await printed("node", "example.mjs", cwd=tmp_path)

    assert lines[:4] == [
        f"Sent to [ '{_ACCOUNT}' ] but not to [] []",
        "eth-4000-all 0 of undefined",
        "eth-4000-all 1 of 1",
        "Map(1) {",
    ]
    assert f"  '{_ACCOUNT}' => {{" in lines


async def test_the_commands(app: App, tmp_path: Path) -> None:
    script = example(app, "sh").replace("notify example-app", f"notify example-app --server {app.server.url}")
    environment = {
        "PATH": f"{folder_of_command(tmp_path)}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(tmp_path),
    }

    (tmp_path / "users.csv").write_text(f"name,account\nAlice,{_ACCOUNT}\n", "utf-8")

    lines = await printed("sh", "-euc", script, cwd=tmp_path, environment=environment)

    assert lines[:3] == ["would be sent  1", "id    eth-4000", "sent  1"]
    assert lines[3:] == ["id    eth-4000-users", "sent  1"]
