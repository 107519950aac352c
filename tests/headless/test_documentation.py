"""The examples of docs/wallet.md do what the page says."""

import asyncio
import os
import re
from asyncio.subprocess import DEVNULL, PIPE
from pathlib import Path
from typing import Any

import orjson
import pytest

from bridge_server.kit.client import CallFailedError
from bridge_server.kit.headless.rules import read_rule, read_rule_file
from tests.headless.dapps import FIRST, SECOND, SIGN, dapp_at
from tests.support.command import run_command
from tests.support.programs import folder_of_command, output_of_program
from tests.support.server import RunningServer
from tests.support.waiting import until

_TEXT = (Path(__file__).parents[2] / "docs" / "wallet.md").read_text("utf-8")
_, _, _PAGE = _TEXT.partition("\n## The headless wallet\n")
_COMMAND, _CONTROL = re.findall(r"```sh\n(.*?)```", _PAGE, re.DOTALL)
(_PRINTED,) = re.findall(r"```\n(12:.*?)```", _PAGE, re.DOTALL)
(_PROGRAM,) = re.findall(r"```python\n(.*?)```", _PAGE, re.DOTALL)
(_RULES,) = re.findall(r"```toml\n(.*?)```", _PAGE, re.DOTALL)
_CHANGING = re.compile(r"^\d\d:\d\d:\d\d|wc:.{4}…|\d+ ms$|0x\w{4}…311c|  +", re.MULTILINE)


def _environment(folder: Path, **more: str) -> dict[str, str]:
    return {**os.environ, "PATH": f"{folder_of_command(folder)}:{os.environ['PATH']}", **more}


async def test_the_command_prints_what_the_page_shows(relay: RunningServer, tmp_path: Path) -> None:
    async with asyncio.timeout(240), dapp_at(relay.url, "1.x") as dapp:
        process = await asyncio.create_subprocess_exec(
            "sh", "-euc", _COMMAND, env=_environment(tmp_path, URI=dapp.uri), stdin=DEVNULL, stdout=PIPE
        )
        await dapp.call(*SIGN)
        with pytest.raises(CallFailedError):
            await dapp.call("eth_sendTransaction", [{"from": FIRST, "to": SECOND, "value": hex(10**18)}])
        await dapp.end()
        out, _ = await process.communicate()

    assert process.returncode == 0
    assert _CHANGING.sub("?", out.decode()) == _CHANGING.sub("?", _PRINTED)


async def test_the_program_prints_what_it_seems_to(relay: RunningServer) -> None:
    printed_url = "http://127.0.0.1:8080"
    assert printed_url in _PROGRAM
    printed = await asyncio.to_thread(output_of_program, _PROGRAM.replace(printed_url, relay.url))
    signed, *others = printed.splitlines()
    assert signed.startswith("signed: 0xf16e")
    methods = "['personal_sign', 'eth_sendTransaction', 'eth_sign']"
    assert others == ["rejected: 4001", "asked: hello", methods]


async def test_the_control_api_of_the_page_writes_its_ready_file(tmp_path: Path) -> None:
    options: dict[str, Any] = {"env": _environment(tmp_path), "cwd": tmp_path, "stdin": DEVNULL}
    process = await asyncio.create_subprocess_exec(
        "sh", "-euc", f"exec {_CONTROL}", stdout=DEVNULL, **options
    )
    try:
        await asyncio.to_thread(until, (tmp_path / "wallet.json").exists)
        facts = orjson.loads((tmp_path / "wallet.json").read_bytes())
    finally:
        process.terminate()
        await process.wait()

    assert facts["accounts"] == [FIRST]


def test_the_rules_of_the_page_can_be_read() -> None:
    texts = [rule.text for rule in read_rule_file(_RULES.encode()).rules]
    section = _PAGE.partition("### Rules")[2].partition("##")[0]
    actions = re.findall(r"^- ((?:`[^`]+`(?:, |; )?)+): ", section, re.MULTILINE)
    assert texts[:2] == ["personal_sign=approve*3", "personal_sign=reject"]
    for action in re.findall(r"`([^`]+)`", " ".join(actions)):
        assert read_rule(f"m={action.replace('JSON', '1')}")


def test_every_option_of_the_command_is_on_the_page() -> None:
    options = set(re.findall(r"--[a-z-]+", run_command("wallet", "--help").out)) - {"--help"}
    assert {option for option in options if f"`{option}" not in _PAGE} == set()
