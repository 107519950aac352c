"""A project with its operator at its side, and its backend that publishes."""

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from bridge_server.assembly.command_line import CommandServices, operations
from bridge_server.kernel.clock import Clock, SystemClock
from bridge_server.projects.caip10 import parse_account
from bridge_server.projects.models import NewSubscription, TypeId
from bridge_server.settings.settings import Settings
from tests.support.asking import Answer, ServerClient
from tests.support.engines import database_of
from tests.support.server import RunningServer
from tests.support.waiting import eventually

NEWS, OFFERS = "news", "offers"
TITLE, BODY = "Title", "Body"


def account(number: int) -> str:
    """An account id that has one spelling only: no letter in its address, and the first chain."""
    return f"eip155:1:0x{number:040}"


def accounts(count: int, first: int = 1) -> list[str]:
    return [account(number) for number in range(first, first + count)]


def operator_beside(settings: Settings, clock: Clock) -> AbstractAsyncContextManager[CommandServices]:
    """An operator on the database of a server that may run, by its clock."""
    return operations(beside(settings), clock=clock)


def beside(settings: Settings) -> Settings:
    """The settings of an operator beside a server with these."""
    return Settings(data_dir=settings.data_dir, database=settings.database)


async def subscribe(
    operator: CommandServices, project_id: str, wanted: Iterable[str], types: Sequence[str] | None = None
) -> None:
    chosen = None if types is None else tuple(TypeId(type_id) for type_id in types)
    new = [NewSubscription(parse_account(account_id), chosen) for account_id in wanted]
    await operator.subscriptions.subscribe_all(project_id, new)


async def project_with_subscribers(settings: Settings, count: int) -> str:
    """Make the project `app` with a type and so many subscribers beside a server; returns its secret."""
    async with operator_beside(settings, SystemClock()) as operator:
        _, secret = await operator.projects.create("App", "app")
        await operator.projects.add_type("app", "News", NEWS)
        await subscribe(operator, "app", accounts(count))
    return secret.secret


async def unsubscribe(operator: CommandServices, project_id: str, *gone: str) -> int:
    keys = [parse_account(account_id).key for account_id in gone]
    return await operator.subscriptions.unsubscribe_all(project_id, keys)


@dataclass(frozen=True, slots=True)
class App(ServerClient):
    """A project's backend, and what its operator and its subscribers do meanwhile."""

    operator: CommandServices
    project_id: str
    secret: str

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.secret}"}

    async def subscribe(self, *wanted: str, types: Sequence[str] | None = None) -> None:
        await subscribe(self.operator, self.project_id, wanted, types)

    async def unsubscribe(self, *gone: str) -> None:
        assert await unsubscribe(self.operator, self.project_id, *gone) == len(gone)

    @property
    def paths(self) -> dict[str, str]:
        return paths_of(self.project_id)

    async def post(self, fields: Any) -> Answer:
        """Call notify with exactly these fields."""
        return await self.ask("POST", self.paths["notify"], fields)

    async def notify(
        self, wanted: Sequence[str], notification_id: str | None = None, **content: str | None
    ) -> Answer:
        """Send a notification that is valid but for what is given. Twenty calls pass at once."""
        fields: dict[str, Any] = {"notification": a_notification(**content), "accounts": list(wanted)}
        if notification_id is not None:
            fields["notification_id"] = notification_id
        return await self.post(fields)

    async def lookup(self, wanted: Sequence[Any]) -> Answer:
        return await self.ask("POST", self.paths["lookup"], {"accounts": wanted})

    async def listing(self) -> Answer:
        return await self.ask("GET", self.paths["listing"])

    async def mark_all(self) -> Answer:
        return await self.ask("POST", self.paths["mark all"])


def paths_of(project_id: str) -> dict[str, str]:
    """The four paths of the contract by name, and that of audiences."""
    return {
        "notify": f"/{project_id}/notify", "audience": f"/{project_id}/notify/audience",
        "lookup": f"/v1/{project_id}/subscribers", "listing": f"/{project_id}/subscribers",
        "mark all": f"/v1/{project_id}/mark-all-as-read",
    }  # fmt: skip


METHODS = {"notify": "POST", "audience": "POST", "lookup": "POST", "listing": "GET", "mark all": "POST"}


def a_notification(**content: Any) -> dict[str, Any]:
    return {"type": NEWS, "title": TITLE, "body": BODY, **content}


async def create_app(
    server: RunningServer, operator: CommandServices, name: str = "App", project_id: str | None = None
) -> App:
    project, secret = await operator.projects.create(name, project_id)
    for type_id in (NEWS, OFFERS):
        await operator.projects.add_type(project.project_id, type_id.title(), type_id)
    return App(server, operator, project.project_id, secret.secret)


@asynccontextmanager
async def opened_app(server: RunningServer) -> AsyncIterator[App]:
    """A new project on a running server, with an operator beside it until the end of the block."""
    async with operator_beside(server.settings, server.clock) as operator:
        yield await create_app(server, operator)


look, execute = RunningServer.rows, RunningServer.change


async def until_tried(server: RunningServer, attempts: int) -> None:
    """Return once what became of so many attempts to deliver the one message in the outbox is stored."""
    await eventually(lambda: look(server, "SELECT attempts FROM outbox") == [(attempts,)])


def subscribe_crowd(settings: Settings, count: int) -> None:
    """Copy the one subscription of the database to the accounts 1 to `count`, in one statement."""
    with database_of(settings) as database:
        database.changed(
            """
            INSERT INTO subscriptions (project, account_key, account, account_id, type_set, subscribed_at_ms)
            WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?1)
            SELECT project, 'eip155:0x' || substr(?2 || n, length('' || n) + 1), account,
                'eip155:1:0x' || substr(?2 || n, length('' || n) + 1), type_set, 0
            FROM subscriptions CROSS JOIN numbers
            """,
            (count, "0" * 40),
        )
        database.changed("UPDATE type_sets SET subscribers = subscribers + ?", (count,))
        if settings.database is not None:
            database.execute("ANALYZE subscriptions")  # as the server does by itself within a minute


DELIVERED = """
SELECT accounts.account_key, notifications.title FROM deliveries
JOIN accounts ON accounts.id = deliveries.account
JOIN sendings ON sendings.id = deliveries.sending
JOIN notifications ON notifications.id = sendings.notification
ORDER BY deliveries.sending, deliveries.account
"""
