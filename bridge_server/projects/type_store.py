"""The store of projects' notification types."""

from collections.abc import Generator

import orjson

from bridge_server.projects import sql
from bridge_server.projects.errors import TooManyTypesError, TypeExistsError, TypeNotFoundError
from bridge_server.projects.events import ProjectChanged
from bridge_server.projects.models import IdAmong, NotificationType, Project, ProjectId, TypeId
from bridge_server.projects.store import find_project, find_types
from bridge_server.projects.turns import of_project
from bridge_server.storage.database import (
    Database,
    Row,
    Statement,
    Step,
    Transaction,
    reading,
    scalar,
    transaction,
)


class NotificationTypeStore:
    """Durable notification types. An unknown project raises ProjectNotFoundError."""

    def __init__(self, database: Database) -> None:
        self.database = database

    @reading
    def types(self, project_id: ProjectId) -> Transaction[list[NotificationType]]:
        """The project's types, oldest first."""
        project = yield from find_project(project_id)
        return [known for _, known in (yield from find_types(project))]

    @transaction(turns=of_project)
    def add_type(
        self, project_id: ProjectId, id_among: IdAmong, name: str, now_ms: int, limit: int
    ) -> Transaction[NotificationType]:
        """Store a type, and add it to subscriptions to all types.

        Raises TypeExistsError, TooManyTypesError.
        """
        project = yield from find_project(project_id)
        known = {kind.type_id for _, kind in (yield from find_types(project))}
        type_id = id_among(known)
        if type_id in known:
            raise TypeExistsError
        if len(known) >= limit:
            raise TooManyTypesError(limit)
        number = scalar(int, (yield Statement(sql.UPSERT_TYPE, (project.number, type_id, name, now_ms))))
        yield from _add_to_all(project, number)
        yield ProjectChanged(project_id)
        return NotificationType(type_id, name, now_ms)

    @transaction(turns=of_project)
    def rename_type(self, project_id: ProjectId, type_id: TypeId, name: str) -> Transaction[NotificationType]:
        """Change the name of a type. Raises TypeNotFoundError."""
        project = yield from find_project(project_id)
        number, known = yield from _find_type(project, type_id)
        yield Statement(sql.RENAME_TYPE, (name, number))
        yield ProjectChanged(project_id)
        return NotificationType(type_id, name, known.created_at_ms)

    @transaction(turns=of_project)
    def remove_type(self, project_id: ProjectId, type_id: TypeId, now_ms: int) -> Transaction[None]:
        """Remove a type from the project and from every subscription. Raises TypeNotFoundError."""
        project = yield from find_project(project_id)
        number, _ = yield from _find_type(project, type_id)
        for type_set, types in (yield Statement(sql.TYPE_SETS_WITH, (number,))):
            left = [other for other in orjson.loads(types) if other != type_id]
            yield Statement(sql.REWRITE_TYPE_SET, (orjson.dumps(left).decode(), type_set))
        yield Statement(sql.DELETE_TYPE_MEMBERSHIPS, (number,))
        yield Statement(sql.REMOVE_TYPE, (now_ms, number))
        yield ProjectChanged(project_id)


def _find_type(project: Project, type_id: TypeId) -> Generator[Step, list[Row], tuple[int, NotificationType]]:
    for number, known in (yield from find_types(project)):
        if known.type_id == type_id:
            return number, known
    raise TypeNotFoundError


def _add_to_all(project: Project, new_type: int) -> Transaction[None]:
    """Add the new type to every choice of types that follows all types."""
    every = [kind.type_id for _, kind in (yield from find_types(project))]
    for (type_set,) in (yield Statement(sql.TYPE_SETS_OF_ALL, (project.number,))):
        yield Statement(sql.REWRITE_TYPE_SET, (orjson.dumps(every).decode(), type_set))
        yield Statement(sql.INSERT_MEMBER, (new_type, type_set))
