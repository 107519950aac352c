"""JSON of a project's analytics in the admin API, which the command with --json prints too."""

from typing import Any

from bridge_server.kernel.instants import spell_day
from bridge_server.projects.analytics import Analytics, DayAnalytics, TypeAnalytics
from bridge_server.projects.models import ReadFigures


def analytics_fields(analytics: Analytics) -> dict[str, Any]:
    """How many notifications were sent in a period, and how many of them were read."""
    return {
        "project_id": analytics.project_id,
        "from": spell_day(analytics.period.first_day),
        "to": spell_day(analytics.period.last_day),
        "total": figures_fields(analytics.total),
        "types": [_type_fields(kind) for kind in analytics.types],
        "by_day": [_day_fields(day) for day in analytics.by_day],
    }


def figures_fields(figures: ReadFigures) -> dict[str, Any]:
    """Counts and the read rate, which is null if no notification counts."""
    return {
        "sent": figures.sent,
        "read": figures.read,
        "bulk_marked": figures.bulk_marked,
        "read_rate": figures.read_rate,
    }


def _type_fields(kind: TypeAnalytics) -> dict[str, Any]:
    return {
        "type_id": kind.type_id,
        "total": figures_fields(kind.total),
        "days": [{"day": spell_day(day.day), **figures_fields(day.figures)} for day in kind.days],
    }


def _day_fields(day: DayAnalytics) -> dict[str, Any]:
    types = [{"type_id": kind.type_id, **figures_fields(kind.figures)} for kind in day.types]
    return {"day": spell_day(day.day), **figures_fields(day.total), "types": types}
