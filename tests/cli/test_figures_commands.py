"""`stats` and `clients`: what the running server has in its memory."""

import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.cli.attended import Attended, attended_server
from tests.cli.conftest import Invoke
from tests.support.admin_client import ADMIN_TOKEN
from tests.support.command import running_command, watched_server
from tests.support.eventually import eventually
from tests.support.rows import each_row


@pytest.fixture
def token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRIDGE_ADMIN_TOKEN", ADMIN_TOKEN)


@pytest.fixture
async def attended(tmp_path: Path, invoke: Invoke) -> AsyncIterator[Attended]:
    async with attended_server(tmp_path / "data", invoke, quota_exempt=()) as attended:
        yield attended


@pytest.mark.usefixtures("token")
async def test_stats_are_those_of_the_admin_api(attended: Attended) -> None:
    await attended.server.open_session()

    stats = await attended.json("stats")
    lines = await attended.lines("stats")

    assert stats["sessions"] == {"living": 1, "since_start": 1, "last_minute": 1}
    assert "sessions       1 living, 1 since the start, 1 in the last minute" in lines
    assert any(line.startswith("disk           database ") for line in lines)
    assert lines[-1].startswith("127.0.0.1 ")


@pytest.mark.usefixtures("token")
async def test_clients_are_listed_by_what_they_did(attended: Attended) -> None:
    for _ in range(3):
        await attended.server.open_session()

    listed = await attended.json("clients", "--by", "sessions", "--last", "5m")
    lines = await attended.lines("clients", "--by", "sessions")
    none = await attended.lines("clients", "--by", "refused")

    assert [(each["address"], each["sessions"]) for each in listed["clients"]] == [("127.0.0.1", 3)]
    assert lines[0].split() == ["client", "requests", "refused", "sessions", "sockets", "waits", "bytes",
                                "refused", "by"]  # fmt: skip
    assert lines[1].split()[:4] == ["127.0.0.1", "3", "0", "3"]
    assert none == ["no client has a figure of refused in this time: --by requests has all clients"]


@pytest.mark.usefixtures("token")
@each_row("last", ["2h", "often"])
async def test_a_time_that_is_not_kept_is_refused(attended: Attended, last: str) -> None:
    assert "takes 5m to 1h, or start" in await attended.refusal("clients", "--last", last)


@each_row("command", ["stats", "clients"])
async def test_without_a_token_the_command_says_what_to_do(attended: Attended, command: str) -> None:
    assert "set admin_token, restart the server" in await attended.refusal(command)


@pytest.mark.parametrize("command", ["stats", "clients"])
async def test_another_token_is_said(
    attended: Attended, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("BRIDGE_ADMIN_TOKEN", "another")

    assert "has another admin_token" in await attended.refusal(command)


async def test_the_token_of_before_is_tried_as_well(
    attended: Attended, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BRIDGE_ADMIN_TOKEN", "the next one, which the server has not taken yet")
    monkeypatch.setenv("BRIDGE_ADMIN_TOKEN_PREVIOUS", ADMIN_TOKEN)

    assert (await attended.json("stats"))["sessions"]["living"] == 0


@pytest.mark.usefixtures("token")
async def test_a_server_without_admin_api_is_said(tmp_path: Path, invoke: Invoke) -> None:
    async with attended_server(tmp_path / "data", invoke, admin_token=None) as attended:
        assert "was started without admin_token: restart it" in await attended.refusal("stats")


@pytest.mark.usefixtures("token")
@each_row("command", ["stats", "clients"])
def test_without_a_server_there_are_no_figures(tmp_path: Path, invoke: Invoke, command: str) -> None:
    result = invoke(command, "--data-dir", tmp_path / "none")

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"bridge-server: no server runs on {tmp_path / 'none'}: start it")
    assert not (tmp_path / "none").exists()


async def test_watching_prints_one_document_after_another_until_ctrl_c(tmp_path: Path) -> None:
    environment = {"BRIDGE_ADMIN_TOKEN": ADMIN_TOKEN}
    with (
        watched_server(tmp_path, environment=environment),
        running_command(
            "stats", "--watch", "--json", "--data-dir", tmp_path / "data", environment=environment
        ) as command,
    ):

        async def twice() -> bool:
            return os.fstat(command.out.fileno()).st_size > 0 and len(written()) >= 2

        def written() -> list[bytes]:
            return os.pread(command.out.fileno(), 1_000_000, 0).splitlines()

        await eventually(twice)
        command.process.send_signal(signal.SIGINT)
        finished = command.finished()

    assert (finished.exit_code, finished.err) == (0, "")
    assert all("sessions" in json.loads(line) for line in finished.out.splitlines())
