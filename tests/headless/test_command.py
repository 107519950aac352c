"""`bridge-server wallet` in a process of its own: its lines, exit codes, errors, and size."""

import asyncio
import re
import sys
from asyncio.subprocess import PIPE
from collections.abc import Callable
from contextlib import AbstractContextManager, AsyncExitStack
from itertools import cycle, islice
from pathlib import Path

import aiohttp
import orjson
import pytest
from click.testing import CliRunner
from yarl import URL

from bridge_server.cli.commands import commands
from bridge_server.kit.client import CallFailedError, Dapp, Generation
from bridge_server.kit.headless import HeadlessWallet
from tests.dev.test_command import running
from tests.headless.dapps import BRISK, FIRST, GENERATIONS, SECOND, SIGN, dapp_at, relay_at, wallet_process
from tests.support.command import RunningCommand, run_command, running_command
from tests.support.needs import slow
from tests.support.rows import each_row
from tests.support.server import RunningServer, server_process

PAYMENT = {"from": FIRST, "to": SECOND, "value": hex(10**18)}
SESSIONS = 100


def wallet_for(dapp: Dapp, relay_url: str, *arguments: str) -> AbstractContextManager[RunningCommand]:
    """The command, which has scanned the dapp's URI."""
    return running_command("wallet", dapp.uri, "--relay-url", relay_url, *arguments)


async def ended(process: RunningCommand) -> tuple[int, str, str]:
    """The exit code, and all that was printed."""
    finished = await asyncio.to_thread(process.finished)
    return finished.exit_code, finished.out, finished.err


def usage_error(*arguments: str) -> str:
    """The only line of a refusal to start."""
    result = CliRunner().invoke(commands, ["wallet", *arguments], prog_name="bridge-server")
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    return line


async def test_the_command_prints_a_line_for_each_event(relay: RunningServer, generation: Generation) -> None:
    async with dapp_at(relay.url, generation) as dapp:
        with wallet_for(dapp, relay.url, "--once", "--on", "eth_sendTransaction=reject") as process:
            signature = await dapp.call(*SIGN)
            with pytest.raises(CallFailedError):
                await dapp.call("eth_sendTransaction", [PAYMENT])
            await dapp.end()
            code, out, err = await ended(process)

    page = "" if generation in ("plain", "0.7") else "  https://dapp.example"
    lines = [re.sub(r"^\d\d:\d\d:\d\d  ", "", line) for line in out.splitlines()]
    assert (code, err) == (0, "")
    assert re.fullmatch(rf"paired   Example Dapp{page}  {re.escape(generation)}  wc:.{{4}}…", lines[0])
    assert lines[1] == "session  approved  0xf39F…2266  chain 31337"
    short = f"{signature[:6]}…{signature[-4:]}"
    assert re.fullmatch(rf'call     personal_sign "hello" {{31}}signed {short}   \d+ ms', lines[2])
    assert lines[3] == (
        "call     eth_sendTransaction 1 ether → 0x7099…79C8           "
        "rejected 4001  (--on eth_sendTransaction=reject)"
    )
    assert lines[4:] == ["dapp     ended the session"]


async def test_json_lines_tell_the_same(relay: RunningServer) -> None:
    async with dapp_at(relay.url, "1.x") as dapp:
        with wallet_for(dapp, relay.url, "--once", "--json") as process:
            await dapp.call(*SIGN)
            await dapp.end()
            _, out, _ = await ended(process)
    events = [orjson.loads(line) for line in out.splitlines()]
    assert [event["event"] for event in events] == ["paired", "session", "answer", "ended"]
    assert events[2]["call"]["text"] == "hello"
    assert events[3]["session"]["ended_by"] == "dapp"


@each_row(("expected", "code"), [(2, 0), (3, 3)])
async def test_rules_come_from_a_file_and_an_expectation_decides_the_exit_code(
    relay: RunningServer, tmp_path: Path, expected: int, code: int
) -> None:
    file, expectation = tmp_path / "rules.toml", f"personal_sign={expected}"
    file.write_text('[on]\npersonal_sign = ["approve*1", \'answer:"0x01"\']\n', "utf-8")
    async with dapp_at(relay.url, "1.x") as dapp:
        arguments = ("--rules", str(file), "--quiet", "--expect", expectation)
        with wallet_for(dapp, relay.url, *arguments) as process:
            first, second = [await dapp.call(*SIGN) for _number in range(2)]
            await dapp.end()
            finished = await ended(process)

    assert (len(first), second) == (132, "0x01")
    unmet = f"bridge-server: --expect {expectation} was not met: 2 came\n"
    assert finished == (code, "", unmet if code else "")


async def test_the_command_reads_uris_from_standard_input(relay: RunningServer) -> None:
    command = (sys.executable, "-m", "bridge_server", "wallet", "--quiet")
    async with dapp_at(relay.url, "plain") as first, dapp_at(relay.url, "1.x") as second:
        process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, stderr=PIPE)
        assert process.stdin is not None
        process.stdin.write(f"{first.uri}\n\n{second.uri}\n".encode())
        process.stdin.close()
        for dapp in (first, second):
            await dapp.call(*SIGN)
            await dapp.end()
        async with asyncio.timeout(60):
            _, err = await process.communicate()

    assert (process.returncode, err) == (0, b"")


@each_row(("arguments", "said"), [
    (["--on", "personal_sign"], "'personal_sign' is no rule: write METHOD[@ORIGIN]=ACTION"),
    (["--on", "personal_sign=dance"], "'dance' is no action: write approve, reject,"),
    (["--on", "personal_sign=answer:0x"], "'0x' is not JSON"),
    (["--expect", "personal_sing=2"], "did you mean personal_sign"),
    (["--expect", "personal_sign"], "write METHOD=N"), (["--listen", "0.0.0.0:0"], "listen on 127.0.0.1"),
    (["--listen", "here"], "write a host and a port"),
    (["--policy", "ask"], "ask needs somebody who answers: add --listen"),
    (["--accounts", "one"], "write numbers from 0 on"),
    (["--rpc", "ftp://x"], "--rpc must be an absolute http or https URL"),
    (["--rules", "/no/such/file"], "cannot be read"),
    (["https://example.org"], "the URI cannot be used: A pairing URI begins with"),
    (["wc:abc@3?key=00"], "the URI cannot be used: The URI is of no known generation"),
    (["--relay-url", "http://relay.example", f"wc:{'0' * 64}@2?relay-protocol=irn&symKey={'0' * 64}"],
     "the URI cannot be used: The topic must be the SHA-256 of symKey"),
])  # fmt: skip
def test_an_error_of_usage_is_one_line_and_exit_code_2(arguments: list[str], said: str) -> None:
    assert said in usage_error(*arguments)


@each_row(("text", "said"), [
    ("on = 3", "on must be a table"), ('on = ["x"]', "'x' is no rule"),
    ("policy = 'dance'", "policy is 'dance': write approve, reject, ask, hang"),
    ("colour = 1", "it has colour, which is not known"), ("=", "it is not TOML"),
])  # fmt: skip
def test_a_file_of_rules_that_is_malformed_is_an_error_of_usage(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "rules.toml"
    file.write_text(text, "utf-8")
    assert said in usage_error("--rules", str(file))


_TOPIC = "66687aadf862bd776c8fc18b8e9f8e20089714856ee233b3902a591d0d5f2925"  # SHA-256 of 32 zero bytes


async def test_the_relay_of_2_x_is_the_one_server_of_dev_on_this_machine(tmp_path: Path) -> None:
    uri, temporary = f"wc:{_TOPIC}@2?relay-protocol=irn&symKey={'0' * 64}", {"TMPDIR": str(tmp_path / "tmp")}
    (tmp_path / "tmp").mkdir()
    without = run_command("wallet", uri, environment=temporary)
    with running(tmp_path) as dev:
        said = f"bridge-server: the relay is {dev.facts['url']}, the server of dev on this machine\n"
        async with dapp_at(dev.facts["url"], "2.x") as dapp:
            with running_command("wallet", dapp.uri, "--once", environment=temporary) as process:
                assert await dapp.call(*SIGN)
                await dapp.end()
                assert (await ended(process))[::2] == (0, said)
        (tmp_path / "other").mkdir()
        with running(tmp_path / "other", environment=temporary):
            several = run_command("wallet", uri, environment=temporary)

    assert (without.exit_code, several.exit_code) == (2, 2)
    assert without.err == (
        "bridge-server: the URI cannot be used: a URI of generation 2.x names no relay, and no server of dev "
        "runs here: add --relay-url\n"
    )
    assert "several servers of dev run here (" in several.err


def test_the_ready_file_is_for_the_owner_alone(tmp_path: Path) -> None:
    ready_file = tmp_path / "wallet.json"
    with wallet_process(tmp_path, "--accounts", "0,1") as wallet:
        assert ready_file.stat().st_mode & 0o777 == 0o600
        assert (wallet.stop(), ready_file.exists()) == (0, False)
    assert wallet.facts.keys() == {"url", "token", "pid", "accounts"}
    assert (wallet.facts["accounts"], wallet.facts["pid"]) == ([FIRST, SECOND], wallet.process.pid)


@pytest.mark.parametrize("generation", ["plain", "2.x"])
async def test_calls_go_on_after_the_bridge_was_killed(tmp_path: Path, generation: Generation) -> None:
    with server_process(tmp_path / "data") as first:
        url = first.url
        dapp = dapp_at(url, generation)
        await dapp.__aenter__()
        wallet = HeadlessWallet(policy="ask", relay_url=url, pace=BRISK)
        await wallet.__aenter__()
        session = await wallet.pair(dapp.uri)
        asked = await dapp.request(*SIGN)
        call = await wallet.next_call("personal_sign", timeout=60)
        result = asyncio.create_task(dapp.result(asked))
        first.kill()
    answered = asyncio.create_task(call.approve())

    with server_process(tmp_path / "data", "--port", str(URL(url).port)):
        async with asyncio.timeout(120):
            await answered
            assert len(await result) == 132
            again = asyncio.create_task(dapp.call(*SIGN))
            await (await wallet.next_call("personal_sign", timeout=60)).reject()
            assert isinstance((await asyncio.gather(again, return_exceptions=True))[0], Exception)
            await session.switch_chain(5)
            await dapp.end()
            await session.wait_until_over()
        await wallet.__aexit__(None, None, None)
        await dapp.__aexit__(None, None, None)

    assert [each.state for each in wallet.calls] == ["answered", "refused"]


@slow
async def test_a_hundred_sessions_at_once_need_less_than_150_mib(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        relay = await enter(relay_at(tmp_path / "data", sessions_per_minute=SESSIONS * 10))
        wallet = stack.enter_context(wallet_process(tmp_path, "--relay-url", relay.url, "--quiet"))
        http = await enter(aiohttp.ClientSession(wallet.facts["url"], headers=wallet.headers))
        generations = islice(cycle(GENERATIONS), SESSIONS)
        dapps = [await enter(dapp_at(relay.url, generation)) for generation in generations]

        async def pair(dapp: Dapp) -> None:
            async with http.post("/pair", json={"uri": dapp.uri}) as response:
                assert response.status == 200, await response.text()

        await asyncio.gather(*(pair(dapp) for dapp in dapps))
        signatures = await asyncio.gather(*(dapp.call(*SIGN) for dapp in dapps))
        async with http.get("/sessions") as response:
            sessions = (await response.json())["sessions"]
        used_mib = wallet.resident_mib()

    assert len(set(signatures)) == 1
    assert [session["state"] for session in sessions] == ["approved"] * SESSIONS
    record_property("resident_mib", round(used_mib))
    assert used_mib < 150
