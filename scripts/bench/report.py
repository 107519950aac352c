"""Figures, what they should be, and tables of both."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

Figures = dict[str, float | None]

_OF_A_RATIO = ("ceiling_us", "server_us", "ratio")
"""What is printed of a row that compares the server with the ceiling."""


@dataclass(frozen=True, slots=True)
class Target:
    """A bound on one figure."""

    figure: str
    bound: float
    at_least: bool = False

    def __str__(self) -> str:
        return f"{self.figure} {'>=' if self.at_least else '<='} {self.bound:g}"

    def reached_by(self, value: float) -> bool:
        """Whether the value is within the bound."""
        return value >= self.bound if self.at_least else value <= self.bound


@dataclass(frozen=True, slots=True)
class Result:
    """One row: what was measured, its figures with their units in their names, and the target if any."""

    name: str
    figures: Figures = field(default_factory=dict)
    target: Target | None = None
    failure: str | None = None
    label: str = ""
    """The name for people who read the documentation."""
    least: Figures = field(default_factory=dict)
    greatest: Figures = field(default_factory=dict)
    """Of several runs; empty after one."""

    @property
    def verdict(self) -> str:
        """reached, missed, failed, or nothing where there is no target."""
        if self.failure is not None:
            return "failed"
        value = self.figures.get(self.target.figure) if self.target else None
        if self.target is None or value is None:
            return ""
        return "reached" if self.target.reached_by(value) else "missed"

    def as_json(self, section: str) -> dict[str, Any]:
        """The row for a program to read."""
        return {"section": section, **asdict(self), "verdict": self.verdict}


def merged(results: Sequence[Result]) -> list[Result]:
    """One row for all of a name, which are those of several runs."""
    names = dict.fromkeys(result.name for result in results)
    return [_of_several_runs([result for result in results if result.name == name]) for name in names]


def _of_several_runs(runs: Sequence[Result]) -> Result:
    """The median, the least and the greatest of each figure."""
    if len(runs) == 1:
        return runs[0]
    failures = [run.failure for run in runs if run.failure is not None]
    last = runs[-1]
    names = dict.fromkeys(name for run in runs for name in run.figures)
    values = {name: _present(run.figures.get(name) for run in runs) for name in names}
    return Result(
        last.name,
        {name: median(seen) if seen else None for name, seen in values.items()},
        last.target,
        failures[0] if failures else None,
        last.label,
        least={name: min(seen) for name, seen in values.items() if seen},
        greatest={name: max(seen) for name, seen in values.items() if seen},
    )


def _present(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def spread(values: Sequence[float]) -> Figures:
    """A ratio that was measured several times: median, least, greatest."""
    return {"ratio": median(values), "ratio_min": min(values), "ratio_max": max(values)}


def percentile(values: Iterable[float], percent: float) -> float:
    """The value that so many percent do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def table(results: Sequence[Result]) -> str:
    """The rows under the names of their figures, aligned; failures in full below."""
    names = list(dict.fromkeys(name for result in results for name in result.figures))
    lines = [["", *names, "target", "verdict"]]
    lines += [
        [
            result.name,
            *(_figure(result, name) for name in names),
            str(result.target or ""),
            result.verdict,
        ]
        for result in results
    ]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    failures = [f"{result.name}: {result.failure}" for result in results if result.failure is not None]
    return "\n".join([_aligned(line, widths) for line in lines] + failures)


def markdown(title: str, results: Sequence[Result]) -> str:
    """The rows for docs/speed.md: each figure as the least and the greatest of the runs."""
    names = list(dict.fromkeys(name for result in results for name in result.figures))
    names = [name for name in _OF_A_RATIO if name in names] or names
    lines = [[title, *names], ["---"] * (len(names) + 1)]
    lines += [[result.label or result.name, *(_range(result, name) for name in names)] for result in results]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _range(result: Result, name: str) -> str:
    least, greatest = (
        _number(seen.get(name, result.figures.get(name))) for seen in (result.least, result.greatest)
    )
    return least if least == greatest else f"{least} to {greatest}"


def _figure(result: Result, name: str) -> str:
    value = _number(result.figures.get(name))
    return f"{value} ({_range(result, name)})" if name in result.least else value


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    name, *numbers, target, verdict = cells
    aligned = [cell.rjust(width) for cell, width in zip(numbers, widths[1:-2], strict=True)]
    return "  ".join([name.ljust(widths[0]), *aligned, target.ljust(widths[-2]), verdict]).rstrip()


def _number(value: float | None) -> str:
    if value is None:
        return ""
    digits = 0 if abs(value) >= 1000 else 1 if abs(value) >= 10 else 2
    return f"{value:,.{digits}f}"
