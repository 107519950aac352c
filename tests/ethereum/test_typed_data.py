"""Typed data: published examples, an independent implementation's, any types, and open cases."""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge_server.ethereum.keccak import keccak256
from bridge_server.ethereum.signing_key import recover_address
from bridge_server.ethereum.typed_data import (
    TypedDataError,
    read_typed_data,
    signed_part,
)
from tests.ethereum.typed_data_examples import (
    BOB,
    COW,
    DOMAIN_TYPE,
    DRAGON,
    Types,
    domain,
    family_tree,
    group_mail,
    mail,
    members,
    one_value,
)
from tests.ethereum.vectors import key_of, raw_bytes, vectors
from tests.support.rows import each_row

# The hash of the domain that the examples share.
DOMAIN_HASH = "f2cee375fa42b42143804025fc449deafd50cc031ca257e0b194a650a912090f"
VECTORS = [each for each in vectors("typed_data.json") if "EIP712Domain" in each["typed_data"]["types"]]
# One of them is wrong for each type, whatever it is.
WRONG_VALUES: list[Any] = [None, True, 0.5, "0xzz", [0.5], {"": 0}]


def same(first: dict[str, Any], second: dict[str, Any]) -> bool:
    return read_typed_data(first).digest == read_typed_data(second).digest


def with_domain(domain_type: list[dict[str, str]] | None, values: dict[str, Any]) -> dict[str, Any]:
    changed = mail() | {"domain": values}
    del changed["types"]["EIP712Domain"]
    if domain_type is not None:
        changed["types"]["EIP712Domain"] = domain_type
    return changed


@each_row(
    ("example", "digest", "signature", "signer"),
    [
        (
            mail(),
            "be609aee343fb3c4b28e1df9e632fca64fcfaede20f02e86244efddf30957bd2",
            "4355c47d63924e8a72e509b65029052eb6c299d53a04e167c5775fd466751c9d"
            "07299936d304c153f6443dfa05f40ff007d72911b6f72307f996231605b915621c",
            COW,
        ),
        (
            group_mail(),
            "a85c2e2b118698e88db68a8105b794a8cc7cec074e89ef991cb4f5f533819cc2",
            "65cbd956f2fae28a601bebc9b906cea0191744bd4c4247bcd27cd08f8eb6b71c"
            "78efdf7a31dc9abee78f492292721f362d296cf86b4538e07b51303b67f749061b",
            COW,
        ),
        (
            family_tree(),
            "807773b9faa9879d4971b43856c4d60c2da15c6f8c062bd9d33afefb756de19c",
            "f2ec61e636ff7bb3ac8bc2a4cc2c8b8f635dd1b2ec8094c963128b358e79c85c"
            "5ca6dd637ed7e80f0436fe8fce39c0e5f2082c9517fe677cc2917dcd6c84ba881c",
            DRAGON,
        ),
    ],
    ids=["mail", "arrays", "a circle of types"],
)
def test_the_examples_are_hashed_and_signed_as_published(
    example: dict[str, Any], digest: str, signature: str, signer: str
) -> None:
    typed_data = read_typed_data(example)

    assert typed_data.digest.hex() == digest
    assert recover_address(typed_data.digest, bytes.fromhex(signature)) == signer


def test_the_preimage_has_the_published_hashes_and_typed_data_is_kept_beside_it() -> None:
    typed_data = read_typed_data(mail())

    assert typed_data.preimage.hex() == (
        "1901" + DOMAIN_HASH + "c52c0ee5d84264471806290a3f2c4cecfc5490626bf912d01f240d7a274b371e"
    )
    assert (typed_data.primary_type, typed_data.domain, typed_data.chain_id) == ("Mail", domain(), 1)
    assert read_typed_data(with_domain(None, {"name": "Ether Mail"})).chain_id is None


@each_row("rest", [{}, {"message": {}}, {"message": {"amount": 1}}, {"message": None}])
def test_with_the_primary_type_eip712domain_only_the_domain_is_signed(rest: dict[str, Any]) -> None:
    types: dict[str, Any] = {"EIP712Domain": []}

    typed_data = read_typed_data({"types": types, "primaryType": "EIP712Domain", "domain": {}, **rest})

    assert typed_data.preimage == b"\x19\x01" + keccak256(keccak256(b"EIP712Domain()"))
    assert typed_data.digest.hex() == "8d4a3f4082945b7879e2b55f181c31a77c8c0a464b70669458abbaaf99de4c38"


def test_an_independent_implementation_signs_the_same() -> None:
    for vector in vectors("typed_data.json"):
        digest = read_typed_data(vector["typed_data"]).digest

        assert digest == raw_bytes(vector["digest"]), vector["name"]
        assert key_of(vector).sign(digest) == raw_bytes(vector["signature"]), vector["name"]


def test_the_domain_type_may_have_its_members_in_any_order() -> None:
    assert not same(with_domain(DOMAIN_TYPE[::-1], domain()), mail())


@each_row("chain_id", [1, "1", "0x1", "0x0001"])
def test_the_chain_of_a_domain_is_read_in_every_spelling(chain_id: object) -> None:
    typed_data = read_typed_data(mail() | {"domain": domain() | {"chainId": chain_id}})

    assert typed_data.chain_id == 1
    assert typed_data.digest == read_typed_data(mail()).digest


def test_unused_types_orders_and_the_case_of_addresses_change_nothing() -> None:
    more, turned, lower, upper = mail(), mail(), mail(), mail()
    more["types"]["Unused"] = members("Mail mail, Unused[] more")
    turned["types"] = dict(reversed(turned["types"].items()))
    turned["message"] = dict(reversed(turned["message"].items()))
    lower["message"]["to"]["wallet"] = BOB.lower()
    upper["message"]["to"]["wallet"] = f"0x{BOB[2:].upper()}"

    for changed in (more, turned, lower, upper):
        assert same(changed, mail())


@each_row("chain_id", [5, "no number", None])
def test_a_chain_outside_of_the_domains_type_is_ignored(chain_id: Any) -> None:
    kinds = [member for member in DOMAIN_TYPE if member["name"] != "chainId"]
    without = {name: value for name, value in domain().items() if name != "chainId"}

    typed_data = read_typed_data(with_domain(kinds, domain() | {"chainId": chain_id}))

    assert typed_data.chain_id is None
    assert typed_data.domain == without
    assert typed_data.digest == read_typed_data(with_domain(kinds, without)).digest


def test_only_types_that_the_primary_type_refers_to_are_signed() -> None:
    assert list(signed_part(group_mail())["types"]) == ["EIP712Domain", "Person", "Mail"]
    assert list(signed_part(group_mail() | {"primaryType": "EIP712Domain"})["types"]) == ["EIP712Domain"]


def test_the_signed_part_has_a_domain_type_that_follows_from_the_members() -> None:
    given = with_domain(None, {"chainId": 1, "name": "Ether Mail", "more": 1})

    signed = signed_part(given)

    assert signed["types"]["EIP712Domain"] == members("string name, uint256 chainId")
    assert signed["domain"] == {"chainId": 1, "name": "Ether Mail"}
    assert same(signed, given)


def test_a_name_with_colons_may_have_no_references() -> None:
    given = mail()
    given["types"] = {"App:Withdraw": members("address to, uint64 amount")}
    given |= {"primaryType": "App:Withdraw", "message": {"to": BOB, "amount": 5}}

    type_hash = keccak256(b"App:Withdraw(address to,uint64 amount)")
    words = bytes(12) + bytes.fromhex(BOB[2:]) + (5).to_bytes(32)

    assert read_typed_data(given).preimage[34:] == keccak256(type_hash + words)


def test_names_of_structs_may_begin_like_names_of_types() -> None:
    types = {"boolean": members("bool ok"), "uint8Range": members("uint8 low"), "integer": members("int8 i")}

    for name, value in (("boolean", {"ok": True}), ("uint8Range", {"low": 1}), ("integer", {"i": -1})):
        assert read_typed_data(one_value(name, value, **types))


def test_types_that_all_refer_to_each_other_are_spelled_quickly() -> None:
    names = [f"T{number}" for number in range(30)]
    types = {name: members(", ".join(f"{other}[] m{other}" for other in names)) for name in names}
    empty: dict[str, list[Any]] = {f"m{name}": [] for name in names}

    assert read_typed_data(one_value("T0", empty, **types))


def test_values_decide_how_long_hashing_takes_not_the_types() -> None:
    """Fifty arrays of a type with fifty arrays of a type, and so on: as long as there are few values."""
    chain = {
        f"L{level}": members(", ".join(f"L{level + 1}[] m{n}" for n in range(50))) for level in range(20)
    }
    empty: dict[str, list[Any]] = {f"m{number}": [] for number in range(50)}

    assert read_typed_data(one_value("L0", empty, **chain, L20=[]))


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
        inner = [(each["name"], each["type"], leads_back(each["type"], kind, types)) for each in types[kind]]
    elif isinstance(value, list):
        inner = [(place, kind[: kind.rindex("[")], False) for place in range(len(value))]
    for step, inner_kind, nullable in inner:
        yield Place((*steps, step), inner_kind, nullable)
        yield from places((*steps, step), inner_kind, value[step], types)


def leads_back(kind: str, struct: str, types: Types) -> bool:
    """Whether a type has the struct in it, so that null can end the circle."""
    found: set[str] = set()
    open_kinds = [kind] if kind in types else []
    while open_kinds:
        cores = {each["type"].split("[")[0] for each in types[open_kinds.pop()]} & types.keys()
        open_kinds += cores - found
        found |= cores
    return struct in found


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


@given(st.sampled_from(VECTORS), st.data())
def test_a_change_of_typed_data_is_refused_at_its_place_or_not_signed(
    vector: dict[str, Any], choice: st.DataObject
) -> None:
    with_one_member_less_it_is_refused(deepcopy(vector["typed_data"]), choice)
    with_one_value_of_another_type_it_is_refused(deepcopy(vector["typed_data"]), choice)
    one_member_more_is_not_signed(deepcopy(vector["typed_data"]), choice)


def with_one_member_less_it_is_refused(data: dict[str, Any], choice: st.DataObject) -> None:
    named = [place for place in all_places(data) if isinstance(place.steps[-1], str)]
    place = choice.draw(st.sampled_from(named))

    del value_at(data, place.steps[:-1])[place.steps[-1]]

    assert_refused_at(place.path, data)


def one_member_more_is_not_signed(data: dict[str, Any], choice: st.DataObject) -> None:
    before, digest = signed_part(data), read_typed_data(data).digest
    structs = [place for place in all_places(data) if isinstance(value_at(data, place.steps), dict)]
    place = choice.draw(st.sampled_from(structs))

    value_at(data, place.steps)["more"] = choice.draw(st.none() | st.booleans() | st.text(max_size=5))

    assert signed_part(data) == before
    assert read_typed_data(before).digest == read_typed_data(data).digest == digest


def with_one_value_of_another_type_it_is_refused(data: dict[str, Any], choice: st.DataObject) -> None:
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
