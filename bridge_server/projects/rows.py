"""Rows of projects and of their figures as models."""

import orjson

from bridge_server.kernel.token_bucket import Limit
from bridge_server.projects.models import (
    ACCOUNT_LIMIT,
    DailyFigures,
    NotificationType,
    Project,
    ProjectId,
    ProjectOverview,
    ReadFigures,
    TypeId,
    Webhook,
)
from bridge_server.storage.database import Row


def read_daily_figures(row: Row) -> DailyFigures:
    """A type, a day and the counts."""
    type_id, day, *counts = row
    return DailyFigures(TypeId(type_id), day, ReadFigures(*counts))


def read_overview(row: Row) -> ProjectOverview:
    """A project, its types, its number of subscribers, and its counts."""
    *columns, types, subscribers, counts = row
    sent_today, *figures = orjson.loads(counts)
    return ProjectOverview(
        read_project(tuple(columns)),
        [NotificationType(*kind) for kind in orjson.loads(types)],
        subscribers,
        sent_today,
        ReadFigures(*figures),
    )


def read_project(row: Row) -> Project:
    """The columns of a project."""
    number, project_id, name, created_at_ms, burst, interval_us, url, secret = row
    limit = None if burst is None else Limit(ACCOUNT_LIMIT, burst, interval_us)
    webhook = None if url is None else Webhook(url, secret)
    return Project(
        number,
        ProjectId(project_id),
        name,
        created_at_ms,
        limit,
        webhook,
    )
