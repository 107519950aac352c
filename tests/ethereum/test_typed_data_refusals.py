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


def with_types(given: dict[str, Any], **types: list[dict[str, str]]) -> dict[str, Any]:
    """The typed data with these types beside its own, or in their place."""
    given["types"] |= types
    return given


def without_domain_type(values: object) -> dict[str, Any]:
    """The example with another domain, and no type for it."""
    return changed(changed(mail(), "types.EIP712Domain", ABSENT), "domain", values)


def plain_mail() -> dict[str, Any]:
    """The example, whose types no other example shares."""
    return with_types(mail(), Person=members("string name, address wallet"))


PERSON = members("string name")
NO_OBJECTS: list[Any] = [None, [], "{}"]
REFUSED: list[tuple[Any, str]] = [
    *(
        (given, "typed data must be an object with types, primaryType, domain, message")
        for given in NO_OBJECTS
    ),
    *(
        (changed(mail(), name, ABSENT), f"{name} is missing")
        for name in ("types", "primaryType", "domain", "message")
    ),
    *(
        (changed(mail(), "primaryType", value), "primaryType must name one of the types")
        for value in TABLES["primary types"]
    ),
    *((changed(plain_mail(), path, value), expected) for path, value, expected in TABLES["malformed types"]),
    *(
        (with_types(mail(), **{name: []}), f"types.{name} is the name of a type that is no struct")
        for name in TABLES["names of other types"]
    ),
    # References that some verifiers overlook.
    *(
        (
            with_types(mail(), **{core: [], struct: [{"name": "value", "type": f"{core}[]"}]}),
            f"types.{struct}[0].type must not refer from {struct} to {core}",
        )
        for struct, core in (("App:Holder", "Person"), ("Holder", "App:Person"), ("Holder", "Per$on"))
    ),
    *(
        (
            with_types(mail(), EIP712Domain=[*DOMAIN_TYPE[:place], member, *DOMAIN_TYPE[place + 1 :]]),
            f"types.EIP712Domain[{place}] must be one of a domain's members: string name",
        )
        for place, member in TABLES["members of domains"]
    ),
    *((changed(mail(), path, value), expected) for path, value, expected in TABLES["domains"]),
    (changed(mail(), "domain.version", ABSENT), "domain.version is missing: EIP712Domain has this member"),
    (changed(mail(), "domain.name", "x" * 4_096), "domain must be shorter"),
    (without_domain_type(None), "domain must be an object"),
    (without_domain_type(domain() | {"salt": "0x00"}), "domain.salt must have 32 bytes"),
    (without_domain_type(domain() | {"chainId": "one"}), "domain.chainId must be of type uint256"),
    *((changed(group_mail(), path, value), expected) for path, value, expected in TABLES["messages"]),
    (
        changed(group_mail(), "message.from.name", ABSENT),
        "message.from.name is missing: Person has this member",
    ),
    *((one_value(kind, value), f"message.value {expected}") for kind, value, expected in TABLES["values"]),
    (one_value("uint8[2][]", [[1, 2], [3, 256]]), "message.value[1][1] "),
    (one_value("uint8[2][]", [[1, 2], [3]]), "message.value[1] "),
    (one_value("Person[]", [{"name": "a"}, {"name": 1}], Person=PERSON), "message.value[1].name "),
    (one_value("Person[1][1]", [[{}]], Person=PERSON), "message.value[0][0].name "),
]


@each_row(("given", "expected"), REFUSED)
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
