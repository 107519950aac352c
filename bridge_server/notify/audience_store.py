"""The store of audiences: subscribers in the order of their account ids, as many as one call sends to."""

from collections.abc import Generator

from bridge_server.notify import audience_sql as sql
from bridge_server.notify.errors import UnknownAudienceError
from bridge_server.notify.sql import TYPE
from bridge_server.projects.models import Project, ProjectId, TypeId
from bridge_server.projects.store import find_project, find_types
from bridge_server.storage.database import Database, Row, Statement, Step, Transaction, reading

_SEARCHED = 5_000
"""The most rows that are searched at once for subscribers of a type: a page may be short, or empty."""
_AFTER_ALL = "~"
"""No account id contains this character or a later one of Unicode."""


class AudienceStore:
    """Reads subscribers. An unknown project raises ProjectNotFoundError."""

    def __init__(self, database: Database) -> None:
        self.database = database

    @reading
    def page(
        self, project_id: ProjectId, type_id: TypeId | None, after: str, limit: int
    ) -> Transaction[tuple[dict[str, str], str | None]]:
        """Up to `limit` subscribers that follow `after`, as account keys by account id; and the account id
        that the next page follows, None if this is the last one. Raises UnknownAudienceError.
        """
        project = yield from find_project(project_id)
        if type_id is None:
            rows = yield Statement(sql.EVERYBODY, (project.number, after, limit + 1))
            return _page(rows, limit, None)
        number = yield from _type_number(project, type_id)
        ends = yield Statement(sql.END, (project.number, after, _SEARCHED - 1))
        end = ends[0][0] if ends else None
        stretch = (project.number, after, _AFTER_ALL if end is None else end)
        rows = yield Statement(sql.OF_TYPE, (number, *stretch, limit + 1))
        return _page(rows, limit, end)


def _page(rows: list[Row], limit: int, end: str | None) -> tuple[dict[str, str], str | None]:
    shown: dict[str, str] = dict(rows[:limit])
    return shown, rows[limit - 1][0] if len(rows) > limit else end


def _type_number(project: Project, type_id: TypeId) -> Generator[Step, list[Row], int]:
    rows = yield Statement(TYPE, (project.number, type_id))
    if not rows:
        raise UnknownAudienceError([kind.type_id for _, kind in (yield from find_types(project))])
    number: int = rows[0][0]
    return number
