"""Commands while a server runs on the same data: its next request sees what they did, none waits long."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest

from bridge_server.kit.testing.server import ServerProcess
from tests.cli.conftest import Invoke
from tests.support.admin_client import ADMIN_TOKEN, ETHEREUM, plain_account
from tests.support.command import Finished, run_command
from tests.support.server import server_process

MANY = 4_000


@dataclass(frozen=True, slots=True)
class Beside:
    """A server in a process of its own, and commands in this one, or in theirs."""

    server: ServerProcess
    client: aiohttp.ClientSession
    data_dir: Path
    invoke: Invoke

    async def command(self, *arguments: str | Path) -> Finished:
        """Run a command in a process of its own to its end while the server goes on."""
        options = [*arguments, "--data-dir", self.data_dir, "--json"]
        return await asyncio.to_thread(run_command, *options, within_seconds=60)

    async def told_by_process(self, *arguments: str | Path) -> Any:
        """The JSON document of a command that must succeed, in a process of its own."""
        finished = await self.command(*arguments)
        assert (finished.exit_code, finished.err) == (0, "")
        return orjson.loads(finished.out)

    async def told(self, *arguments: str | Path) -> Any:
        """The JSON document of a command that must succeed; not for two at the same time."""
        finished = await asyncio.to_thread(self.invoke, *arguments, "--data-dir", self.data_dir, "--json")
        assert (finished.exit_code, finished.stderr) == (0, "")
        return orjson.loads(finished.stdout)

    async def ask(self, method: str, path: str, token: str, fields: Any = None) -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {token}"}
        url = f"{self.server.url}{path}"
        async with self.client.request(method, url, json=fields, headers=headers) as response:
            return response.status, orjson.loads(await response.read())

    async def notify(self, secret: str, type_id: str, *accounts: str) -> tuple[int, Any]:
        notification = {"type": type_id, "title": "Title", "body": "Body"}
        return await self.ask(
            "POST", "/app/notify", secret, {"notification": notification, "accounts": accounts}
        )


@pytest.fixture(scope="module")
def server_and_data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ServerProcess, Path]]:
    data_dir = tmp_path_factory.mktemp("beside") / "data"
    with server_process(data_dir, environment={"BRIDGE_ADMIN_TOKEN": ADMIN_TOKEN}) as server:
        yield server, data_dir
        assert server.stop() == 0


@pytest.fixture
async def beside(server_and_data: tuple[ServerProcess, Path], invoke: Invoke) -> AsyncIterator[Beside]:
    server, data_dir = server_and_data
    async with aiohttp.ClientSession() as client:
        yield Beside(server, client, data_dir, invoke)


@pytest.fixture
async def secret(beside: Beside) -> AsyncIterator[str]:
    """The secret of a project with one type; the project is deleted after the test."""
    made = await beside.told("project", "create", "My app", "--id", "app")
    await beside.told("project", "type", "add", "app", "News", "--id", "news")
    yield made["secret"]["secret"]
    await beside.told("project", "delete", "app", "--yes")


async def test_projects_and_their_secrets_are_seen_by_the_next_request(beside: Beside, secret: str) -> None:
    status, outcome = await beside.notify(secret, "news", ETHEREUM)
    assert (status, outcome["not_found"]) == (200, [ETHEREUM])

    new = (await beside.told("project", "rotate-secret", "app"))["secret"]
    assert [(await beside.notify(each, "news", ETHEREUM))[0] for each in (secret, new)] == [200, 200]

    first = (await beside.told("project", "show", "app"))["secrets"][0]["number"]
    await beside.told("project", "revoke-secret", "app", str(first))
    assert [(await beside.notify(each, "news", ETHEREUM))[0] for each in (secret, new)] == [401, 200]


async def test_subscriptions_and_types_are_seen_by_the_next_request(beside: Beside, secret: str) -> None:
    assert (await beside.notify(secret, "news", ETHEREUM))[1]["not_found"] == [ETHEREUM]

    await beside.told("subscriber", "add", "app", ETHEREUM)
    assert (await beside.notify(secret, "news", ETHEREUM))[1]["sent"] == [ETHEREUM]

    await beside.told("project", "type", "add", "app", "Deals", "--id", "deals")
    assert (await beside.notify(secret, "deals", ETHEREUM))[1]["sent"] == [ETHEREUM]

    await beside.told("subscriber", "add", "app", ETHEREUM, "--type", "news")
    failed = (await beside.notify(secret, "deals", ETHEREUM))[1]["failed"]
    assert failed == [{"account": ETHEREUM, "reason": "type_not_subscribed"}]

    await beside.told("project", "type", "remove", "app", "deals")
    assert (await beside.notify(secret, "deals", ETHEREUM))[0] == 400

    await beside.told("subscriber", "remove", "app", ETHEREUM)
    assert (await beside.notify(secret, "news", ETHEREUM))[1]["not_found"] == [ETHEREUM]


async def test_limits_and_the_end_of_a_project_are_seen_by_the_next_request(
    beside: Beside, secret: str
) -> None:
    await beside.told("subscriber", "add", "app", ETHEREUM)

    await beside.told("project", "limits", "app", "--per-hour", "0.001", "--burst", "1")

    outcomes = [(await beside.notify(secret, "news", ETHEREUM))[1] for _ in range(2)]
    assert [outcome["sent"] for outcome in outcomes] == [[ETHEREUM], []]
    await beside.told("project", "delete", "app", "--yes")
    assert (await beside.notify(secret, "news", ETHEREUM))[0] == 401
    assert (await beside.ask("GET", "/admin/projects/app", ADMIN_TOKEN))[0] == 404
    await beside.told("project", "create", "My app", "--id", "app")


async def test_commands_and_the_admin_api_say_the_same(beside: Beside, secret: str) -> None:
    await beside.told("subscriber", "add", "app", ETHEREUM)
    await beside.notify(secret, "news", ETHEREUM)

    for command, path in (
        (("project", "list"), "/admin/projects"),
        (("project", "show", "app"), "/admin/projects/app"),
        (("project", "type", "list", "app"), "/admin/projects/app/types"),
        (("project", "analytics", "app"), "/admin/projects/app/analytics"),
    ):
        assert (await beside.ask("GET", path, ADMIN_TOKEN)) == (200, await beside.told(*command))


async def test_commands_at_the_same_time_all_succeed(beside: Beside, secret: str) -> None:
    accounts = [plain_account(number) for number in range(3)]

    added = await asyncio.gather(
        *(beside.told_by_process("subscriber", "add", "app", account) for account in accounts),
        *(beside.ask("PUT", f"/admin/projects/app/subscribers/{a}x", ADMIN_TOKEN, {}) for a in accounts),
    )

    assert added[:3] == [{"subscribed": 1, "updated": 0, "unchanged": 0}] * 3
    assert [status for status, _ in added[3:]] == [200] * 3
    assert (await beside.told("project", "show", "app"))["subscribers"] == 6


async def test_a_server_goes_on_answering_while_thousands_are_imported(
    beside: Beside, secret: str, tmp_path: Path
) -> None:
    file = tmp_path / "accounts"
    file.write_text("".join(f"{plain_account(number)}\n" for number in range(MANY)))
    answers = 0

    importing = asyncio.create_task(beside.told_by_process("subscriber", "import", "app", file))
    while not importing.done():
        status, _ = await beside.ask("POST", "/session/new", secret)
        answers += 1
        assert status == 200

    assert await importing == {"subscribed": MANY, "updated": 0, "unchanged": 0}
    assert answers > 20  # writes, which would wait for all of the import if that were one transaction
    exported = await beside.command("subscriber", "export", "app")
    assert exported.out.count("\n") == MANY
