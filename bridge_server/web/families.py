"""Figures for `/metrics`, as rooms hand them over."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

Gauges: TypeAlias = Callable[[], Mapping[str, float]]
"""Reads some figures at this moment, by name."""


@dataclass(frozen=True, slots=True)
class Family:
    """Figures of one name. `rows` are their values by the values of the labels, in the order of `labels`.

    `is_total` says that they begin at zero and only grow: they are counters for Prometheus.
    """

    name: str
    meaning: str
    rows: Mapping[tuple[str, ...], float]
    labels: tuple[str, ...] = ()
    is_total: bool = False


Families: TypeAlias = Callable[[], Awaitable[Sequence[Family]]]
"""Reads all families at this moment."""
