"""The store of projects with their secrets, types and figures, and the deletion of what they have sent."""

from collections.abc import Sequence
from typing import TypeAlias

import orjson

from bridge_server.kernel.errors import NotAuthenticatedError
from bridge_server.kernel.token_bucket import Limit
from bridge_server.projects import models
from bridge_server.projects.models import NotificationType, Project, ProjectChanged, ProjectId, TypeId
from bridge_server.storage import database as sql
from bridge_server.storage.database import Transaction

_PROJECT = """
id, project_id, name, created_at_ms, account_burst, account_interval_us, webhook_url, webhook_secret
"""

INSERT_PROJECT = """
INSERT INTO projects (project_id, name, created_at_ms) VALUES (?, ?, ?) ON CONFLICT (project_id) DO NOTHING
"""
PROJECT = f"SELECT {_PROJECT} FROM projects WHERE project_id = ?"  # noqa: S608 - columns, no input
# Each project with its types, its subscribers, and its figures of the given days and of the last of them.
OVERVIEW = f"""
SELECT {_PROJECT},
    (SELECT json_group_array(json_array(type_id, name, created_at_ms)) FROM (
        SELECT type_id, name, created_at_ms FROM notification_types
        WHERE notification_types.project = projects.id AND removed_at_ms IS NULL ORDER BY id) AS available),
    (SELECT coalesce(sum(subscribers), 0) FROM type_sets WHERE type_sets.project = projects.id),
    (SELECT json_array(coalesce(sum(CASE WHEN daily_figures.day = ?2 THEN daily_figures.sent END), 0),
            coalesce(sum(daily_figures.sent), 0), coalesce(sum(daily_figures.read), 0),
            coalesce(sum(daily_figures.bulk_marked), 0), coalesce(sum(daily_figures.lapsed), 0))
     FROM notification_types CROSS JOIN daily_figures ON daily_figures.project = notification_types.project
        AND daily_figures.type = notification_types.id AND daily_figures.day BETWEEN ?1 AND ?2
     WHERE notification_types.project = projects.id)
FROM projects WHERE project_id IS NOT NULL AND id > ?3 ORDER BY id LIMIT ?4
"""  # noqa: S608 - columns, no input
COUNT_PROJECTS = "SELECT COUNT(*) FROM projects WHERE project_id IS NOT NULL"
HIDE_PROJECT = "UPDATE projects SET project_id = NULL, webhook_url = NULL, webhook_secret = NULL WHERE id = ?"
SET_ACCOUNT_LIMIT = "UPDATE projects SET account_burst = ?, account_interval_us = ? WHERE id = ?"
SET_WEBHOOK = "UPDATE projects SET webhook_url = ?, webhook_secret = ? WHERE id = ?"

INSERT_SECRET = """
INSERT INTO project_secrets (project, digest, created_at_ms) VALUES (?, ?, ?) RETURNING id
"""  # noqa: S105 - a statement
SECRETS = "SELECT id, created_at_ms FROM project_secrets WHERE project = ? ORDER BY id"
DIGESTS = f"""
SELECT project_secrets.digest, {", ".join("projects." + column.strip() for column in _PROJECT.split(","))}
FROM projects LEFT JOIN project_secrets ON project_secrets.project = projects.id WHERE projects.project_id = ?
"""  # noqa: S608 - columns, no input
PUBLISHING_PROJECT = f"""
SELECT {", ".join("projects." + column.strip() for column in _PROJECT.split(","))}
FROM project_secrets CROSS JOIN projects ON projects.id = project_secrets.project
WHERE project_secrets.project = ? AND project_secrets.digest = ? AND projects.project_id IS NOT NULL
"""  # noqa: S608 - columns, no input
DELETE_SECRET = "DELETE FROM project_secrets WHERE project = ? AND id = ?"  # noqa: S105 - a statement
DELETE_SECRETS = "DELETE FROM project_secrets WHERE project = ?"

TYPES = """
SELECT id, type_id, name, created_at_ms FROM notification_types
WHERE project = ? AND removed_at_ms IS NULL ORDER BY id
"""
UPSERT_TYPE = """
INSERT INTO notification_types (project, type_id, name, created_at_ms) VALUES (?, ?, ?, ?)
ON CONFLICT (project, type_id) DO UPDATE
SET name = excluded.name, created_at_ms = excluded.created_at_ms, removed_at_ms = NULL
RETURNING id
"""
RENAME_TYPE = "UPDATE notification_types SET name = ? WHERE id = ?"
REMOVE_TYPE = "UPDATE notification_types SET removed_at_ms = ? WHERE id = ?"
TYPE_SETS_WITH = """
SELECT type_sets.id, type_sets.types FROM type_set_members
JOIN type_sets ON type_sets.id = type_set_members.type_set WHERE type_set_members.type = ?
"""
TYPE_SETS_OF_ALL = "SELECT id FROM type_sets WHERE project = ? AND follows_all = 1"
REWRITE_TYPE_SET = "UPDATE type_sets SET types = ? WHERE id = ?"
INSERT_MEMBER = "INSERT INTO type_set_members (type, type_set) VALUES (?, ?)"
DELETE_TYPE_MEMBERSHIPS = "DELETE FROM type_set_members WHERE type = ?"

COUNT_SUBSCRIBERS = "SELECT coalesce(sum(subscribers), 0) FROM type_sets WHERE project = ?"
FIGURES = """
SELECT notification_types.type_id, daily_figures.day, daily_figures.sent, daily_figures.read,
       daily_figures.bulk_marked, daily_figures.lapsed
FROM notification_types CROSS JOIN daily_figures ON daily_figures.project = notification_types.project
    AND daily_figures.type = notification_types.id AND daily_figures.day BETWEEN ? AND ?
WHERE notification_types.project = ?
ORDER BY daily_figures.day, notification_types.id
"""

DELETED_PROJECT = "SELECT id FROM projects WHERE project_id IS NULL ORDER BY id LIMIT 1"

# The statements that delete sendings, notifications and projects.
#
# The sendings or notifications to delete are a JSON array. A sending that becomes empty is deleted in the
# same slice, so that the next slice need not read it again.

DELETE_DELIVERIES = """
DELETE FROM deliveries WHERE (account, sending) IN
    (SELECT deliveries.account, deliveries.sending
     FROM json_each(?) AS old CROSS JOIN deliveries ON deliveries.sending = old.value LIMIT ?)
RETURNING sending, read_at_ms
"""


def counting(column: str, joined: str = "") -> tuple[str, str]:
    """Count deliveries, one for each sending of a JSON array, in this column: by type and day, and by
    notification. `joined` chooses among them.
    """
    return (
        f"""
        INSERT INTO daily_figures (project, type, day, {column})
        SELECT sendings.project, sendings.type, sendings.sent_at_ms / 86400000, count(*)
        FROM json_each(?) AS marked CROSS JOIN sendings ON sendings.id = marked.value {joined} WHERE true
        GROUP BY 1, 2, 3
        ON CONFLICT (project, type, day) DO UPDATE SET {column} = daily_figures.{column} + excluded.{column}
        """,  # noqa: S608 - a column's name
        f"""
        UPDATE notifications SET {column} = notifications.{column} + counted.deliveries
        FROM (SELECT sendings.notification, count(*) AS deliveries
              FROM json_each(?) AS marked CROSS JOIN sendings ON sendings.id = marked.value {joined}
              GROUP BY sendings.notification) AS counted
        WHERE notifications.id = counted.notification
        """,  # noqa: S608 - a column's name
    )


# Deliveries that were deleted unread; not the bulk-marked ones.
COUNT_LAPSED = counting(
    "lapsed",
    "CROSS JOIN projects ON projects.id = sendings.project AND sendings.id > projects.read_through",
)
DELETE_SENDINGS = """
DELETE FROM sendings WHERE id IN (SELECT value FROM json_each(?))
    AND NOT EXISTS (SELECT 1 FROM deliveries WHERE deliveries.sending = sendings.id)
RETURNING notification
"""
DELETE_UNSENT_NOTIFICATIONS = """
DELETE FROM notifications WHERE id IN (SELECT value FROM json_each(?)) AND idempotency_key IS NULL
    AND NOT EXISTS (SELECT 1 FROM sendings WHERE sendings.notification = notifications.id)
    AND NOT EXISTS (SELECT 1 FROM missed_accounts AS missed
        WHERE missed.project = notifications.project AND missed.notification = notifications.id)
"""
DELETE_COVERED = """
DELETE FROM covered_accounts WHERE (notification, account) IN
    (SELECT covered_accounts.notification, covered_accounts.account FROM json_each(?) AS gone
     CROSS JOIN covered_accounts ON covered_accounts.notification = gone.value LIMIT ?)
"""
DELETE_UNCOVERED_NOTIFICATIONS = """
DELETE FROM notifications WHERE id IN (SELECT value FROM json_each(?))
    AND NOT EXISTS (SELECT 1 FROM covered_accounts WHERE covered_accounts.notification = notifications.id)
"""

# Rows of a deleted project, in slices: its sendings and notifications, then the rest. A row is deleted before
# the rows that it references.
SENDINGS = "SELECT json_group_array(id) FROM (SELECT id FROM sendings WHERE project = ? LIMIT ?) AS slice"
DELETE_MISSED = """
DELETE FROM missed_accounts WHERE (project, notification, account) IN
    (SELECT project, notification, account FROM missed_accounts WHERE project = ? LIMIT ?)
"""
NOTIFICATIONS = (
    "SELECT json_group_array(id) FROM (SELECT id FROM notifications WHERE project = ? LIMIT ?) AS slice"
)
SWEEP_DELETED = (
    """
    DELETE FROM account_buckets WHERE (project, account) IN
        (SELECT project, account FROM account_buckets WHERE project = ? LIMIT ?)
    """,
    # With a list of pairs SQLite would scan all rows of the project; two lists let it use the primary key.
    """
    DELETE FROM subscriptions WHERE project IN (SELECT id FROM projects WHERE project_id IS NULL)
        AND account_key IN (SELECT account_key FROM subscriptions WHERE project = ? LIMIT ?)
    """,
    """
    DELETE FROM daily_figures WHERE (project, type, day) IN
        (SELECT project, type, day FROM daily_figures WHERE project = ? LIMIT ?)
    """,
    """
    DELETE FROM type_set_members WHERE (type, type_set) IN
        (SELECT type_set_members.type, type_set_members.type_set FROM notification_types
         CROSS JOIN type_set_members ON type_set_members.type = notification_types.id
         WHERE notification_types.project = ? LIMIT ?)
    """,
    "DELETE FROM type_sets WHERE id IN (SELECT id FROM type_sets WHERE project = ? LIMIT ?)",
    "DELETE FROM projects WHERE id IN (SELECT id FROM projects WHERE id = ? LIMIT ?)",
)

_SWEEP_SLICE = 500

NOT_VALID_ANY_MORE = "The secret is not valid any more."

TURN_OF_SENDINGS = sql.Turn("sendings")
"""Numbers of sendings are given and committed in one order: a reader that goes on after one misses none."""

TURN_OF_FIGURES = sql.Turn("figures")
"""Figures of notifications are right together: what was sent is read, marked, lapsed or unread.

Whatever marks or deletes has it alone, or two of these could each wait for a row that the other has counted
in. Whatever sends shares it, and has the turn of sendings.
"""


def turn_of_project(project_id: ProjectId) -> sql.Turn:
    """The project with its types, secrets, subscriptions and buckets."""
    return sql.Turn("project", project_id)


def of_project(project_id: ProjectId, *_: object, **__: object) -> sql.Turns:
    """The turns of a transaction on one project, which is its first argument."""
    return sql.Turns((turn_of_project(project_id),))


Credentials: TypeAlias = tuple[Project, Sequence[bytes]]
"""A project, and the SHA-256 of each of its live secrets."""


class ProjectStore:
    """Durable projects. An unknown project raises ProjectNotFoundError."""

    def __init__(self, database: sql.Database) -> None:
        self.database = database

    @sql.adding_transaction
    def create(
        self, wanted: Sequence[ProjectId], name: str, digest: bytes, now_ms: int
    ) -> Transaction[tuple[Project, int]]:
        """Store a project with a free id, and its first secret's SHA-256. Raises ProjectExistsError."""
        for project_id in wanted:
            ((created,),) = yield sql.Statement(INSERT_PROJECT, (project_id, name, now_ms))
            if created:
                project = yield from find_project(project_id)
                row = (project.number, digest, now_ms)
                number = sql.scalar(int, (yield sql.Statement(INSERT_SECRET, row)))
                yield ProjectChanged(project_id)
                return project, number
        raise models.ProjectExistsError

    async def overview(
        self, first_day: int, last_day: int, after: int, limit: int
    ) -> list[models.ProjectOverview]:
        """Projects after this number, oldest first, with their figures of these days."""
        rows = await self.database.read(OVERVIEW, (first_day, last_day, after, limit))
        return [_read_overview(row) for row in rows]

    async def count(self) -> int:
        """The number of projects."""
        return sql.scalar(int, await self.database.read(COUNT_PROJECTS))

    @sql.reading
    def details(self, project_id: ProjectId) -> Transaction[models.ProjectDetails]:
        """A project with its types, secrets and number of subscribers."""
        project = yield from find_project(project_id)
        types = yield from find_types(project)
        secrets = yield sql.Statement(SECRETS, (project.number,))
        subscribers = sql.scalar(int, (yield sql.Statement(COUNT_SUBSCRIBERS, (project.number,))))
        kinds, live = [known for _, known in types], [models.SecretInfo(*secret) for secret in secrets]
        return models.ProjectDetails(project, kinds, live, subscribers)

    @sql.transaction(turns=of_project)
    def delete(self, project_id: ProjectId) -> Transaction[None]:
        """Hide the project at once; sweeping deletes its rows later."""
        project = yield from find_project(project_id)
        yield sql.Statement(DELETE_SECRETS, (project.number,))
        yield sql.Statement(HIDE_PROJECT, (project.number,))
        yield ProjectChanged(project_id)

    async def credentials(self, project_id: ProjectId) -> Credentials | None:
        """The project and the digests of its live secrets; None if there is no such project."""
        rows = await self.database.read(DIGESTS, (project_id,))
        if not rows:
            return None
        return _read_project(rows[0][1:]), [row[0] for row in rows if row[0] is not None]

    @sql.reading
    def require_live(self, publisher: models.Publisher) -> Transaction[None]:
        """Raises NotAuthenticatedError if the project was deleted or the secret was revoked."""
        yield from find_publishing(publisher)

    @sql.transaction(turns=of_project)
    def add_secret(self, project_id: ProjectId, digest: bytes, now_ms: int, limit: int) -> Transaction[int]:
        """Store the SHA-256 of another secret; returns its number. Raises TooManySecretsError."""
        project = yield from find_project(project_id)
        live = yield sql.Statement(SECRETS, (project.number,))
        if len(live) >= limit:
            raise models.TooManySecretsError(limit)
        yield ProjectChanged(project_id)
        return sql.scalar(int, (yield sql.Statement(INSERT_SECRET, (project.number, digest, now_ms))))

    @sql.transaction(turns=of_project)
    def remove_secret(self, project_id: ProjectId, number: int) -> Transaction[None]:
        """Remove a secret. Raises SecretNotFoundError."""
        project = yield from find_project(project_id)
        ((removed,),) = yield sql.Statement(DELETE_SECRET, (project.number, number))
        if not removed:
            raise models.SecretNotFoundError
        yield ProjectChanged(project_id)

    async def set_account_limit(self, project_id: ProjectId, limit: Limit | None) -> Project:
        """Set the project's limit per account; None removes it."""
        burst, interval_us = (limit.burst, limit.interval_us) if limit is not None else (None, None)
        return await self._change(project_id, SET_ACCOUNT_LIMIT, burst, interval_us)

    async def set_webhook(self, project_id: ProjectId, webhook: models.Webhook | None) -> Project:
        """Set the project's webhook; None removes it."""
        url, secret = (webhook.url, webhook.signing_secret) if webhook is not None else (None, None)
        return await self._change(project_id, SET_WEBHOOK, url, secret)

    @sql.reading
    def figures(
        self, project_id: ProjectId, first_day: int, last_day: int
    ) -> Transaction[list[models.DailyFigures]]:
        """The figures of these days, by day and type."""
        project = yield from find_project(project_id)
        rows = yield sql.Statement(FIGURES, (first_day, last_day, project.number))
        return [
            models.DailyFigures(TypeId(kind), day, models.ReadFigures(*counts)) for kind, day, *counts in rows
        ]

    @sql.transaction(turns=sql.sweeping("projects", TURN_OF_FIGURES))
    def sweep(self, now_ms: int) -> Transaction[int]:
        """Delete a slice of the rows of deleted projects; returns how many rows."""
        rows = yield sql.Statement(DELETED_PROJECT)
        if not rows:
            return 0
        ((project,),) = rows
        ((sendings,),) = yield sql.Statement(SENDINGS, (project, _SWEEP_SLICE))
        swept = yield from delete_sendings(sendings, _SWEEP_SLICE)
        if swept:
            return swept
        missed = sql.scalar(int, (yield sql.Statement(DELETE_MISSED, (project, _SWEEP_SLICE))))
        if missed:
            return missed
        ((notifications,),) = yield sql.Statement(NOTIFICATIONS, (project, _SWEEP_SLICE))
        swept = sql.scalar(int, (yield sql.Statement(DELETE_COVERED, (notifications, _SWEEP_SLICE))))
        swept += sql.scalar(int, (yield sql.Statement(DELETE_UNCOVERED_NOTIFICATIONS, (notifications,))))
        if swept:
            return swept
        for statement in SWEEP_DELETED:
            deleted = sql.scalar(int, (yield sql.Statement(statement, (project, _SWEEP_SLICE))))
            if deleted:
                return deleted
        return 0

    @sql.transaction(turns=of_project)
    def _change(
        self, project_id: ProjectId, statement: str, *values: str | int | None
    ) -> Transaction[Project]:
        project = yield from find_project(project_id)
        yield sql.Statement(statement, (*values, project.number))
        yield ProjectChanged(project_id)
        return (yield from find_project(project_id))

    @sql.reading
    def types(self, project_id: ProjectId) -> Transaction[list[NotificationType]]:
        """The project's types, oldest first."""
        project = yield from find_project(project_id)
        return [known for _, known in (yield from find_types(project))]

    @sql.transaction(turns=of_project)
    def add_type(
        self, project_id: ProjectId, id_among: models.IdAmong, name: str, now_ms: int, limit: int
    ) -> Transaction[NotificationType]:
        """Add a type, also to subscriptions to all. Raises TypeExistsError, TooManyTypesError."""
        project = yield from find_project(project_id)
        known = {kind.type_id for _, kind in (yield from find_types(project))}
        type_id = id_among(known)
        if type_id in known:
            raise models.TypeExistsError
        if len(known) >= limit:
            raise models.TooManyTypesError(limit)
        number = sql.scalar(int, (yield sql.Statement(UPSERT_TYPE, (project.number, type_id, name, now_ms))))
        every = [kind.type_id for _, kind in (yield from find_types(project))]
        for (type_set,) in (yield sql.Statement(TYPE_SETS_OF_ALL, (project.number,))):
            yield sql.Statement(REWRITE_TYPE_SET, (orjson.dumps(every).decode(), type_set))
            yield sql.Statement(INSERT_MEMBER, (number, type_set))
        yield ProjectChanged(project_id)
        return NotificationType(type_id, name, now_ms)

    @sql.transaction(turns=of_project)
    def rename_type(self, project_id: ProjectId, type_id: TypeId, name: str) -> Transaction[NotificationType]:
        """Change the name of a type. Raises TypeNotFoundError."""
        project = yield from find_project(project_id)
        number, known = yield from _find_type(project, type_id)
        yield sql.Statement(RENAME_TYPE, (name, number))
        yield ProjectChanged(project_id)
        return NotificationType(type_id, name, known.created_at_ms)

    @sql.transaction(turns=of_project)
    def remove_type(self, project_id: ProjectId, type_id: TypeId, now_ms: int) -> Transaction[None]:
        """Remove a type from the project and from every subscription. Raises TypeNotFoundError."""
        project = yield from find_project(project_id)
        number, _ = yield from _find_type(project, type_id)
        for type_set, types in (yield sql.Statement(TYPE_SETS_WITH, (number,))):
            left = [other for other in orjson.loads(types) if other != type_id]
            yield sql.Statement(REWRITE_TYPE_SET, (orjson.dumps(left).decode(), type_set))
        yield sql.Statement(DELETE_TYPE_MEMBERSHIPS, (number,))
        yield sql.Statement(REMOVE_TYPE, (now_ms, number))
        yield ProjectChanged(project_id)


def _find_type(project: Project, type_id: TypeId) -> Transaction[tuple[int, NotificationType]]:
    for number, known in (yield from find_types(project)):
        if known.type_id == type_id:
            return number, known
    raise models.TypeNotFoundError


def find_project(project_id: ProjectId) -> Transaction[Project]:
    """The project, within a transaction. Raises ProjectNotFoundError."""
    rows = yield sql.Statement(PROJECT, (project_id,))
    if not rows:
        raise models.ProjectNotFoundError
    return _read_project(rows[0])


def find_publishing(publisher: models.Publisher) -> Transaction[Project]:
    """The publisher's project as it is now, within a transaction. Raises NotAuthenticatedError."""
    rows = yield sql.Statement(PUBLISHING_PROJECT, (publisher.project.number, publisher.digest))
    if not rows:
        raise NotAuthenticatedError(NOT_VALID_ANY_MORE)
    return _read_project(rows[0])


def find_types(project: Project) -> Transaction[list[tuple[int, NotificationType]]]:
    """The project's types and their numbers, oldest first, within a transaction."""
    return [
        (number, NotificationType(TypeId(type_id), name, created))
        for number, type_id, name, created in (yield sql.Statement(TYPES, (project.number,)))
    ]


def _read_project(row: sql.Row) -> Project:
    """The columns of a project."""
    number, project_id, name, created_at_ms, burst, interval_us, url, secret = row
    limit = None if burst is None else Limit(models.ACCOUNT_LIMIT, burst, interval_us)
    webhook = None if url is None else models.Webhook(url, secret)
    return Project(number, ProjectId(project_id), name, created_at_ms, limit, webhook)


def _read_overview(row: sql.Row) -> models.ProjectOverview:
    """A project, its types, its number of subscribers, and its counts."""
    *columns, types, subscribers, counts = row
    sent_today, *figures = orjson.loads(counts)
    project, kinds = _read_project(tuple(columns)), [NotificationType(*kind) for kind in orjson.loads(types)]
    return models.ProjectOverview(project, kinds, subscribers, sent_today, models.ReadFigures(*figures))


def delete_sendings(sendings: sql.Value, limit: int) -> Transaction[int]:
    """Delete up to `limit` deliveries of the sendings in a JSON array, then sendings without deliveries.
    Unread deliveries are counted as lapsed. A notification without an idempotency key is deleted with its
    last sending, unless an account that it has not reached is still kept. Returns the number of deleted rows.
    """
    deliveries = yield sql.Statement(DELETE_DELIVERIES, (sendings, limit))
    unread = sql.json_array(sending for sending, read_at_ms in deliveries if read_at_ms is None)
    for statement in COUNT_LAPSED:
        yield sql.Statement(statement, (unread,))
    emptied = yield sql.Statement(DELETE_SENDINGS, (sendings,))
    notifications = sql.json_array(notification for (notification,) in emptied)
    deleted = yield from delete_unsent_notifications(notifications)
    return len(deliveries) + len(emptied) + deleted


def delete_unsent_notifications(notifications: sql.Value) -> Transaction[int]:
    """Delete notifications without idempotency key, sending or missed account; returns how many."""
    return sql.scalar(int, (yield sql.Statement(DELETE_UNSENT_NOTIFICATIONS, (notifications,))))
