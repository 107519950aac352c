"""A random order of modules."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, Protocol, TypeVar


class _Test(Protocol):
    @property
    def path(self) -> Path: ...

    def iter_markers(self, name: str) -> Iterator[Any]: ...


Test = TypeVar("Test", bound=_Test)


def shuffled(tests: Sequence[Test], seed: str) -> list[Test]:
    """The tests, with their modules in the order that the seed gives; inside a module they keep theirs.

    Modules that only `--all` runs take minutes. They begin in the first half: none is left alone at the end.
    """
    by_module: dict[Path, list[Test]] = {}
    for test in tests:
        by_module.setdefault(test.path, []).append(test)
    modules = sorted(by_module)
    long = {module for module in modules if any(map(_is_long, by_module[module]))}
    random = Random(seed)
    random.shuffle(modules)
    half = len(modules) // 2
    short_and_early = [place for place in range(half) if modules[place] not in long]
    random.shuffle(short_and_early)
    for place in range(half, len(modules)):
        if modules[place] in long and short_and_early:
            other = short_and_early.pop()
            modules[place], modules[other] = modules[other], modules[place]
    return [test for module in modules for test in by_module[module]]


def _is_long(test: _Test) -> bool:
    return any("--all" in mark.kwargs.get("reason", "") for mark in test.iter_markers("skipif"))
