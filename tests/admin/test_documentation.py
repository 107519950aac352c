"""The requests with curl on the pages about the admin API and notifications run as they are written."""

import asyncio
import os
import re
import shutil
from asyncio.subprocess import PIPE
from pathlib import Path

import orjson
import pytest

from tests.support.admin_client import ADMIN_TOKEN, ETHEREUM, AdminClient
from tests.support.rpc_client import DEVELOPMENT_ADDRESS, RpcClient
from tests.support.server import running_server

PAGE = (Path(__file__).parents[2] / "docs" / "admin.md").read_text("utf-8")
COMMANDS = [
    line
    for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    for line in block.replace("\\\n", "").splitlines()
    if line.startswith("curl ")
]
_PAGE = (Path(__file__).parents[2] / "docs" / "notify.md").read_text("utf-8")
_BLOCKS = re.findall(r"```sh\n(.*?)```", _PAGE, re.DOTALL)
_COMMANDS = [
    command
    for block in _BLOCKS
    if block.startswith("curl ")
    for command in re.split(r"\n(?=curl )", block.strip())
]


async def answered(command: str, url: str) -> object:
    """What the command prints, which must be JSON."""
    variables = {**os.environ, "URL": url, "ADMIN_TOKEN": ADMIN_TOKEN}
    process = await asyncio.create_subprocess_exec("sh", "-ec", command, env=variables, stdout=PIPE)
    async with asyncio.timeout(60):
        printed, _ = await process.communicate()
    assert process.returncode == 0, command
    return orjson.loads(printed)


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
async def test_the_requests_with_curl_are_answered(tmp_path: Path) -> None:
    async with running_server(
        tmp_path / "data", admin_token=ADMIN_TOKEN, admin_wallet=True, dev_accounts=True, traffic=True
    ) as server:
        admin = AdminClient(server)
        await admin.create("app", "news")
        await admin.subscribe("app", ETHEREUM)
        await RpcClient(server).call("personal_sign", "0x00", DEVELOPMENT_ADDRESS)

        answers = [await answered(command, server.url) for command in COMMANDS]

    assert len(answers) >= 8
    assert all(isinstance(answer, dict) for answer in answers)


async def _answer(admin: AdminClient, secret: str, command: str) -> dict[str, object]:
    variables = {**os.environ, "URL": admin.server.url, "ADMIN_TOKEN": ADMIN_TOKEN, "SECRET": secret}
    process = await asyncio.create_subprocess_exec("sh", "-ec", command, env=variables, stdout=PIPE)
    async with asyncio.timeout(60):
        printed, _ = await process.communicate()
    assert process.returncode == 0, command
    answer: dict[str, object] = orjson.loads(printed)
    return answer


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
async def test_the_requests_are_answered(admin: AdminClient) -> None:
    secret = await admin.create("example-app", "price-alert")
    await admin.subscribe("example-app", ETHEREUM)

    sent, dry_run = [await _answer(admin, secret, command) for command in _COMMANDS]

    assert sent == dry_run == {"sent": [ETHEREUM], "failed": [], "not_found": [], "next": None, "total": 1}
