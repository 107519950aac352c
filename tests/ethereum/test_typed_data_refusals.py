"""Refused typed data: each rule, with the path of the faulty part and the cure."""

from collections.abc import Iterator
from typing import Any

import pytest

from bridge_server.ethereum.typed_data import (
    MAX_DEPTH,
    MAX_TYPES,
    MAX_VALUES,
    TypedDataError,
    read_typed_data,
)
from tests.ethereum.typed_data_examples import (
    DOMAIN_TYPE,
    domain,
    family_tree,
    group_mail,
    mail,
    members,
    one_value,
    with_domain,
)
from tests.ethereum.vectors import tables
from tests.support.rows import each_row

TABLES = tables("refused_typed_data.json")
ABSENT = object()


def refusal(given: object) -> str:
    with pytest.raises(TypedDataError) as caught:
        read_typed_data(given)
    return str(caught.value)


def changed(given: dict[str, Any], path: str, value: object) -> dict[str, Any]:
    """The typed data with another value at a path such as `message.to.0.name`, or without one."""
    *way, last = path.split(".")
    place: Any = given
    for step in way:
        place = place[int(step) if isinstance(place, list) else step]
    if value is ABSENT:
        del place[last]
    else:
        place[int(last) if isinstance(place, list) else last] = value
    return given


def with_types(given: dict[str, Any], **types: list[dict[str, str]]) -> dict[str, Any]:
    """The typed data with these types beside its own, or in their place."""
    given["types"] |= types
    return given


def faults() -> Iterator[tuple[object, str]]:
    """Typed data, and how its refusal begins."""
    for given in (None, [0], "{}"):
        yield given, "typed data must be an object with types, primaryType, domain, message"
    for name in ("types", "primaryType", "domain", "message"):
        yield changed(mail(), name, ABSENT), f"{name} is missing"
    for value in TABLES["primary types"]:
        yield changed(mail(), "primaryType", value), "primaryType must name one of the types"
    for path, value, expected in (*TABLES["malformed types"], *TABLES["domains"]):
        yield changed(mail(), path, value), expected
    for name in TABLES["names of other types"]:
        yield with_types(mail(), **{name: []}), f"types.{name} is the name of a type that is no struct"
    # References that some verifiers overlook.
    for struct, core in (("App:Holder", "Person"), ("Holder", "App:Person"), ("Holder", "Per$on")):
        holder = [{"name": "value", "type": f"{core}[]"}]
        reason = f"types.{struct}[0].type must not refer from {struct} to {core}"
        yield with_types(mail(), **{core: [], struct: holder}), reason
    for place, member in TABLES["members of domains"]:
        domain_type = [*DOMAIN_TYPE[:place], member, *DOMAIN_TYPE[place + 1 :]]
        reason = f"types.EIP712Domain[{place}] must be one of a domain's members: string name"
        yield with_types(mail(), EIP712Domain=domain_type), reason
    yield changed(mail(), "domain.version", ABSENT), "domain.version is missing: EIP712Domain has this member"
    yield changed(mail(), "domain.name", "x" * 4_096), "domain must be shorter"
    yield with_domain(None, None), "domain must be an object"
    yield with_domain(None, domain() | {"salt": "0x00"}), "domain.salt must have 32 bytes"
    yield with_domain(None, domain() | {"chainId": "one"}), "domain.chainId must be of type uint256"
    for path, value, expected in TABLES["messages"]:
        yield changed(group_mail(), path, value), expected
    name = "message.from.name"
    yield changed(group_mail(), name, ABSENT), f"{name} is missing: Person has this member"
    for kind, value, expected in TABLES["values"]:
        yield one_value(kind, value), f"message.value {expected}"
    person = members("string name")
    yield one_value("uint8[2][]", [[1, 2], [3, 256]]), "message.value[1][1] "
    yield one_value("uint8[2][]", [[1, 2], [3]]), "message.value[1] "
    yield one_value("Person[]", [{"name": "a"}, {"name": 1}], Person=person), "message.value[1].name "
    yield one_value("Person[1][1]", [[{}]], Person=person), "message.value[0][0].name "
    # Null ends a circle of types, and stands for nothing else.
    node = members("Node[] nodes")
    yield family_tree() | {"message": None}, "message must be an object"
    name = "message.mother.mother"
    yield changed(family_tree(), name, ABSENT), f"{name} is missing: Person has this member"
    reason = "message.value.nodes[0] must be an object of type Node, and is null"
    yield one_value("Node", {"nodes": [None]}, Node=node), reason
    yield one_value("Node", {"nodes": None}, Node=node), "message.value.nodes must be an array, and is null"
    # No JSON, as a parser may keep it.
    yield changed(mail(), "types.Person", [{"name": "a", "type": "\ud800"}]), "types must be JSON"
    yield changed(mail(), "domain.chainId", 2**64), "domain must be JSON"
    yield one_value("uint256", 2**256), "message.value must be of type uint256, from 0 to 2^256"


@each_row(("given", "expected"), faults())
def test_a_fault_is_refused_with_its_path_and_its_rule(given: object, expected: str) -> None:
    assert refusal(given).startswith(expected)


@each_row("name", TABLES["names that are no identifiers"])
def test_names_of_types_are_identifiers(name: str) -> None:
    reason = refusal(with_types(mail(), **{name: []}))

    assert reason.startswith("types")
    assert "is no name for a type" in reason


@each_row("bits", range(8, 257, 8))
def test_integers_stay_in_the_range_of_their_type(bits: int) -> None:
    unsigned, signed = f"uint{bits}", f"int{bits}"
    half = 2 ** (bits - 1)

    for number in (-1, 2**bits):
        assert refusal(one_value(unsigned, str(number))).startswith(
            f"message.value must be of type {unsigned}, from 0 to 2^{bits} - 1, and is '"
        )
    for number in (-half - 1, half):
        assert refusal(one_value(signed, str(number))).startswith(
            f"message.value must be of type {signed}, from -2^{bits - 1} to 2^{bits - 1} - 1, and is '"
        )


def test_a_fault_shows_long_values_in_part() -> None:
    assert len(refusal(one_value("bool", "x" * 100_000))) < 200
    assert len(refusal(changed(mail(), "types." + "x y" * 10_000, []))) < 200


def nested(depth: int) -> dict[str, Any]:
    """A message of so many levels."""
    innermost: dict[str, Any] = {"next": None}
    for _ in range(depth - 2):  # one level is the message, one the innermost
        innermost = {"next": innermost}
    return one_value("Node", innermost, Node=members("Node next"))


def test_typed_data_has_at_most_so_many_levels_values_and_types() -> None:
    assert read_typed_data(nested(MAX_DEPTH))
    for depth in (MAX_DEPTH + 1, 100_000):
        assert refusal(nested(depth)).startswith("message must have at most")

    full = [1] * (MAX_VALUES - 1)  # and the array itself
    assert read_typed_data(one_value("uint8[]", full))
    assert read_typed_data(one_value("string", "," * MAX_VALUES))
    assert refusal(one_value("uint8[]", [*full, 1])).startswith("message must have at most")

    many = with_types(mail(), **{f"T{number}": [] for number in range(MAX_TYPES)})
    assert refusal(many).startswith(f"types must have at most {MAX_TYPES} types, and has {MAX_TYPES + 3}")
    long = with_types(mail(), Long=members(", ".join(f"uint256 member{number}" for number in range(1_000))))
    assert refusal(long).startswith("types must be shorter: it takes")


def test_integers_beyond_64_bits_are_read_when_a_parser_keeps_them() -> None:
    first, second = (read_typed_data(one_value("uint256", value)) for value in (2**200, str(2**200)))
    assert first.digest == second.digest
