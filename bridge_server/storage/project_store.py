"""Projects, their secrets and types, and their figures in SQL."""

from __future__ import annotations  # those of inner functions would be evaluated at every call

from collections.abc import Callable, Generator, Sequence
from typing import cast

import orjson

from bridge_server.kernel.errors import NotAuthenticatedError
from bridge_server.kernel.token_bucket import Limit
from bridge_server.projects.errors import (
    ProjectExistsError,
    ProjectNotFoundError,
    SecretNotFoundError,
    TooManySecretsError,
    TooManyTypesError,
    TypeExistsError,
    TypeNotFoundError,
)
from bridge_server.projects.models import (
    DailyFigures,
    Figures,
    NotificationType,
    Project,
    ProjectDetails,
    ProjectId,
    Publisher,
    SecretInfo,
    TypeId,
    Webhook,
)
from bridge_server.projects.projects import ACCOUNT_LIMIT
from bridge_server.projects.store import IdAmong
from bridge_server.storage import project_sql as sql
from bridge_server.storage.database import Database, Result, Row, Statement, Step, Transaction
from bridge_server.storage.deleting import delete_project
from bridge_server.storage.reading import read_through

_SWEEP_SLICE = 500


class SqlProjectStore:
    """Implements the store of projects on any database that speaks the portable SQL."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(
        self, project_id: ProjectId, name: str, digest: bytes, now_ms: int
    ) -> tuple[Project, int]:
        def work() -> Transaction[tuple[Project, int]]:
            ((created,),) = yield Statement(sql.INSERT_PROJECT, (project_id, name, now_ms))
            if not created:
                raise ProjectExistsError
            project = yield from find_project(project_id)
            ((number,),) = yield Statement(sql.INSERT_SECRET, (project.number, digest, now_ms))
            return project, cast(int, number)

        return await self._database.transaction(work)

    async def projects(self) -> list[Project]:
        return [_project(row) for row in await self._database.read(sql.PROJECTS)]

    async def details(self, project_id: ProjectId) -> ProjectDetails:
        def work(project: Project) -> Transaction[ProjectDetails]:
            types = yield from find_types(project)
            secrets = yield Statement(sql.SECRETS, (project.number,))
            ((subscribers,),) = yield Statement(sql.COUNT_SUBSCRIBERS, (project.number,))
            return ProjectDetails(
                project,
                [known for _, known in types],
                [SecretInfo(cast(int, number), cast(int, created)) for number, created in secrets],
                cast(int, subscribers),
            )

        return await self._read_project(project_id, work)

    async def delete(self, project_id: ProjectId) -> None:
        def work(project: Project) -> Transaction[None]:
            yield Statement(sql.DELETE_SECRETS, (project.number,))
            yield Statement(sql.HIDE_PROJECT, (project.number,))

        await self._with_project(project_id, work)

    async def credentials(self, project_id: ProjectId) -> tuple[Project, Sequence[bytes]] | None:
        rows = await self._database.read(sql.DIGESTS, (project_id,))
        if not rows:
            return None
        return _project(rows[0][1:]), [cast(bytes, row[0]) for row in rows if row[0] is not None]

    async def add_secret(self, project_id: ProjectId, digest: bytes, now_ms: int, limit: int) -> int:
        def work(project: Project) -> Transaction[int]:
            live = yield Statement(sql.SECRETS, (project.number,))
            if len(live) >= limit:
                raise TooManySecretsError(limit)
            ((number,),) = yield Statement(sql.INSERT_SECRET, (project.number, digest, now_ms))
            return cast(int, number)

        return await self._with_project(project_id, work)

    async def remove_secret(self, project_id: ProjectId, number: int) -> None:
        def work(project: Project) -> Transaction[None]:
            ((removed,),) = yield Statement(sql.DELETE_SECRET, (project.number, number))
            if not removed:
                raise SecretNotFoundError

        await self._with_project(project_id, work)

    async def set_account_limit(self, project_id: ProjectId, limit: Limit | None) -> Project:
        burst, interval_us = (limit.burst, limit.interval_us) if limit is not None else (None, None)
        return await self._change(project_id, sql.SET_ACCOUNT_LIMIT, burst, interval_us)

    async def set_webhook(self, project_id: ProjectId, webhook: Webhook | None) -> Project:
        url, secret = (webhook.url, webhook.signing_secret) if webhook is not None else (None, None)
        return await self._change(project_id, sql.SET_WEBHOOK, url, secret)

    async def types(self, project_id: ProjectId) -> list[NotificationType]:
        def work(project: Project) -> Transaction[list[NotificationType]]:
            return [known for _, known in (yield from find_types(project))]

        return await self._read_project(project_id, work)

    async def add_type(
        self, project_id: ProjectId, id_among: IdAmong, name: str, now_ms: int, limit: int
    ) -> NotificationType:
        def work(project: Project) -> Transaction[NotificationType]:
            known = {kind.type_id for _, kind in (yield from find_types(project))}
            type_id = id_among(known)
            if type_id in known:
                raise TypeExistsError
            if len(known) >= limit:
                raise TooManyTypesError(limit)
            ((number,),) = yield Statement(sql.UPSERT_TYPE, (project.number, type_id, name, now_ms))
            yield from _add_to_all(project, cast(int, number))
            return NotificationType(type_id, name, now_ms)

        return await self._with_project(project_id, work)

    async def rename_type(self, project_id: ProjectId, type_id: TypeId, name: str) -> NotificationType:
        def work(project: Project) -> Transaction[NotificationType]:
            number, known = yield from _find_type(project, type_id)
            yield Statement(sql.RENAME_TYPE, (name, number))
            return NotificationType(type_id, name, known.created_at_ms)

        return await self._with_project(project_id, work)

    async def remove_type(self, project_id: ProjectId, type_id: TypeId, now_ms: int) -> None:
        def work(project: Project) -> Transaction[None]:
            number, _ = yield from _find_type(project, type_id)
            for type_set, types in (yield Statement(sql.TYPE_SETS_WITH, (number,))):
                left = [other for other in orjson.loads(cast(str, types)) if other != type_id]
                yield Statement(sql.REWRITE_TYPE_SET, (orjson.dumps(left).decode(), type_set))
            yield Statement(sql.DELETE_TYPE_MEMBERSHIPS, (number,))
            yield Statement(sql.REMOVE_TYPE, (now_ms, number))

        await self._with_project(project_id, work)

    async def figures(self, project_id: ProjectId, first_day: int, last_day: int) -> list[DailyFigures]:
        def work(project: Project) -> Transaction[list[DailyFigures]]:
            rows = yield Statement(sql.FIGURES, (project.number, first_day, last_day))
            return [_daily_figures(row) for row in rows]

        return await self._read_project(project_id, work)

    async def sweep(self, now_ms: int) -> int:
        def work() -> Transaction[int]:
            deleted = yield Statement(sql.DELETED_PROJECT)
            return (yield from delete_project(deleted[0][0], _SWEEP_SLICE)) if deleted else 0

        return await self._database.transaction(work)

    async def _change(self, project_id: ProjectId, statement: str, *values: str | int | None) -> Project:
        def work(project: Project) -> Transaction[Project]:
            yield Statement(statement, (*values, project.number))
            return (yield from find_project(project_id))

        return await self._with_project(project_id, work)

    async def _with_project(
        self, project_id: ProjectId, work: Callable[[Project], Transaction[Result]]
    ) -> Result:
        return await self._database.transaction(lambda: _about(project_id, work))

    async def _read_project(
        self, project_id: ProjectId, work: Callable[[Project], Transaction[Result]]
    ) -> Result:
        return await read_through(self._database, lambda: _about(project_id, work))


def _about(project_id: ProjectId, work: Callable[[Project], Transaction[Result]]) -> Transaction[Result]:
    project = yield from find_project(project_id)
    return (yield from work(project))


def find_project(project_id: ProjectId) -> Generator[Step, list[Row], Project]:
    """The project, within a transaction. Raises ProjectNotFoundError."""
    rows = yield Statement(sql.PROJECT, (project_id,))
    if not rows:
        raise ProjectNotFoundError
    return _project(rows[0])


def find_publishing(publisher: Publisher) -> Generator[Step, list[Row], Project]:
    """The publisher's project as it is now, within a transaction: a request's body may have taken a while.

    Raises NotAuthenticatedError when the project was deleted or the secret was revoked meanwhile.
    """
    rows = yield Statement(sql.PUBLISHING_PROJECT, (publisher.project.number, publisher.digest))
    if not rows:
        raise NotAuthenticatedError("The secret is not valid any more.")
    return _project(rows[0])


def find_types(project: Project) -> Generator[Step, list[Row], list[tuple[int, NotificationType]]]:
    """The project's types and their numbers, oldest first, within a transaction."""
    return [
        (cast(int, number), NotificationType(TypeId(cast(str, type_id)), cast(str, name), cast(int, created)))
        for number, type_id, name, created in (yield Statement(sql.TYPES, (project.number,)))
    ]


def _find_type(project: Project, type_id: TypeId) -> Generator[Step, list[Row], tuple[int, NotificationType]]:
    for number, known in (yield from find_types(project)):
        if known.type_id == type_id:
            return number, known
    raise TypeNotFoundError


def _add_to_all(project: Project, new_type: int) -> Transaction[None]:
    """Who has chosen every type has chosen the new one too."""
    every = [kind.type_id for _, kind in (yield from find_types(project))]
    for (type_set,) in (yield Statement(sql.TYPE_SETS_OF_ALL, (project.number,))):
        yield Statement(sql.REWRITE_TYPE_SET, (orjson.dumps(every).decode(), type_set))
        yield Statement(sql.INSERT_MEMBER, (new_type, type_set))


def _daily_figures(row: Row) -> DailyFigures:
    type_id, day, *counts = row
    return DailyFigures(TypeId(cast(str, type_id)), cast(int, day), Figures(*cast(list[int], counts)))


def _project(row: Row) -> Project:
    number, project_id, name, created_at_ms, burst, interval_us, url, secret = row
    limit = None if burst is None else Limit(ACCOUNT_LIMIT, cast(int, burst), cast(int, interval_us))
    webhook = None if url is None else Webhook(cast(str, url), cast(str, secret))
    return Project(
        cast(int, number),
        ProjectId(cast(str, project_id)),
        cast(str, name),
        cast(int, created_at_ms),
        limit,
        webhook,
    )
