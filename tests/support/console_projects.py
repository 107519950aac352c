"""Projects, types and subscribers that tests make through the console."""

from tests.support.console_client import ConsoleClient
from tests.support.engines import database_of


async def make_project(console: ConsoleClient, project_id: str, *types: str, name: str = "App") -> None:
    """Create a project with these types."""
    await console.send("/console/projects", "create", name=name, project_id=project_id)
    for type_id in types:
        path = f"/console/projects/{project_id}"
        await console.send(path, "add-type", name=type_id.capitalize(), type_id=type_id)


async def subscribe(console: ConsoleClient, project_id: str, account: str, types: str = "") -> None:
    """Subscribe an account to these types, or to all."""
    path = f"/console/projects/{project_id}"
    answer = await console.send(path, "subscribe", account=account, types=types)
    assert answer.status == 303, answer.body.decode()


def subscribe_crowd(console: ConsoleClient, count: int, like: str, project_id: str) -> None:
    """So many more subscribers with the types of this one."""
    with database_of(console.server.settings) as database:
        database.executemany(
            "INSERT INTO accounts (account_key) VALUES (?)",
            ((f"test:crowd:{project_id}-{number:08d}",) for number in range(count)),
        )
        model = (
            "SELECT {} FROM subscriptions JOIN projects ON projects.id = project"
            " WHERE project_id = ?1 AND account_id = ?2"
        )
        database.execute(
            f"""
            INSERT INTO subscriptions (project, account_key, account, account_id, type_set, subscribed_at_ms)
            SELECT ({model.format("project")}), account_key, id, account_key, ({model.format("type_set")}), 0
            FROM accounts WHERE account_key LIKE 'test:crowd:' || ?1 || '-%'
            """,
            (project_id, like),
        )
        database.execute(
            f"UPDATE type_sets SET subscribers = subscribers + ?3 WHERE id = ({model.format('type_set')})",
            (project_id, like, count),
        )
