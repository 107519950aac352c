"""`notify`: beside a running server, with the project's secret or the operator's token."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.cli.conftest import Attended, Invoke, attended_server
from tests.client.gate import gate_before, losing_the_answer
from tests.support.admin_client import ADMIN_TOKEN
from tests.support.command import running_command
from tests.support.programs import shown_at_terminal
from tests.support.project import NEWS, OFFERS, App, account, accounts, look, opened_app
from tests.support.rows import each_row
from tests.support.waiting import eventually
from tests.support.webhook_receiver import hang, status

TEXT = ("--type", NEWS, "--title", "ETH is up ☂", "--body", "1 ETH costs 4,000 USD.")


@pytest.fixture
async def attended(tmp_path: Path, invoke: Invoke) -> AsyncIterator[Attended]:
    async with attended_server(tmp_path / "data", invoke) as attended:
        yield attended


@pytest.fixture
async def app(attended: Attended, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[App]:
    """A project whose secret the commands have."""
    async with opened_app(attended.server) as app:
        monkeypatch.setenv("BRIDGE_PROJECT_SECRET", app.secret)
        yield app


def sent(app: App) -> tuple[int, int]:
    """How many deliveries there are, and to how many accounts."""
    ((deliveries, recipients),) = look(app.server, "SELECT count(*), count(DISTINCT account) FROM deliveries")
    return deliveries, recipients


@pytest.mark.parametrize("right", ["secret file", "secret", "admin token"])
async def test_to_named_accounts(
    attended: Attended, app: App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, right: str
) -> None:
    options = ["--id", "x", *(word for each in accounts(3) for word in ("--to", each))]
    if right != "secret":
        monkeypatch.delenv("BRIDGE_PROJECT_SECRET")
    if right == "secret file":
        (tmp_path / "secret").write_text(f"{app.secret}\n")
        options += ["--secret-file", str(tmp_path / "secret")]
    elif right == "admin token":
        monkeypatch.setenv("BRIDGE_ADMIN_TOKEN", ADMIN_TOKEN)
    await app.subscribe(account(1))
    await app.subscribe(account(2), types=[OFFERS])
    result = await attended.command("notify", app.project_id, *TEXT, *options)

    assert (result.exit_code, result.stderr) == (1, "")
    assert result.stdout.splitlines() == [
        "id                   x",
        "sent                 1",
        "type not subscribed  1",
        "not subscribed       1",
        "",
        f"{account(2)}: type not subscribed",
        f"{account(3)}: not subscribed",
    ]
    assert look(app.server, "SELECT title FROM notifications") == [(TEXT[3],)]


async def test_to_all_dry_and_again_with_its_id(attended: Attended, app: App) -> None:
    await app.subscribe(*accounts(1_100))
    await app.subscribe(account(7), types=[OFFERS])
    command = ("notify", app.project_id, *TEXT, "--all")
    dry = (await attended.command(*command, "--dry-run")).stdout.splitlines()
    assert dry[:2] == ["would be sent        1,099", "type not subscribed  1"]
    assert sent(app) == (0, 0)
    first = await attended.json(*command)
    again = await attended.json(*command, "--id", first["id"])
    assert first == again == {
        "id": first["id"], "dry_run": False, "accounts": 1_100, "sent": 1_099, "rate_limited": 0,
        "type_not_subscribed": 1, "not_subscribed": 0,
        "failed": [{"account": account(7), "reason": "type_not_subscribed"}],
    }  # fmt: skip
    assert sent(app) == (1_099, 1_099)


async def test_to_a_file_of_accounts_and_over_a_limit(attended: Attended, app: App, tmp_path: Path) -> None:
    file = tmp_path / "accounts"
    await app.subscribe(*accounts(600))
    await app.operator.projects.limit_accounts(app.project_id, per_hour=2, burst=1)
    await attended.lines("subscriber", "export", app.project_id, file)
    file.write_text(f"{file.read_text()}\n{account(601)}\n")
    result = await attended.command("notify", app.project_id, *TEXT, "--to-file", str(file), "--json")
    limited = await attended.command("notify", app.project_id, *TEXT, "--to", account(1))
    counts = json.loads(result.stdout)
    assert (result.exit_code, counts["sent"], counts["not_subscribed"]) == (1, 600, 1)
    assert limited.exit_code == 1
    assert limited.stdout.splitlines()[-1] == f"{account(1)}: rate limited, again in 1,800 s"


@each_row(
    ("arguments", "said"),
    [
        ((), "name the receivers with one of"),
        (("--to", "nobody"), "--to nobody: "),
        (("--to-file", "/nowhere"), "/nowhere cannot be read"),
        (("--to-file", os.devnull), "has no accounts"),
        (("--all", "--secret-file", os.devnull), "has no secret"),
        (("--all", "--title", ""), "#/notification/title"),
    ],
)
async def test_bad_input_is_refused_in_one_line(
    attended: Attended, app: App, arguments: tuple[str, ...], said: str
) -> None:
    await app.subscribe(account(1))
    assert said in await attended.refusal("notify", app.project_id, *TEXT, *arguments)
    assert sent(app) == (0, 0)


async def test_without_a_right_to_send_the_command_says_what_to_do(
    attended: Attended, app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("notify", app.project_id, *TEXT, "--all")
    monkeypatch.delenv("BRIDGE_PROJECT_SECRET")
    assert "--secret-file" in await attended.refusal(*command)
    assert "--secret-file" in await attended.refusal(*command, "--server", attended.server.url)
    assert "a project id has" in await attended.refusal("notify", "../x", *TEXT, "--all")
    monkeypatch.setenv("BRIDGE_ADMIN_TOKEN", "another")
    assert "has another admin_token" in await attended.refusal(*command)
    monkeypatch.setenv("BRIDGE_ADMIN_TOKEN", ADMIN_TOKEN)
    assert "404" in await attended.refusal("notify", "none", *TEXT, "--all")
    monkeypatch.setenv("BRIDGE_PROJECT_SECRET", "bsk_wrong")
    assert "401" in await attended.refusal(*command)


async def test_several_sends_and_a_wrong_type_wait_for_nothing(attended: Attended, app: App) -> None:
    await app.subscribe(*accounts(600))
    assert [(await app.listing()).status for _ in range(3)] == [200, 200, 429]
    command = ("notify", app.project_id, *TEXT, "--all")
    for _ in range(3):
        assert (await attended.lines(*command))[-1] == "sent  600"
    for more in ((), ("--dry-run",)):
        assert "no notification type" in await attended.refusal(*command, "--type", "weather", *more)
    assert sent(app) == (1_800, 600)


async def test_a_wait_is_said_at_once_without_a_terminal(attended: Attended, app: App) -> None:
    await app.subscribe(*accounts(600))
    async with gate_before(app.server.url) as gate:
        gate.script.extend([status(503, Retry_After="0")] * 3 + [status(429, Retry_After="30")])
        command = ("notify", app.project_id, *TEXT, "--all", "--json", "--server", gate.url(""))
        place = ("--data-dir", str(app.server.settings.data_dir))
        with running_command(*command, *place, environment={"BRIDGE_PROJECT_SECRET": app.secret}) as run:
            await eventually(lambda: "waiting 30." in run.said())
            short, long = run.said().splitlines()
            run.process.send_signal(signal.SIGINT)
            await asyncio.to_thread(run.finished)

    assert short.startswith("bridge-server: waiting 0.")
    assert short.endswith(
        "s: The bridge answered 503: Service Unavailable; further short waits are not printed"
    )
    assert long.endswith("s: The bridge answered 429: Too Many Requests")


async def test_interrupted_it_says_how_to_go_on(attended: Attended, app: App) -> None:
    await app.subscribe(*accounts(1_200))
    command, environment = ("notify", app.project_id, *TEXT, "--all"), {"BRIDGE_PROJECT_SECRET": app.secret}
    async with gate_before(app.server.url) as gate:
        gate.script.extend([gate.otherwise, losing_the_answer(gate.otherwise), hang])
        place = ("--server", gate.url(""), "--data-dir", str(app.server.settings.data_dir))
        with running_command(*command, *place, environment=environment) as run:
            await gate.got(3)
            run.process.send_signal(signal.SIGINT)
            ended = await asyncio.to_thread(run.finished)

    assert (ended.exit_code, ended.out) == (1, "")
    said, _, more = ended.err.partition("--id ")
    assert "bridge-server: stopped after 500 of 1,200 accounts; the same command with " in said
    assert sent(app) == (1_000, 1_000)
    again = ("--id", more.split()[0], "--json", "--server", app.server.url)
    with running_command(*command, *again, environment=environment) as run:
        ended = await asyncio.to_thread(run.finished)
    assert json.loads(ended.out)["sent"] == 1_200
    assert sent(app) == (1_200, 1_200)


async def test_a_terminal_shows_a_bar_and_json_alone(attended: Attended, app: App) -> None:
    await app.subscribe(*accounts(1_200))
    async with gate_before(app.server.url) as gate:
        gate.script.extend([gate.otherwise, status(503, Retry_After="0")])
        command = ("notify", app.project_id, *TEXT, "--all", "--server", gate.url(""))
        environment = {"BRIDGE_PROJECT_SECRET": app.secret}
        shown = await asyncio.to_thread(shown_at_terminal, *command, environment=environment)
        bare = await asyncio.to_thread(shown_at_terminal, *command, "--json", environment=environment)
    assert "s: The bridge answered 503" in shown.partition("waiting 0.")[2]
    assert "1200/1200" in shown
    assert "sent  1,200" in shown
    assert json.loads(bare)["sent"] == 1_200
