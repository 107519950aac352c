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
    BOB,
    CONTRACT,
    DOMAIN_TYPE,
    domain,
    family_tree,
    group_mail,
    mail,
    members,
    one_value,
)
from tests.support.rows import each_row

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


@each_row("value", [None, "", "mail", "Mail[]", "uint256", 1, [], ["Mail"], {}])
def test_the_primary_type_is_one_of_the_types(value: object) -> None:
    assert refusal(changed(mail(), "primaryType", value)).startswith("primaryType must name one of the types")


@each_row(
    ("path", "value", "expected"),
    [
        ("types", None, "types must be an object"),
        ("types", [], "types must be an object"),
        ("types.Person", {}, "types.Person must be an array of members"),
        ("types.Person.0", "string name", "types.Person[0] must be a member such as"),
        ("types.Person.0", {"name": "name"}, "types.Person[0] must be a member such as"),
        ("types.Person.0.name", 1, "types.Person[0].name must be a name of letters"),
        ("types.Person.0.name", "", "types.Person[0].name must be a name of letters"),
        ("types.Person.0.name", "1st", "types.Person[0].name must be a name of letters"),
        ("types.Person.0.name", "a b", "types.Person[0].name must be a name of letters"),
        ("types.Person.0.name", "name\n", "types.Person[0].name must be a name of letters"),
        ("types.Person.0.name", "näme", "types.Person[0].name must be a name of letters"),
        ("types.Person.1.name", "name", "types.Person[1].name must differ from the others' names"),
        ("types.Person.0.type", None, "types.Person[0].type must be a type such as"),
        ("types.Person.0.type", "", "types.Person[0].type must be a type such as"),
        ("types.Person.0.type", "string ", "types.Person[0].type must be a type such as"),
        ("types.Person.0.type", "string[", "types.Person[0].type must be a type such as"),
        ("types.Person.0.type", "string[0]", "types.Person[0].type must be a type such as"),
        ("types.Person.0.type", "string[01]", "types.Person[0].type must be a type such as"),
        ("types.Person.0.type", "string[-1]", "types.Person[0].type must be a type such as"),
        ("types.Person.0.type", "[]", "types.Person[0].type must be a type such as"),
        ("types.Person.0.type", "string" + "[]" * 17, "types.Person[0].type must be a type such as"),
        ("types.Person.0.type", "mapping(uint256=>bool)", "types.Person[0].type must be a type such as"),
        ("types.Person.0.type", "Nobody", "types.Person[0].type must be a type of EIP-712 or one in types"),
        ("types.Person.0.type", "Nobody[]", "types.Person[0].type must be a type of EIP-712 or one in types"),
        ("types.Person.0.type", "uint7", "types.Person[0].type must be a type of EIP-712 or one in types"),
        ("types.Person.0.type", "uint264", "types.Person[0].type must be a type of EIP-712 or one in types"),
        ("types.Person.0.type", "bytes0", "types.Person[0].type must be a type of EIP-712 or one in types"),
        ("types.Person.0.type", "bytes33", "types.Person[0].type must be a type of EIP-712 or one in types"),
        (
            "types.Person.0.type",
            "fixed128x18",
            "types.Person[0].type must be a type of EIP-712 or one in types",
        ),
        ("types.Person.0.type", "function", "types.Person[0].type must be a type of EIP-712 or one in types"),
        ("types.Unused", [{"name": "a", "type": "Nobody"}], "types.Unused[0].type must be a type of EIP-712"),
    ],
)
def test_malformed_types_are_refused(path: str, value: object, expected: str) -> None:
    given = mail()
    given["types"]["Person"] = members("string name, address wallet")

    assert refusal(changed(given, path, value)).startswith(expected)


@each_row("name", ["", "1Person", "Per son", "Person[]", "Person(", "a,b", "Pérson", ":A", "A:", "A\n"])
def test_names_of_types_are_identifiers(name: str) -> None:
    given = mail()
    given["types"][name] = []

    assert "is no name for a type" in refusal(given)
    assert refusal(given).startswith("types")


@each_row("name", ["bool", "address", "string", "bytes", "bytes33", "uint", "int8", "uint7", "function"])
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


@each_row(
    ("place", "member"),
    [
        (0, {"name": "title", "type": "string"}),
        (0, {"name": "name", "type": "bytes"}),
        (2, {"name": "chainId", "type": "uint64"}),
        (3, {"name": "verifyingContract", "type": "string"}),
        (4, {"name": "salt", "type": "bytes"}),
    ],
)
def test_a_domain_type_has_the_members_of_the_standard_only(place: int, member: dict[str, str]) -> None:
    given = mail()
    given["types"]["EIP712Domain"] = [*DOMAIN_TYPE[:place], member, *DOMAIN_TYPE[place + 1 :]]

    assert refusal(given).startswith(
        f"types.EIP712Domain[{place}] must be one of a domain's members: string name"
    )


@each_row(
    ("path", "value", "expected"),
    [
        ("domain", None, "domain must be an object"),
        ("domain", [], "domain must be an object"),
        ("domain.version", ABSENT, "domain.version is missing: EIP712Domain has this member"),
        ("domain.name", None, "domain.name must be a string, and is null"),
        ("domain.version", 1, "domain.version must be a string, and is 1"),
        ("domain.chainId", None, "domain.chainId must be of type uint256"),
        ("domain.chainId", -1, "domain.chainId must be of type uint256"),
        ("domain.chainId", True, "domain.chainId must be of type uint256"),
        ("domain.verifyingContract", "", "domain.verifyingContract must be an address"),
        ("domain.verifyingContract", CONTRACT.swapcase()[2:], "domain.verifyingContract must be an address"),
        ("domain.name", "x" * 4_096, "domain must be shorter"),
        ("domain.name", "\ud800", "domain must be JSON: "),
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
        ("message", None, "message must be an object of type Mail, and is null"),
        ("message", [], "message must be an object of type Mail, and is an array of 0"),
        ("message.contents", ABSENT, "message.contents is missing: Mail has this member"),
        ("message.from", None, "message.from must be an object of type Person, and is null"),
        ("message.from.name", ABSENT, "message.from.name is missing: Person has this member"),
        ("message.from.wallets", None, "message.from.wallets must be an array, and is null"),
        ("message.to", {}, "message.to must be an array, and is an object"),
        ("message.to.0", BOB, f"message.to[0] must be an object of type Person, and is '{BOB}'"),
        (
            "message.to.0.wallets.2",
            None,
            "message.to[0].wallets[2] must be an address: a string of 0x and 40",
        ),
        (
            "message.to.0.wallets.2",
            BOB[:-1],
            "message.to[0].wallets[2] must be an address: a string of 0x and 40",
        ),
    ],
)
def test_the_message_matches_its_type(path: str, value: object, expected: str) -> None:
    assert refusal(changed(group_mail(), path, value)).startswith(expected)


@each_row(
    ("kind", "value", "expected"),
    [
        ("bool", 1, "must be a bool, true or false, and is 1"),
        ("bool", "true", "must be a bool, true or false, and is 'true'"),
        ("bool", None, "must be a bool, true or false, and is null"),
        ("string", 1, "must be a string, and is 1"),
        ("string", None, "must be a string, and is null"),
        ("string", ["a"], "must be a string, and is an array of 1"),
        ("string", "\ud800", "must be a string, and has half of a surrogate pair"),
        ("address", 0, "must be an address: a string of 0x and 40 hexadecimal digits"),
        ("address", [BOB], "must be an address"),
        ("address", "", "must be an address"),
        ("address", f"0X{BOB[2:]}", "must be an address"),
        ("address", f"{BOB}00", "must be an address"),
        ("address", f"{BOB}\n", "must be an address"),
        ("address", BOB.replace("bBb", "BBb", 1), "has a wrong checksum in its capitals (EIP-55)"),
        ("bytes", "00", "must be DATA: a string of 0x and two hexadecimal digits for each byte"),
        ("bytes", "0x0", "must be DATA"),
        ("bytes", "0x0g", "must be DATA"),
        ("bytes", "0x00 00", "must be DATA"),
        ("bytes", "0x００", "must be DATA"),
        ("bytes", "hello", "must be DATA"),
        ("bytes", None, "must be DATA"),
        ("bytes", 1, "must be DATA"),
        ("bytes", [1], "must be DATA"),
        ("bytes4", 1, "must be DATA: a string of 0x and 8 hexadecimal digits"),
        ("bytes4", "0x123456", "must have 4 bytes (10 characters with 0x), and has 3"),
        ("bytes4", "0x1234567890", "must have 4 bytes (10 characters with 0x), and has 5"),
        ("bytes4", "0x12345", "must be DATA"),
        ("bytes1", "0x ", "must be DATA"),
        ("uint8", True, "must be of type uint8: an integer, or a string"),
        ("uint8", None, "must be of type uint8: an integer, or a string"),
        ("uint8", 1.0, "must be of type uint8, and is 1.0, a number with a fraction or of more than 64 bits"),
        ("uint256", 1e30, "must be of type uint256, and is 1e+30"),
        ("uint8", "", "must be of type uint8"),
        ("uint8", "0x", "must be of type uint8"),
        ("uint8", "0X1", "must be of type uint8"),
        ("uint8", "-0x1", "must be of type uint8"),
        ("uint8", "+1", "must be of type uint8"),
        ("uint8", " 1", "must be of type uint8"),
        ("uint8", "1\n", "must be of type uint8"),
        ("uint8", "1_0", "must be of type uint8"),
        ("uint8", "1e1", "must be of type uint8"),
        ("uint8", "1.0", "must be of type uint8"),
        ("uint8", "١", "must be of type uint8"),
        ("uint8", "0xfg", "must be of type uint8"),
        ("uint256", "9" * 79, "must be of type uint256"),
        ("uint256", "0x" + "0" * 65, "must be of type uint256"),
        ("uint8[2]", [1], "must be an array of 2, and has 1"),
        ("uint8[2]", [1, 2, 3], "must be an array of 2, and has 3"),
        ("uint8[]", "12", "must be an array, and is '12'"),
        ("string", 5 * [0], "must be a string, and is an array of 5"),
    ],
)
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
