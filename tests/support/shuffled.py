"""A random order of modules."""

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Protocol, TypeVar


class _Test(Protocol):
    @property
    def path(self) -> Path: ...


Test = TypeVar("Test", bound=_Test)


def shuffled(tests: Sequence[Test], seed: str) -> list[Test]:
    """The tests, with their modules in the order that the seed gives; inside a module they keep theirs."""
    by_module: dict[Path, list[Test]] = {}
    for test in tests:
        by_module.setdefault(test.path, []).append(test)
    modules = sorted(by_module)
    Random(seed).shuffle(modules)
    return [test for module in modules for test in by_module[module]]
