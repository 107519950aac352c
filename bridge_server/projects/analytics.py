"""Analytics of a project: the numbers of notifications that were sent and read, by type and by day.

A day's figures cover the notifications that were sent on that day (UTC): a read counts for the day of the
sending, however much later it happens.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bridge_server.kernel.errors import InvalidInputError
from bridge_server.kernel.instants import day_of, parse_day
from bridge_server.projects.models import NO_FIGURES, DailyFigures, ReadFigures, TypeId

USUAL_DAYS = 30
MOST_DAYS = 366


@dataclass(frozen=True, slots=True)
class Period:
    """A range of days since the Unix epoch, the first and the last included."""

    first_day: int
    last_day: int


@dataclass(frozen=True, slots=True)
class TypeAnalytics:
    """The figures of one notification type, by the days on which something was sent."""

    type_id: TypeId
    days: Sequence[DailyFigures]

    @property
    def total(self) -> ReadFigures:
        """The figures of all days together."""
        return _sum_of(day.figures for day in self.days)


@dataclass(frozen=True, slots=True)
class DayAnalytics:
    """The figures of one day, by the types of which something was sent on it."""

    day: int
    types: Sequence[DailyFigures]

    @property
    def total(self) -> ReadFigures:
        """The figures of all types together."""
        return _sum_of(daily.figures for daily in self.types)


@dataclass(frozen=True, slots=True)
class Analytics:
    """The figures of a project in a period."""

    project_id: str
    period: Period
    types: Sequence[TypeAnalytics]

    @property
    def total(self) -> ReadFigures:
        """The figures of all types together."""
        return _sum_of(kind.total for kind in self.types)

    @property
    def by_day(self) -> Sequence[DayAnalytics]:
        """Every day of the period, the earliest first, also days on which nothing was sent."""
        period = self.period
        days: dict[int, list[DailyFigures]] = {
            day: [] for day in range(period.first_day, period.last_day + 1)
        }
        for kind in self.types:
            for daily in kind.days:
                days[daily.day].append(daily)
        return [DayAnalytics(day, types) for day, types in days.items()]


def read_period(first: str | None, last: str | None, now_ms: int) -> Period:
    """The days from `first` to `last`, each spelled like `2026-01-31`; by default the last 30 days.

    Raises InvalidInputError.
    """
    last_day = _day("to", last) if last is not None else day_of(now_ms)
    first_day = _day("from", first) if first is not None else max(0, last_day - USUAL_DAYS + 1)
    if first_day > last_day:
        raise InvalidInputError("The period ends before it begins: from must not be later than to.")
    if last_day - first_day >= MOST_DAYS:
        raise InvalidInputError(f"The period is too long: ask for at most {MOST_DAYS} days at once.")
    return Period(first_day, last_day)


def group_by_type(project_id: str, period: Period, figures: Sequence[DailyFigures]) -> Analytics:
    """The figures by type; types are in the order of their first sending in the period."""
    by_type: dict[TypeId, list[DailyFigures]] = {}
    for daily in figures:
        by_type.setdefault(daily.type_id, []).append(daily)
    return Analytics(project_id, period, [TypeAnalytics(type_id, days) for type_id, days in by_type.items()])


def _sum_of(figures: Iterable[ReadFigures]) -> ReadFigures:
    return sum(figures, start=NO_FIGURES)


def _day(name: str, text: str) -> int:
    try:
        day = parse_day(text)
    except ValueError as error:
        raise InvalidInputError(f"{name} must be a day, such as 2026-01-31.") from error
    if day < 0:
        raise InvalidInputError(f"{name} must not be before 1970.")
    return day
