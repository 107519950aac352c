"""The requests with curl on the page about notifications: they run as they are written."""

import asyncio
import os
import re
import shutil
from asyncio.subprocess import PIPE
from pathlib import Path

import orjson
import pytest

from tests.support.admin_client import ADMIN_TOKEN, ETHEREUM, AdminClient

_PAGE = (Path(__file__).parents[2] / "docs" / "notify.md").read_text("utf-8")
_BLOCKS = re.findall(r"```sh\n(.*?)```", _PAGE, re.DOTALL)
_COMMANDS = [
    command
    for block in _BLOCKS
    if block.startswith("curl ")
    for command in re.split(r"\n(?=curl )", block.strip())
]


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
