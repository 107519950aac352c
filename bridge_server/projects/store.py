"""The store of projects with their secrets and figures."""

from collections.abc import Generator, Sequence

from bridge_server.kernel.errors import NotAuthenticatedError
from bridge_server.kernel.token_bucket import Limit
from bridge_server.projects import sql
from bridge_server.projects.deleting import delete_project
from bridge_server.projects.errors import (
    ProjectExistsError,
    ProjectNotFoundError,
    SecretNotFoundError,
    TooManySecretsError,
)
from bridge_server.projects.events import ProjectChanged
from bridge_server.projects.models import (
    DailyFigures,
    NotificationType,
    Project,
    ProjectDetails,
    ProjectId,
    ProjectOverview,
    Publisher,
    SecretInfo,
    TypeId,
    Webhook,
)
from bridge_server.projects.rows import read_daily_figures, read_overview, read_project
from bridge_server.projects.turns import FIGURES, of_project
from bridge_server.storage.database import (
    Database,
    Row,
    Statement,
    Step,
    Transaction,
    adding_transaction,
    reading,
    scalar,
    transaction,
)
from bridge_server.storage.turns import sweeping

_SWEEP_SLICE = 500


class ProjectStore:
    """Durable projects. An unknown project raises ProjectNotFoundError."""

    def __init__(self, database: Database) -> None:
        self.database = database

    @adding_transaction
    def create(
        self, project_id: ProjectId, name: str, digest: bytes, now_ms: int
    ) -> Transaction[tuple[Project, int]]:
        """Store a project with the SHA-256 of its first secret; returns it and that secret's number.

        Raises ProjectExistsError.
        """
        ((created,),) = yield Statement(sql.INSERT_PROJECT, (project_id, name, now_ms))
        if not created:
            raise ProjectExistsError
        project = yield from find_project(project_id)
        number = scalar(int, (yield Statement(sql.INSERT_SECRET, (project.number, digest, now_ms))))
        yield ProjectChanged(project_id)
        return project, number

    async def overview(self, first_day: int, last_day: int, after: int, limit: int) -> list[ProjectOverview]:
        """Projects after this number, oldest first, with their figures of these days."""
        rows = await self.database.read(sql.OVERVIEW, (first_day, last_day, after, limit))
        return [read_overview(row) for row in rows]

    async def count(self) -> int:
        """The number of projects."""
        return scalar(int, await self.database.read(sql.COUNT_PROJECTS))

    @reading
    def details(self, project_id: ProjectId) -> Transaction[ProjectDetails]:
        """A project with its types, secrets and number of subscribers."""
        project = yield from find_project(project_id)
        types = yield from find_types(project)
        secrets = yield Statement(sql.SECRETS, (project.number,))
        subscribers = scalar(int, (yield Statement(sql.COUNT_SUBSCRIBERS, (project.number,))))
        return ProjectDetails(
            project,
            [known for _, known in types],
            [SecretInfo(number, created) for number, created in secrets],
            subscribers,
        )

    @transaction(turns=of_project)
    def delete(self, project_id: ProjectId) -> Transaction[None]:
        """Hide the project at once; sweeping deletes its rows later."""
        project = yield from find_project(project_id)
        yield Statement(sql.DELETE_SECRETS, (project.number,))
        yield Statement(sql.HIDE_PROJECT, (project.number,))
        yield ProjectChanged(project_id)

    async def credentials(self, project_id: ProjectId) -> tuple[Project, Sequence[bytes]] | None:
        """The project and the digests of its live secrets; None if there is no such project."""
        rows = await self.database.read(sql.DIGESTS, (project_id,))
        if not rows:
            return None
        return read_project(rows[0][1:]), [row[0] for row in rows if row[0] is not None]

    @transaction(turns=of_project)
    def add_secret(self, project_id: ProjectId, digest: bytes, now_ms: int, limit: int) -> Transaction[int]:
        """Store the SHA-256 of another secret; returns its number. Raises TooManySecretsError."""
        project = yield from find_project(project_id)
        live = yield Statement(sql.SECRETS, (project.number,))
        if len(live) >= limit:
            raise TooManySecretsError(limit)
        yield ProjectChanged(project_id)
        return scalar(int, (yield Statement(sql.INSERT_SECRET, (project.number, digest, now_ms))))

    @transaction(turns=of_project)
    def remove_secret(self, project_id: ProjectId, number: int) -> Transaction[None]:
        """Remove a secret. Raises SecretNotFoundError."""
        project = yield from find_project(project_id)
        ((removed,),) = yield Statement(sql.DELETE_SECRET, (project.number, number))
        if not removed:
            raise SecretNotFoundError
        yield ProjectChanged(project_id)

    async def set_account_limit(self, project_id: ProjectId, limit: Limit | None) -> Project:
        """Set the project's limit per account; None removes it."""
        burst, interval_us = (limit.burst, limit.interval_us) if limit is not None else (None, None)
        return await self._change(project_id, sql.SET_ACCOUNT_LIMIT, burst, interval_us)

    async def set_webhook(self, project_id: ProjectId, webhook: Webhook | None) -> Project:
        """Set the project's webhook; None removes it."""
        url, secret = (webhook.url, webhook.signing_secret) if webhook is not None else (None, None)
        return await self._change(project_id, sql.SET_WEBHOOK, url, secret)

    @reading
    def figures(
        self, project_id: ProjectId, first_day: int, last_day: int
    ) -> Transaction[list[DailyFigures]]:
        """The figures of these days, by day and type."""
        project = yield from find_project(project_id)
        rows = yield Statement(sql.FIGURES, (first_day, last_day, project.number))
        return [read_daily_figures(row) for row in rows]

    @transaction(turns=sweeping("projects", FIGURES))
    def sweep(self, now_ms: int) -> Transaction[int]:
        """Delete a slice of the rows of deleted projects; returns how many rows."""
        deleted = yield Statement(sql.DELETED_PROJECT)
        return (yield from delete_project(deleted[0][0], _SWEEP_SLICE)) if deleted else 0

    @transaction(turns=of_project)
    def _change(
        self, project_id: ProjectId, statement: str, *values: str | int | None
    ) -> Transaction[Project]:
        project = yield from find_project(project_id)
        yield Statement(statement, (*values, project.number))
        yield ProjectChanged(project_id)
        return (yield from find_project(project_id))


def find_project(project_id: ProjectId) -> Generator[Step, list[Row], Project]:
    """The project, within a transaction. Raises ProjectNotFoundError."""
    rows = yield Statement(sql.PROJECT, (project_id,))
    if not rows:
        raise ProjectNotFoundError
    return read_project(rows[0])


def find_publishing(publisher: Publisher) -> Generator[Step, list[Row], Project]:
    """The publisher's project, within a transaction. It is read again, because a request can take long.

    Raises NotAuthenticatedError if the project was deleted or the secret was revoked since authentication.
    """
    rows = yield Statement(sql.PUBLISHING_PROJECT, (publisher.project.number, publisher.digest))
    if not rows:
        raise NotAuthenticatedError("The secret is not valid any more.")
    return read_project(rows[0])


def find_types(project: Project) -> Generator[Step, list[Row], list[tuple[int, NotificationType]]]:
    """The project's types and their numbers, oldest first, within a transaction."""
    return [
        (number, NotificationType(TypeId(type_id), name, created))
        for number, type_id, name, created in (yield Statement(sql.TYPES, (project.number,)))
    ]
