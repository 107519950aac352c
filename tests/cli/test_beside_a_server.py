"""Commands while a server runs: figures, health, console; its next request sees what they did."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urljoin, urlsplit
from urllib.request import HTTPCookieProcessor, build_opener

import orjson
import pytest

from tests.cli.conftest import Attended, Invoke, Operating, SetUp, attended_server
from tests.support.admin_client import ADMIN_TOKEN, ETHEREUM, AdminClient, plain_account
from tests.support.command import run_command, running_command, watched_server
from tests.support.server import reached, server_process
from tests.support.waiting import eventually


@pytest.fixture
async def attended(tmp_path: Path, invoke: Invoke, set_up: SetUp) -> AsyncIterator[Attended]:
    set_up(admin_token=ADMIN_TOKEN)
    async with attended_server(tmp_path / "data", invoke, quota_exempt=()) as attended:
        yield attended


async def test_stats_and_clients_are_those_of_the_admin_api(attended: Attended) -> None:
    for _ in range(3):
        await attended.server.open_session()
    stats = await attended.json("stats")
    lines = await attended.lines("stats")
    listed = await attended.json("clients", "--by", "sessions", "--last", "5m")
    heading, first, *_ = await attended.lines("clients", "--by", "sessions")
    none = await attended.lines("clients", "--by", "refused")

    assert stats["sessions"] == {"living": 3, "since_start": 3, "last_minute": 3}
    assert "sessions       3 living, 3 since the start, 3 in the last minute" in lines
    assert any(line.startswith("disk           database ") for line in lines)
    assert lines[-1].startswith("127.0.0.1 ")
    assert [(each["address"], each["sessions"]) for each in listed["clients"]] == [("127.0.0.1", 3)]
    assert heading.split() == ["client", "requests", "refused", "sessions", "sockets", "waits", "bytes",
                               "refused", "by"]  # fmt: skip
    assert first.split()[:4] == ["127.0.0.1", "3", "0", "3"]
    assert none == ["no client has any refused in this time: --by requests lists all clients"]
    for last in ("2h", "often"):
        assert "takes 5m to 1h, or start" in await attended.refusal("clients", "--last", last)


async def test_without_the_servers_token_a_command_says_what_to_do(
    tmp_path: Path, attended: Attended, invoke: Invoke, set_up: SetUp, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with attended_server(tmp_path / "other", invoke, admin_token=None) as without_admin_api:
        assert "without admin_token: restart it" in await without_admin_api.refusal("stats")
    set_up(admin_token="another")
    assert "has another admin_token" in await attended.refusal("stats")
    monkeypatch.delenv("BRIDGE_ADMIN_TOKEN")
    assert "set admin_token, restart the server" in await attended.refusal("clients")
    set_up(admin_token="the next one, which the server has not taken yet", admin_token_previous=ADMIN_TOKEN)
    assert (await attended.json("stats"))["sessions"]["living"] == 0


def test_without_a_server_a_command_says_so(tmp_path: Path, invoke: Invoke, set_up: SetUp) -> None:
    set_up(admin_token=ADMIN_TOKEN)
    nowhere = Operating(invoke, tmp_path / "none")
    for command in ("stats", "clients", "console", "notify app --type news --title T --body B --all"):
        assert f"no server runs on {tmp_path / 'none'}" in nowhere.refusal(*command.split())
    unhealthy = nowhere("health")
    assert (unhealthy.exit_code, unhealthy.stdout) == (1, f"no server runs on {tmp_path / 'none'}\n")
    assert not (tmp_path / "none").exists()


async def test_watching_prints_one_document_after_another_until_ctrl_c(tmp_path: Path) -> None:
    environment = {"BRIDGE_ADMIN_TOKEN": ADMIN_TOKEN}
    command = ("stats", "--watch", "--json", "--data-dir", tmp_path / "data")
    with (
        watched_server(tmp_path, environment=environment),
        running_command(*command, environment=environment) as watching,
    ):
        written = watching.out.fileno()
        await eventually(lambda: os.pread(written, 1_000_000, 0).count(b"\n") >= 2)
        watching.process.send_signal(signal.SIGINT)
        finished = watching.finished()
    assert (finished.exit_code, finished.err) == (0, "")
    assert all("sessions" in json.loads(line) for line in finished.out.splitlines())


def test_the_link_signs_in_once_on_the_consoles_own_port(tmp_path: Path, invoke: Invoke) -> None:
    console, browser = Operating(invoke, tmp_path / "data", "console"), build_opener(HTTPCookieProcessor())
    environment = {"BRIDGE_CONSOLE": "on", "BRIDGE_CONSOLE_PORT": "0"}
    with watched_server(tmp_path, environment=environment) as server:
        link = console.text().strip()
        with browser.open(link, timeout=60) as page:
            text = page.read().decode()
        assert urlsplit(link).port != urlsplit(server.url).port
        assert page.url.endswith("/console/traffic")
        assert "No requests yet" in text
        for path, status in (("", "410"), ("/info", "404")):  # nothing else is there
            with pytest.raises(HTTPError, match=status):
                browser.open(urljoin(link, path), timeout=60)
        assert console.json()["link"] != link
        assert console.json("--sign-out")["signed_out"] == 1
        with pytest.raises(HTTPError, match="401"):
            browser.open(link.partition("/sign-in")[0], timeout=60)
        assert "sessions are ended" in console.text("--sign-out")


def test_a_server_that_is_ready_is_healthy(tmp_path: Path, invoke: Invoke) -> None:
    data = tmp_path / "data"
    with watched_server(tmp_path) as server:
        healthy = run_command("health", "--data-dir", data)
        (data / "bridge.sqlite3").unlink()
        sick = run_command("health", "--data-dir", data, "--json")
        assert "the running server has no console" in Operating(invoke, data).refusal("console")
    facts = orjson.loads(sick.out)
    assert (healthy.exit_code, healthy.out) == (0, f"ready: {server.url}\n")
    assert (sick.exit_code, facts["ready"], facts["url"]) == (1, False, server.url)
    assert facts["fault"].startswith(f"the server at {server.url} is not ready: 503 ")


@pytest.fixture
async def beside(tmp_path: Path, invoke: Invoke) -> AsyncIterator[Attended]:
    """Commands in this process, one at a time, beside a server in a process of its own."""
    with server_process(tmp_path / "data", environment={"BRIDGE_ADMIN_TOKEN": ADMIN_TOKEN}) as process:
        async with reached(process) as server:
            yield Attended(server, Operating(invoke, tmp_path / "data"))
        assert process.stop() == 0


async def test_the_next_request_and_the_admin_api_see_what_commands_do(beside: Attended) -> None:
    admin = AdminClient(beside.server)

    async def outcome(type_id: str) -> Any:
        return (await admin.notify("app", new, type_id, ETHEREUM)).json

    made = await beside.json("project", "create", "My app", "--id", "app")
    await beside.json("project", "type", "add", "app", "News", "--id", "news")
    old = made["secret"]["secret"]
    new = (await beside.json("project", "rotate-secret", "app"))["secret"]
    assert [await admin.opens("app", secret) for secret in (old, new)] == [True, True]
    await beside.json("project", "revoke-secret", "app", "1")
    assert [await admin.opens("app", secret) for secret in (old, new)] == [False, True]

    assert (await outcome("news"))["not_found"] == [ETHEREUM]
    await beside.json("subscriber", "add", "app", ETHEREUM)
    assert (await outcome("news"))["sent"] == [ETHEREUM]
    await beside.json("project", "type", "add", "app", "Deals", "--id", "deals")
    assert (await outcome("deals"))["sent"] == [ETHEREUM]
    await beside.json("subscriber", "add", "app", ETHEREUM, "--type", "news")
    assert (await outcome("deals"))["failed"] == [{"account": ETHEREUM, "reason": "type_not_subscribed"}]
    await beside.json("project", "type", "remove", "app", "deals")
    assert (await admin.notify("app", new, "deals", ETHEREUM)).status == 400

    for command, path in (
        (("project", "list"), "/admin/projects"),
        (("project", "show", "app"), "/admin/projects/app"),
        (("project", "type", "list", "app"), "/admin/projects/app/types"),
        (("project", "analytics", "app"), "/admin/projects/app/analytics"),
    ):
        assert (await admin.get(path)).json == await beside.json(*command)
    await beside.json("project", "limits", "app", "--per-hour", "0.001", "--burst", "1")
    assert [each["reason"] for each in (await outcome("news"))["failed"]] == ["rate_limited"]
    await beside.json("subscriber", "remove", "app", ETHEREUM)
    assert (await outcome("news"))["not_found"] == [ETHEREUM]
    await beside.json("project", "delete", "app", "--yes")
    assert not await admin.opens("app", new)
    assert (await admin.get("/admin/projects/app")).status == 404


async def test_a_server_answers_while_thousands_are_imported(beside: Attended, tmp_path: Path) -> None:
    await beside.json("project", "create", "My app", "--id", "many")
    pipe = tmp_path / "accounts"
    os.mkfifo(pipe)
    lines = [f"{plain_account(number)}\n" for number in range(4_000)]

    async def half_is_stored() -> bool:
        return bool((await beside.json("project", "show", "many"))["subscribers"] >= 2_000)

    command = ("subscriber", "import", "many", pipe, "--data-dir", tmp_path / "data", "--json")
    importing = asyncio.create_task(asyncio.to_thread(run_command, *command))
    with await asyncio.to_thread(pipe.open, "w") as accounts:
        await asyncio.to_thread(accounts.writelines, lines[:-1])
        await eventually(half_is_stored)
        await beside.server.open_session()  # a write, which would wait if the import were one transaction
        is_over = importing.done()
        accounts.write(lines[-1])

    assert not is_over
    finished = await importing
    assert (finished.exit_code, finished.err) == (0, "")
    assert orjson.loads(finished.out) == {"subscribed": 4_000, "updated": 0, "unchanged": 0}
    exported = await asyncio.to_thread(beside.operating.text, "subscriber", "export", "many")
    assert exported.count("\n") == 4_000
