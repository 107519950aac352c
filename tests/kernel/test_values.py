"""Dataclasses that are made sooner behave as those of the standard library."""

from collections.abc import Callable
from dataclasses import asdict, field, replace
from dataclasses import dataclass as standard
from typing import Any

import orjson

from bridge_server.kernel import values
from tests.support.rows import each_row


def _made(decorator: Callable[..., Any], **options: bool) -> Any:
    @decorator(slots=True, **options)
    class Letter:
        """A class with every kind of field."""

        to: str
        secret: str = field(default="s", repr=False)
        seen: int = field(default=0, compare=False)
        pages: tuple[int, ...] = field(default_factory=tuple)

    return Letter


@each_row("options", [{"frozen": True}, {}, {"eq": False}, {"frozen": True, "kw_only": True}])
def test_a_class_has_the_outcome_of_the_standard_library(options: dict[str, bool]) -> None:
    ours, theirs = _made(values.dataclass, **options), _made(standard, **options)

    def outcome(kind: Any) -> list[object]:
        letter = kind(to="Ann", pages=(1, 2))
        others = [kind(to="Ann", pages=(1, 2), seen=5), kind(to="Bob", pages=(1, 2)), ("Ann", "s", 0, (1, 2))]
        return [
            repr(letter).rpartition(".")[2],
            [letter == other for other in others],
            letter == letter,
            kind.__hash__ is None,
            options.get("frozen") and len({letter, *others}),
            repr(replace(letter, to="Cyd")).rpartition(".")[2],
            asdict(letter),
            orjson.dumps(letter),
            hasattr(letter, "__dict__"),
        ]

    assert outcome(ours) == outcome(theirs)


def test_a_class_keeps_its_own_methods() -> None:
    @values.dataclass(frozen=True)
    class Folded:
        text: str

        def __repr__(self) -> str:
            return "folded"

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Folded) and self.text.lower() == other.text.lower()

        def __hash__(self) -> int:
            return hash(self.text.lower())

    assert {Folded("A"), Folded("a")} == {Folded("a")}
    assert repr(Folded("A")) == "folded"


def test_a_class_without_fields_is_equal_to_its_kind_alone() -> None:
    @values.dataclass(frozen=True, slots=True)
    class Empty:
        pass

    assert {Empty(), Empty()} == {Empty()}
    assert repr(Empty()).endswith("Empty()")
