"""The page of read rates: charts by day, of all types and of the types that were sent most."""

from collections.abc import Mapping, Sequence
from typing import Any

from bridge_server.admin.notifications import analytics_fields
from bridge_server.console.models import Asked, ConsolePage, PagePath, View
from bridge_server.console.rendering import ProjectChoice
from bridge_server.kernel.errors import InvalidInputError
from bridge_server.kernel.instants import spell_day
from bridge_server.kernel.values import dataclass
from bridge_server.projects.service import Projects

MOST_CHARTS = 6
"""The number of charts until types are chosen. The table has every type."""
_PATH = "/analytics"
_RANGES = {"7 days": 7, "30 days": 30, "90 days": 90, "a year": 365}


# Bars of read rates, one for each day, as the numbers of an SVG.

SLOT = 10
"""The width of a day; the height of the drawing is 100, for percents."""
_BAR = 8
_LEAST_HEIGHT = 1.5
"""The least height of a bar: a day without reads differs from a day on which nothing was sent."""

Figures = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Bar:
    """The bar of a day, with a text for the pointer."""

    x: float
    y: float
    width: float
    height: float
    label: str


@dataclass(frozen=True, slots=True)
class Chart:
    """The bars of a period, the days on which something was sent, and all of it in a sentence."""

    title: str
    description: str
    width: int
    bars: Sequence[Bar]
    days: Sequence[Figures]
    total: Figures


def percent(rate: float | None) -> str:
    """The rate as a person reads it; a dash if nothing counts."""
    return "–" if rate is None else f"{rate * 100:.1f} %"


def _chart(title: str, days: Sequence[Figures], total: Figures) -> Chart:
    bars = []
    for place, day in enumerate(days):
        if day["sent"]:
            height = round(max(_LEAST_HEIGHT, 100 * (day["read_rate"] or 0)), 2)
            label = f"{day['day']}: {percent(day['read_rate'])}, {day['read']} of {day['sent']} read"
            bars.append(Bar(place * SLOT + (SLOT - _BAR) / 2, 100 - height, _BAR, height, label))
    described = (
        f"Read rate by day from {days[0]['day']} to {days[-1]['day']}: {percent(total['read_rate'])} in all, "
        f"{total['read']} of {total['sent']} read. The table below has the figures."
    )
    return Chart(title, described, len(days) * SLOT, bars, [day for day in days if day["sent"]], total)


class AnalyticsPage:
    """The view of a project's figures."""

    def __init__(self, choice: ProjectChoice, projects: Projects) -> None:
        self._choice = choice
        self._projects = projects

    def page(self) -> ConsolePage:
        """The entry of the navigation."""
        path = PagePath(_PATH, self.show)
        return ConsolePage("analytics", "Analytics", "Notifications", (path,))

    async def show(self, asked: Asked) -> View:
        """The figures of a period, of all types or of one."""
        choice = await self._choice.fields(asked)
        if choice["project"] is None:
            return View("analytics/analytics.html", {**choice, "analytics": None})
        project_id, chosen, wrong = choice["project"]["project_id"], asked.query.get("type", ""), ""
        first, last = asked.query.get("from") or None, asked.query.get("to") or None
        try:
            found = await self._projects.analytics(project_id, first, last)
        except InvalidInputError as error:
            found, wrong = await self._projects.analytics(project_id, None, None), error.detail
        analytics, last_day = analytics_fields(found), found.period.last_day
        fields = {
            **choice,
            "analytics": analytics,
            "wrong": wrong,
            "chosen_type": chosen,
            "charts": _charts(analytics, chosen),
            "ranges": [(name, spell_day(max(0, last_day - days + 1))) for name, days in _RANGES.items()],
            "percent": percent,
        }
        return View("analytics/analytics.html", fields)


def _charts(analytics: Mapping[str, Any], chosen: str) -> list[Chart]:
    """A chart of all types together unless one is chosen, and of each type that was sent most."""
    types = [kind for kind in analytics["types"] if not chosen or kind["type_id"] == chosen]
    charts = [] if chosen else [_chart("All types", analytics["by_day"], analytics["total"])]
    for kind in sorted(types, key=lambda kind: kind["total"]["sent"], reverse=True)[:MOST_CHARTS]:
        sent = {day["day"]: day for day in kind["days"]}
        days = [sent.get(day["day"], {"day": day["day"], "sent": 0}) for day in analytics["by_day"]]
        charts.append(_chart(kind["type_id"], days, kind["total"]))
    return charts
