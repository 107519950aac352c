"""The control routes: in test mode alone, for the bearer of the token, on this machine; and their page."""

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
from pydantic import ValidationError

from bridge_server.settings.settings import Settings
from bridge_server.testmode.wire import CHANNELS, FaultShape
from tests.support.asking import ask
from tests.support.server import RunningServer
from tests.testmode.conftest import Controlled

ROUTES = [
    ("POST", "/_test/reset"), ("GET", "/_test/clock"), ("PUT", "/_test/clock"), ("GET", "/_test/faults"),
    ("PUT", "/_test/faults"), ("GET", "/_test/sent"), ("DELETE", "/_test/sent"), ("GET", "/_test/traffic"),
]  # fmt: skip


@pytest.mark.own_server
async def test_without_test_mode_there_are_no_routes(server: RunningServer) -> None:
    assert server.test_token is None
    for method, path in ROUTES:
        (await ask(server, method, path)).problem(404)


async def test_a_wrong_token_or_another_host_is_refused(controlled: Controlled) -> None:
    for method, path in ROUTES:
        for authorization in ("Bearer wrong", "Basic wrong", ""):
            answer = await controlled.send(method, path, Authorization=authorization)
            answer.problem(401)
            assert answer.headers["WWW-Authenticate"] == "Bearer"
        answer = await controlled.send(method, path, Host="rebound.example")
        assert "rebound.example" in answer.problem(403)["detail"]
    assert (await controlled.send("GET", "/_test/clock", Host="localhost:1234")).status == 200


def test_a_server_that_others_can_reach_is_not_controlled_by_tests(tmp_path: Path) -> None:
    reached: list[tuple[dict[str, Any], str]] = [
        ({"host": "0.0.0.0"}, "listen on 127.0.0.1"),
        ({"host": "192.168.1.20"}, "listen on 127.0.0.1"),
        ({"trusted_proxies": "10.0.0.1"}, "leave out one of the two"),
        ({"public_url": "https://bridge.example.org"}, "leave out one of the two"),
    ]
    for settings, what in reached:
        with pytest.raises(ValidationError, match=what):
            Settings(data_dir=tmp_path, test=True, **settings)


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
