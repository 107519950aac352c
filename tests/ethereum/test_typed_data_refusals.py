"""Refused typed data: each rule, with the path of the faulty part and the cure."""

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


@each_row("given", [None, [], "{}", 1, True])
def test_typed_data_is_an_object(given: object) -> None:
    assert refusal(given).startswith("typed data must be an object with types, primaryType, domain, message")


@each_row("name", ["types", "primaryType", "domain", "message"])
def test_typed_data_has_all_its_members(name: str) -> None:
    assert refusal(changed(mail(), name, ABSENT)).startswith(f"{name} is missing")


@each_row("value", TABLES["primary types"])
def test_the_primary_type_is_one_of_the_types(value: object) -> None:
    assert refusal(changed(mail(), "primaryType", value)).startswith("primaryType must name one of the types")


@each_row(("path", "value", "expected"), TABLES["malformed types"])
def test_malformed_types_are_refused(path: str, value: object, expected: str) -> None:
    given = mail()
    given["types"]["Person"] = members("string name, address wallet")

    assert refusal(changed(given, path, value)).startswith(expected)


@each_row("name", TABLES["names that are no identifiers"])
def test_names_of_types_are_identifiers(name: str) -> None:
    given = mail()
    given["types"][name] = []

    assert "is no name for a type" in refusal(given)
    assert refusal(given).startswith("types")


@each_row("name", TABLES["names of other types"])
def test_names_of_types_are_not_names_of_other_types(name: str) -> None:
    given = mail()
    given["types"][name] = []

    assert refusal(given).startswith(f"types.{name} is the name of a type that is no struct")


@each_row(
    ("struct", "core"),
    [("App:Holder", "Person"), ("Holder", "App:Person"), ("Holder", "Per$on"), ("App:A", "App:A")],
)
def test_references_that_some_verifiers_overlook_are_refused(struct: str, core: str) -> None:
    given = mail()
    given["types"] |= {core: [], struct: [{"name": "value", "type": f"{core}[]"}]}

    assert refusal(given).startswith(f"types.{struct}[0].type must not refer from {struct} to {core}")


@each_row(("place", "member"), TABLES["members of domains"])
def test_a_domain_type_has_the_members_of_the_standard_only(place: int, member: dict[str, str]) -> None:
    given = mail()
    given["types"]["EIP712Domain"] = [*DOMAIN_TYPE[:place], member, *DOMAIN_TYPE[place + 1 :]]

    assert refusal(given).startswith(
        f"types.EIP712Domain[{place}] must be one of a domain's members: string name"
    )


@each_row(
    ("path", "value", "expected"),
    [
        *TABLES["domains"],
        ("domain.version", ABSENT, "domain.version is missing: EIP712Domain has this member"),
        ("domain.name", "x" * 4_096, "domain must be shorter"),
    ],
)
def test_the_domain_matches_its_type(path: str, value: object, expected: str) -> None:
    assert refusal(changed(mail(), path, value)).startswith(expected)


@each_row(
    ("values", "expected"),
    [
        (None, "domain must be an object"),
        (domain() | {"salt": "0x00"}, "domain.salt must have 32 bytes"),
        (domain() | {"chainId": "one"}, "domain.chainId must be of type uint256"),
    ],
)
def test_a_domain_without_a_type_has_the_members_of_the_standard_only(values: object, expected: str) -> None:
    given = changed(mail(), "types.EIP712Domain", ABSENT)

    assert refusal(changed(given, "domain", values)).startswith(expected)


@each_row(
    ("path", "value", "expected"),
    [
        *TABLES["messages"],
        ("message.contents", ABSENT, "message.contents is missing: Mail has this member"),
        ("message.from.name", ABSENT, "message.from.name is missing: Person has this member"),
    ],
)
def test_the_message_matches_its_type(path: str, value: object, expected: str) -> None:
    assert refusal(changed(group_mail(), path, value)).startswith(expected)


@each_row(("kind", "value", "expected"), TABLES["values"])
def test_values_are_of_their_types(kind: str, value: object, expected: str) -> None:
    assert refusal(one_value(kind, value)).startswith(f"message.value {expected}")


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


@each_row(
    ("kind", "value", "path"),
    [
        ("uint8[2][]", [[1, 2], [3, 256]], "message.value[1][1]"),
        ("uint8[2][]", [[1, 2], [3]], "message.value[1]"),
        ("Person[]", [{"name": "a"}, {"name": 1}], "message.value[1].name"),
        ("Person[]", [None], "message.value[0]"),
        ("Person[1][1]", [[{}]], "message.value[0][0].name"),
    ],
)
def test_a_path_leads_into_arrays(kind: str, value: object, path: str) -> None:
    given = one_value(kind, value, Person=members("string name"))

    assert refusal(given).startswith(f"{path} ")


def test_null_ends_a_circle_and_nothing_else() -> None:
    """Not as an element or an array, not as the message, and not by being absent."""
    assert refusal(family_tree() | {"message": None}).startswith("message must be an object")
    assert refusal(changed(family_tree(), "message.mother.mother", ABSENT)).startswith(
        "message.mother.mother is missing: Person has this member"
    )
    node = members("Node[] nodes")
    assert refusal(one_value("Node", {"nodes": [None]}, Node=node)).startswith(
        "message.value.nodes[0] must be an object of type Node, and is null"
    )
    assert refusal(one_value("Node", {"nodes": None}, Node=node)).startswith(
        "message.value.nodes must be an array, and is null"
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


def test_a_message_has_at_most_so_many_levels() -> None:
    assert read_typed_data(nested(MAX_DEPTH))
    assert refusal(nested(MAX_DEPTH + 1)).startswith("message must have at most")
    assert refusal(nested(100_000)).startswith("message must have at most")


def test_a_message_has_at_most_so_many_values() -> None:
    full = [1] * (MAX_VALUES - 1)  # and the array itself

    assert read_typed_data(one_value("uint8[]", full))
    assert read_typed_data(one_value("string", "," * MAX_VALUES))
    assert refusal(one_value("uint8[]", [*full, 1])).startswith("message must have at most")


def test_there_are_at_most_so_many_types() -> None:
    given = mail()
    given["types"] |= {f"T{number}": [] for number in range(MAX_TYPES)}

    assert refusal(given).startswith(f"types must have at most {MAX_TYPES} types, and has {MAX_TYPES + 3}")


def test_types_are_at_most_so_long() -> None:
    given = mail()
    given["types"]["Long"] = members(", ".join(f"uint256 member{number}" for number in range(1_000)))

    assert refusal(given).startswith("types must be shorter: it takes")


def test_values_that_are_no_json_are_refused() -> None:
    assert refusal(changed(mail(), "types.Person", [{"name": "a", "type": "\ud800"}])).startswith(
        "types must be JSON"
    )
    assert refusal(changed(mail(), "domain.chainId", 2**64)).startswith("domain must be JSON")


def test_integers_beyond_64_bits_are_read_when_a_parser_keeps_them() -> None:
    digest = read_typed_data(one_value("uint256", str(2**200))).digest

    assert read_typed_data(one_value("uint256", 2**200)).digest == digest
    assert refusal(one_value("uint256", 2**256)).startswith(
        "message.value must be of type uint256, from 0 to 2^256"
    )
