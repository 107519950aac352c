"""The store of notifications without the HTTP around it, in the place of bare_notify.py.

DATABASE ACCOUNTS_FILE AT_ONCE, where the lines of the file are `PROJECT_ID ["account", ...]`, taken in turn;
so many wait for a commit at once. The server's own database driver, with its checkpoints.
"""

import asyncio
import itertools
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import orjson
from event_loop import new_event_loop
from project_seed import TYPE_ID
from worker import serve

from bridge_server.kernel.events import Events
from bridge_server.notify.models import Notification, NotifyRequest
from bridge_server.notify.store import NotifyStore
from bridge_server.projects.caip10 import account_key
from bridge_server.projects.models import Project, ProjectId, Publisher, TypeId
from bridge_server.projects.projects import account_limit
from bridge_server.projects.store import ProjectStore
from bridge_server.storage.sqlite import SqliteDatabase

_LIMIT = account_limit(2, 1_000_000)
_SETTLE_SECONDS = 0.6  # for the last checkpoint
_CONTENT = Notification(
    TypeId(TYPE_ID), "Order filled", "Your order was filled.", "https://app.example/orders"
)

Sending = tuple[Publisher, NotifyRequest]


def _request(line: str) -> tuple[str, NotifyRequest]:
    project_id, _, accounts = line.partition(" ")
    keys = {account: account_key(account) for account in orjson.loads(accounts)}
    return project_id, NotifyRequest(_CONTENT, None, keys)


async def _sendings(database: SqliteDatabase, lines: Sequence[str]) -> list[Sending]:
    store = ProjectStore(database)
    publishers = {project.project_id: await _publisher(store, project) for project in await store.projects()}
    return [(publishers[ProjectId(project_id)], request) for project_id, request in map(_request, lines)]


async def _publisher(store: ProjectStore, project: Project) -> Publisher:
    found = await store.credentials(project.project_id)
    assert found is not None
    return Publisher(project, found[1][0])


async def _send(store: NotifyStore, sendings: Iterator[Sending], count: int, at_once: int) -> None:
    """Send the next `count`, so many at once."""
    due = itertools.islice(sendings, count)

    async def send_in_turn() -> None:
        for publisher, request in due:
            now_us = time.time_ns() // 1000
            failures = await store.send(publisher, request, _LIMIT, now_us, lambda _sent, _devices: [])
            assert not failures

    await asyncio.gather(*(send_in_turn() for _ in range(at_once)))
    await asyncio.sleep(_SETTLE_SECONDS)


def main() -> None:
    database_file, accounts_file, at_once = sys.argv[1:]
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        database = SqliteDatabase(Path(database_file), Events())
        opened = database.opened()
        runner.run(opened.__aenter__())
        lines = Path(accounts_file).read_text("ascii").splitlines()
        sendings = itertools.cycle(runner.run(_sendings(database, lines)))
        store = NotifyStore(database)
        serve(lambda count, _: runner.run(_send(store, sendings, count, int(at_once))))
        runner.run(opened.__aexit__(None, None, None))


if __name__ == "__main__":
    main()
