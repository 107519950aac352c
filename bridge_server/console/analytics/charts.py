"""Bars of read rates, one for each day, as the numbers of an SVG."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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


def chart_of_all(analytics: Mapping[str, Any]) -> Chart:
    """The read rates of all types together."""
    return _chart("All types", analytics["by_day"], analytics["total"])


def chart_of_type(analytics: Mapping[str, Any], kind: Mapping[str, Any]) -> Chart:
    """The read rates of one type."""
    sent = {day["day"]: day for day in kind["days"]}
    days = [sent.get(day["day"], {"day": day["day"], "sent": 0}) for day in analytics["by_day"]]
    return _chart(kind["type_id"], days, kind["total"])


def percent(rate: float | None) -> str:
    """The rate as a person reads it; a dash if nothing counts."""
    return "–" if rate is None else f"{rate * 100:.1f} %"


def _chart(title: str, days: Sequence[Figures], total: Figures) -> Chart:
    bars = [_bar(place, day) for place, day in enumerate(days) if day["sent"]]
    described = (
        f"Read rate by day from {days[0]['day']} to {days[-1]['day']}: {percent(total['read_rate'])} in all, "
        f"{total['read']} of {total['sent']} read. The table below has the figures."
    )
    return Chart(title, described, len(days) * SLOT, bars, [day for day in days if day["sent"]], total)


def _bar(place: int, day: Figures) -> Bar:
    height = round(max(_LEAST_HEIGHT, 100 * (day["read_rate"] or 0)), 2)
    label = f"{day['day']}: {percent(day['read_rate'])}, {day['read']} of {day['sent']} read"
    return Bar(place * SLOT + (SLOT - _BAR) / 2, 100 - height, _BAR, height, label)
