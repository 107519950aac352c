"""Ids, and dataclasses that are made sooner than those of the standard library."""

from collections.abc import Callable
from dataclasses import asdict, field, replace
from dataclasses import dataclass as standard
from typing import Any
from uuid import RFC_4122, UUID

import orjson
from hypothesis import given
from hypothesis import strategies as st

from bridge_server.kernel import values
from bridge_server.kernel.secrets import IdMaker
from tests.support.rows import each_row

random_bits = st.binary(min_size=16, max_size=16)
VERSION_AND_VARIANT = (0xF << 76) | (0x3 << 62)


def maker(source: bytes) -> IdMaker:
    """Takes its randomness from the front of these bytes."""
    return IdMaker(lambda count: source[:count])


@given(random_bits)
def test_a_random_id_is_a_version_4_uuid_that_keeps_the_other_122_bits(source: bytes) -> None:
    spelled = maker(source).random_uuid()
    uuid = UUID(spelled)
    assert (str(uuid), uuid.version, uuid.variant) == (spelled, 4, RFC_4122)
    assert uuid.int & ~VERSION_AND_VARIANT == int.from_bytes(source, "big") & ~VERSION_AND_VARIANT


@given(st.integers(0, 2**48 - 1), random_bits)
def test_an_ordered_id_is_a_version_7_uuid_with_the_time_in_front(now_ms: int, source: bytes) -> None:
    spelled = maker(source).ordered_uuid(now_ms)
    uuid = UUID(spelled)
    assert (str(uuid), (uuid.int >> 76) & 0xF, uuid.variant) == (spelled, 7, RFC_4122)
    assert uuid.int >> 80 == now_ms
    free_bits = ~VERSION_AND_VARIANT & (2**80 - 1)
    assert uuid.int & free_bits == int.from_bytes(source[:10], "big") & free_bits


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
