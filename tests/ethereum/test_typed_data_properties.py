"""Typed data of any types: hashed as a plain reference does, and refused as soon as one part is wrong."""

from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge_server.ethereum.address import checksummed
from bridge_server.ethereum.typed_data import TypedDataError, read_typed_data, signed_part
from tests.ethereum import plain_typed_data
from tests.ethereum.plain_typed_data import Types

DOMAIN = [
    {"name": "name", "type": "string"},
    {"name": "version", "type": "string"},
    {"name": "chainId", "type": "uint256"},
    {"name": "verifyingContract", "type": "address"},
    {"name": "salt", "type": "bytes32"},
]
STRUCTS = ["Mail", "Asset", "Zone", "Bid", "_x1"]
MEMBERS = ["a", "b", "c", "d_1", "$e"]
MAX_LEVELS = 4

# One of them is wrong for each type, whatever it is.
WRONG_VALUES: list[Any] = [None, True, 0.5, "0xzz", [0.5], {"": 0}]

widths = st.integers(1, 32)
word_kinds = (
    st.sampled_from(["bool", "address", "string", "bytes"])
    | widths.map(lambda size: f"bytes{size}")
    | widths.map(lambda size: f"uint{8 * size}")
    | widths.map(lambda size: f"int{8 * size}")
)
array_suffixes = st.sampled_from(["", "", "", "[]", "[2]", "[][]", "[1][]", "[][2]"])
# Of a type that may lead back to the struct itself: null or an empty array can end it.
ending_suffixes = st.sampled_from(["", "[]", "[2][]"])


@st.composite
def struct_types(draw: st.DrawFn) -> Types:
    """Struct types, the first of which refers to any others; some refer back to earlier ones."""
    names = STRUCTS[: draw(st.integers(1, len(STRUCTS)))]
    return {
        name: [
            {"name": member, "type": draw(member_kinds(names, place))}
            for member in draw(st.lists(st.sampled_from(MEMBERS), max_size=4, unique=True))
        ]
        for place, name in enumerate(names)
    }


@st.composite
def member_kinds(draw: st.DrawFn, structs: list[str], place: int) -> str:
    core = draw(word_kinds | st.sampled_from(structs))
    leads_back = core in structs[: place + 1]
    return core + draw(ending_suffixes if leads_back else array_suffixes)


@st.composite
def values(draw: st.DrawFn, kind: str, types: Types, level: int = 0) -> Any:
    if kind.endswith("]"):
        element_kind, length = kind[:-1].rsplit("[", 1)
        least, most = (int(length), int(length)) if length else (0, 0 if level > MAX_LEVELS else 2)
        size = draw(st.integers(least, most))
        return [draw(values(element_kind, types, level + 1)) for _ in range(size)]
    if kind in types:
        return {
            member["name"]: None
            if ends_here(draw, kind, member["type"], types, level)
            else draw(values(member["type"], types, level + 1))
            for member in types[kind]
        }
    return draw(words(kind))


def ends_here(draw: st.DrawFn, struct: str, kind: str, types: Types, level: int) -> bool:
    return is_nullable(struct, kind, types) and (level > MAX_LEVELS or draw(st.booleans()))


def is_nullable(struct: str, kind: str, types: Types) -> bool:
    return kind in types and struct in plain_typed_data.referenced(kind, types)


def words(kind: str) -> st.SearchStrategy[Any]:
    if kind == "bool":
        return st.booleans()
    if kind == "string":
        return st.text(max_size=40)
    if kind == "address":
        lower = st.binary(min_size=20, max_size=20).map(lambda data: f"0x{data.hex()}")
        return lower | lower.map(checksummed)
    if kind.startswith("bytes"):
        size = kind.removeprefix("bytes")
        data = st.binary(min_size=int(size), max_size=int(size)) if size else st.binary(max_size=70)
        return data.map(lambda data: f"0x{data.hex()}")
    return integers(kind).flatmap(lambda number: st.sampled_from(spellings(number)))


def integers(kind: str) -> st.SearchStrategy[int]:
    if kind.startswith("u"):
        return st.integers(0, 2 ** int(kind[4:]) - 1)
    half = 2 ** (int(kind[3:]) - 1)
    return st.integers(-half, half - 1)


def spellings(number: int) -> list[int | str]:
    decimal: list[int | str] = [str(number)]
    as_number: list[int | str] = [number] if -(2**63) <= number < 2**64 else []
    return decimal + as_number + ([hex(number)] if number >= 0 else [])


@st.composite
def typed_data(draw: st.DrawFn) -> dict[str, Any]:
    types = {"EIP712Domain": [member for member in DOMAIN if draw(st.booleans())], **draw(struct_types())}
    return {
        "types": types,
        "primaryType": "Mail",
        "domain": draw(values("EIP712Domain", types)),
        "message": draw(values("Mail", types)),
    }


@dataclass(frozen=True)
class Place:
    """Where a value is: `steps` lead from the typed data to it."""

    steps: tuple[str | int, ...]
    kind: str
    nullable: bool

    @property
    def path(self) -> str:
        spelled = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.steps)
        return "".join(spelled).removeprefix(".")


def places(steps: tuple[str | int, ...], kind: str, value: Any, types: Types) -> Iterator[Place]:
    """The places of everything in a value."""
    inner: list[tuple[str | int, str, bool]] = []
    if isinstance(value, dict):
        inner = [
            (member["name"], member["type"], is_nullable(kind, member["type"], types))
            for member in types[kind]
        ]
    elif isinstance(value, list):
        inner = [(place, kind[: kind.rindex("[")], False) for place in range(len(value))]
    for step, inner_kind, nullable in inner:
        yield Place((*steps, step), inner_kind, nullable)
        yield from places((*steps, step), inner_kind, value[step], types)


def all_places(data: dict[str, Any]) -> list[Place]:
    """The places of everything in the domain and in the message, they themselves too."""
    kinds = {"domain": "EIP712Domain", "message": data["primaryType"]}
    return [
        place
        for name, kind in kinds.items()
        for place in (Place((name,), kind, False), *places((name,), kind, data[name], data["types"]))
    ]


def value_at(data: Any, steps: tuple[str | int, ...]) -> Any:
    for step in steps:
        data = data[step]
    return data


def assert_refused_at(path: str, data: dict[str, Any]) -> None:
    with pytest.raises(TypedDataError) as caught:
        read_typed_data(data)
    assert str(caught.value).startswith((f"{path} ", f"{path}.", f"{path}["))


@given(typed_data())
def test_typed_data_is_hashed_as_the_proposal_says(data: dict[str, Any]) -> None:
    untouched = deepcopy(data)

    assert read_typed_data(data).preimage == plain_typed_data.preimage(data)
    assert data == untouched


@given(typed_data(), st.data())
def test_with_one_member_less_it_is_refused(data: dict[str, Any], choice: st.DataObject) -> None:
    named = [place for place in all_places(data) if isinstance(place.steps[-1], str)]
    place = choice.draw(st.sampled_from(named))

    del value_at(data, place.steps[:-1])[place.steps[-1]]

    assert_refused_at(place.path, data)


@given(typed_data(), st.data())
def test_one_member_more_is_not_signed(data: dict[str, Any], choice: st.DataObject) -> None:
    before = signed_part(data)
    structs = [place for place in all_places(data) if isinstance(value_at(data, place.steps), dict)]
    place = choice.draw(st.sampled_from(structs))

    value_at(data, place.steps)["more"] = choice.draw(st.none() | st.booleans() | st.text(max_size=5))

    assert read_typed_data(data).preimage == plain_typed_data.preimage(data)
    assert signed_part(data) == before
    assert read_typed_data(before).digest == read_typed_data(data).digest


@given(typed_data(), st.data())
def test_with_one_value_of_another_type_it_is_refused(data: dict[str, Any], choice: st.DataObject) -> None:
    place = choice.draw(st.sampled_from(all_places(data)))
    right = {"bool": True, "string": "0xzz", None: None}
    wrong = [
        value
        for value in WRONG_VALUES
        if value != right.get(place.kind, ...)
        and not (value is None and place.nullable)
        and not (isinstance(value, dict) and data["types"].get(place.kind) == [])
    ]

    value_at(data, place.steps[:-1])[place.steps[-1]] = choice.draw(st.sampled_from(wrong))

    assert_refused_at(place.path, data)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(typed_data(), st.sampled_from(["types", "primaryType", "domain", "message"]), json_values)
def test_any_other_value_is_read_or_refused(data: dict[str, Any], name: str, value: Any) -> None:
    data[name] = value

    with suppress(TypedDataError):
        read_typed_data(data)
