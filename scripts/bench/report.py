"""Figures, and tables of them."""

import json
import math
from argparse import ArgumentTypeError
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

Figures = Mapping[str, float]

_OF_A_RATIO = ("ceiling_us", "server_us", "ratio")
"""Columns of docs/speed.md for a row that compares the server with the ceiling."""


_WORSE = 1.05
_OF_OTHERS = ("bare", "floor", "of_")
"""The beginnings of figures that are not the server's own, or follow from others."""


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement: figures with their units in their names, one of each for every run.

    `label` is the name in the documentation.
    """

    name: str
    figures: Mapping[str, Sequence[float]] = field(default_factory=dict)
    failure: str | None = None
    label: str = ""


def row(name: str, figures: Figures, label: str = "") -> Row:
    """The row of one run."""
    return Row(name, {figure: [value] for figure, value in figures.items()}, label=label)


def merged(rows: Iterable[Row]) -> list[Row]:
    """One row for all of a name, which are of several runs."""
    by_name: dict[str, Row] = {}
    for one in rows:
        before = by_name.get(one.name, Row(one.name)).figures
        figures = {
            name: [*before.get(name, ()), *one.figures.get(name, ())] for name in {**before, **one.figures}
        }
        by_name[one.name] = Row(one.name, figures, one.failure, one.label)
    return list(by_name.values())


def percentile(values: Iterable[float], percent: float) -> float:
    """The value that so many percent do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def table(title: str, rows: Sequence[Row], for_documentation: bool = False) -> str:
    """The rows in Markdown: each figure as the least and the greatest of the runs."""
    names = list(dict.fromkeys(name for one in rows for name in one.figures))
    if for_documentation:
        names = [name for name in _OF_A_RATIO if name in names] or names
    lines = [[title, *names], ["---"] * (len(names) + 1)]
    lines += [[one.label or one.name, *(_range(one.figures.get(name, ())) for name in names)] for one in rows]
    failures = [f"{one.name}: {one.failure}" for one in rows if one.failure]
    return "\n".join([f"| {' | '.join(line)} |" for line in lines] + failures)


def _range(values: Sequence[float]) -> str:
    ends = [_number(value) for value in (min(values), max(values))] if values else []
    return " to ".join(dict.fromkeys(ends))


def _number(value: float) -> str:
    digits = 0 if abs(value) >= 1000 else 1 if abs(value) >= 10 else 2
    return f"{value:,.{digits}f}"


def save(file: Path, rows: Sequence[Row]) -> None:
    """Write the figures of rows, which later ones are compared with."""
    file.write_text(json.dumps({one.name: one.figures for one in rows}, indent=1) + "\n")


def saved_figures(file: str) -> Mapping[str, Figures]:
    """The medians of the figures that `save` wrote, by row, for an option of the command line."""
    try:
        rows = json.loads(Path(file).read_text("utf-8"))
        return {
            name: {figure: float(median(values)) for figure, values in figures.items()}
            for name, figures in rows.items()
        }
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise ArgumentTypeError(f"{file} cannot be read as what --save writes: {error}") from error


def compared(saved: Mapping[str, Figures], rows: Sequence[Row]) -> tuple[list[str], list[str]]:
    """Sentences on the server's own figures: medians 5 percent above the saved ones; what was not saved."""
    worse, new = [], []
    for one in rows:
        for figure, values in one.figures.items():
            if figure.startswith(_OF_OTHERS):
                continue
            now, before = median(values), saved.get(one.name, {}).get(figure)
            if before is None:
                new.append(f"{one.name} is new: {figure} {now:,.1f}, which the file lacks")
            elif before * _WORSE < now:
                worse.append(f"{one.name} is worse: {figure} {now:,.1f}, before {before:,.1f}")
    return worse, new
