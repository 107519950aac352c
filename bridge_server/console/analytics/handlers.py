"""The page of read rates: charts by day, of all types and of the types that were sent most."""

from collections.abc import Mapping
from typing import Any

from bridge_server.admin.projects.analytics_wire import analytics_fields
from bridge_server.console.analytics.charts import Chart, chart_of_all, chart_of_type, percent
from bridge_server.console.models import Asked, ConsolePage, NavigationGroup, PagePath, View
from bridge_server.console.project_choice import ProjectChoice
from bridge_server.kernel.errors import InvalidInputError
from bridge_server.kernel.instants import parse_day, spell_day
from bridge_server.projects.projects import Projects

MOST_CHARTS = 6
"""The number of charts until types are chosen. The table has every type."""

_PATH = "/analytics"
_RANGES = {"7 days": 7, "30 days": 30, "90 days": 90, "a year": 365}


class AnalyticsPage:
    """The view of a project's figures."""

    def __init__(self, choice: ProjectChoice, projects: Projects) -> None:
        self._choice = choice
        self._projects = projects

    def page(self) -> ConsolePage:
        """The entry of the navigation."""
        path = PagePath(_PATH, self.show)
        return ConsolePage("analytics", "Analytics", NavigationGroup.NOTIFICATIONS, (path,))

    async def show(self, asked: Asked) -> View:
        """The figures of a period, of all types or of one."""
        choice = await self._choice.fields(asked)
        if choice["project"] is None:
            return View("analytics/analytics.html", {**choice, "analytics": None})
        analytics, wrong = await self._analytics(choice["project"]["project_id"], asked)
        chosen = asked.query.get("type", "")
        fields = {
            **choice,
            "analytics": analytics,
            "wrong": wrong,
            "chosen_type": chosen,
            "charts": _charts(analytics, chosen),
            "ranges": _ranges(analytics),
            "percent": percent,
        }
        return View("analytics/analytics.html", fields)

    async def _analytics(self, project_id: str, asked: Asked) -> tuple[dict[str, Any], str]:
        """The figures of the period that was asked for, or of the usual one and what is wrong with it."""
        first, last = asked.query.get("from") or None, asked.query.get("to") or None
        try:
            return analytics_fields(await self._projects.analytics(project_id, first, last)), ""
        except InvalidInputError as error:
            return analytics_fields(await self._projects.analytics(project_id, None, None)), error.detail


def _charts(analytics: Mapping[str, Any], chosen: str) -> list[Chart]:
    types = [kind for kind in analytics["types"] if not chosen or kind["type_id"] == chosen]
    most_sent = sorted(types, key=lambda kind: kind["total"]["sent"], reverse=True)[:MOST_CHARTS]
    of_types = [chart_of_type(analytics, kind) for kind in most_sent]
    return of_types if chosen else [chart_of_all(analytics), *of_types]


def _ranges(analytics: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The usual ranges, by the first day of each."""
    last = parse_day(analytics["to"])
    return [(name, spell_day(max(0, last - days + 1))) for name, days in _RANGES.items()]
