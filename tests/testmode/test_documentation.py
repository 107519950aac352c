"""The page about the control routes: its programs run one after the other, and its tables are complete."""

import ast
import asyncio
import os
import re
import shutil
from asyncio.subprocess import PIPE
from inspect import CO_COROUTINE
from pathlib import Path
from typing import Any, get_args

import orjson
import pytest

from bridge_server.testmode.wire import CHANNELS, FaultShape
from tests.testmode.conftest import Controlled

PAGE = (
    (Path(__file__).parents[2] / "docs" / "test.md").read_text("utf-8").partition("\n## The control API\n")[2]
)


def blocks(language: str) -> list[str]:
    found: list[str] = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return found


async def test_the_programs_run(controlled: Controlled, capsys: pytest.CaptureFixture[str]) -> None:
    session_id = await controlled.server.open_session()
    assert (await controlled.push.register(type="fcm", topic=session_id)).status == 200
    names: dict[str, Any] = {"url": controlled.server.url, "test_token": controlled.server.test_token}

    for program in blocks("python"):
        code = compile(program, "test.md", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        pending = eval(code, names)
        if code.co_flags & CO_COROUTINE:
            await pending

    printed = capsys.readouterr().out
    assert "[0, 0]" in printed
    for channel in ("fcm", "apns", "webpush"):
        assert f"\n{channel} delivered any token Neue Anfrage von Example Dapp\n" in printed


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
async def test_the_request_with_curl_moves_the_clock(controlled: Controlled) -> None:
    (command,) = [each for each in blocks("sh") if each.startswith("curl")]
    variables = {**os.environ, "URL": controlled.server.url, "TEST_TOKEN": controlled.server.test_token or ""}
    process = await asyncio.create_subprocess_exec("sh", "-c", command, env=variables, stdout=PIPE)
    answer, _ = await process.communicate()

    assert orjson.loads(answer).keys() == {"now", "frozen", "swept", "delivered"}


def test_every_place_and_channel_is_named() -> None:
    places = get_args(FaultShape.model_fields["where"].annotation)

    assert [name for name in (*places, *CHANNELS) if f"`{name}`" not in PAGE] == []
