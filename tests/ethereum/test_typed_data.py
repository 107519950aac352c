"""Typed data: published examples, an independent implementation's, any types, and open cases."""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge_server.ethereum.keccak import keccak256
from bridge_server.ethereum.signing_key import recover_address
from bridge_server.ethereum.typed_data import TypedDataError, read_typed_data, signed_part
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
    with_domain,
)
from tests.ethereum.vectors import key_of, raw_bytes, vectors
from tests.support.rows import each_row

VECTORS = [each for each in vectors("typed_data.json") if "EIP712Domain" in each["typed_data"]["types"]]
# One of them is wrong for each type, whatever it is.
WRONG_VALUES: list[Any] = [None, True, 0.5, "0xzz", [0.5], {"": 0}]


def digest_of(given: dict[str, Any]) -> bytes:
    return read_typed_data(given).digest


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
def test_examples_are_as_published(example: dict[str, Any], digest: str, signature: str, signer: str) -> None:
    typed_data = read_typed_data(example)

    assert typed_data.digest.hex() == digest
    assert recover_address(typed_data.digest, bytes.fromhex(signature)) == signer


def test_the_preimage_has_the_published_hashes_and_typed_data_is_kept_beside_it() -> None:
    typed_data = read_typed_data(mail())

    of_the_domain = "f2cee375fa42b42143804025fc449deafd50cc031ca257e0b194a650a912090f"
    of_the_message = "c52c0ee5d84264471806290a3f2c4cecfc5490626bf912d01f240d7a274b371e"
    assert typed_data.preimage.hex() == f"1901{of_the_domain}{of_the_message}"
    assert (typed_data.primary_type, typed_data.domain, typed_data.chain_id) == ("Mail", domain(), 1)
    assert read_typed_data(with_domain(None, {"name": "Ether Mail"})).chain_id is None


def test_with_the_primary_type_eip712domain_only_the_domain_is_signed() -> None:
    given: dict[str, Any] = {"types": {"EIP712Domain": []}, "primaryType": "EIP712Domain", "domain": {}}
    messages: list[dict[str, Any]] = [{}, {"message": {}}, {"message": {"amount": 1}}, {"message": None}]
    for rest in messages:
        typed_data = read_typed_data({**given, **rest})
        assert typed_data.preimage == b"\x19\x01" + keccak256(keccak256(b"EIP712Domain()"))
        assert typed_data.digest.hex() == "8d4a3f4082945b7879e2b55f181c31a77c8c0a464b70669458abbaaf99de4c38"


def test_an_independent_implementation_signs_the_same() -> None:
    for vector in vectors("typed_data.json"):
        digest = digest_of(vector["typed_data"])
        assert digest == raw_bytes(vector["digest"]), vector["name"]
        assert key_of(vector).sign(digest) == raw_bytes(vector["signature"]), vector["name"]


def test_the_chain_of_a_domain_is_read_in_every_spelling_if_the_domains_type_has_it() -> None:
    for chain_id in (1, "1", "0x1", "0x0001"):
        typed_data = read_typed_data(mail() | {"domain": domain() | {"chainId": chain_id}})
        assert (typed_data.chain_id, typed_data.digest) == (1, digest_of(mail())), chain_id

    kinds = [member for member in DOMAIN_TYPE if member["name"] != "chainId"]
    without = {name: value for name, value in domain().items() if name != "chainId"}
    for other in (5, "no number", None):
        typed_data = read_typed_data(with_domain(kinds, domain() | {"chainId": other}))
        assert (typed_data.chain_id, typed_data.domain) == (None, without), other
        assert typed_data.digest == digest_of(with_domain(kinds, without)), other


def test_unused_types_orders_and_the_case_of_addresses_change_nothing_but_the_order_of_members_does() -> None:
    more, turned, lower, upper = mail(), mail(), mail(), mail()
    more["types"]["Unused"] = members("Mail mail, Unused[] more")
    turned["types"] = dict(reversed(turned["types"].items()))
    turned["message"] = dict(reversed(turned["message"].items()))
    lower["message"]["to"]["wallet"] = BOB.lower()
    upper["message"]["to"]["wallet"] = f"0x{BOB[2:].upper()}"

    for changed in (more, turned, lower, upper):
        assert digest_of(changed) == digest_of(mail())
    assert digest_of(with_domain(DOMAIN_TYPE[::-1], domain())) != digest_of(mail())


def test_the_signed_part_has_types_that_the_primary_type_refers_to_and_a_domain_type() -> None:
    assert list(signed_part(group_mail())["types"]) == ["EIP712Domain", "Person", "Mail"]
    assert list(signed_part(group_mail() | {"primaryType": "EIP712Domain"})["types"]) == ["EIP712Domain"]

    given = with_domain(None, {"chainId": 1, "name": "Ether Mail", "more": 1})
    signed = signed_part(given)
    assert signed["types"]["EIP712Domain"] == members("string name, uint256 chainId")
    assert signed["domain"] == {"chainId": 1, "name": "Ether Mail"}
    assert digest_of(signed) == digest_of(given)


def test_names_of_structs_may_have_colons_without_references_or_begin_like_names_of_types() -> None:
    given = mail()
    given["types"] = {"App:Withdraw": members("address to, uint64 amount")}
    given |= {"primaryType": "App:Withdraw", "message": {"to": BOB, "amount": 5}}
    type_hash = keccak256(b"App:Withdraw(address to,uint64 amount)")
    words = bytes(12) + bytes.fromhex(BOB[2:]) + (5).to_bytes(32)
    assert read_typed_data(given).preimage[34:] == keccak256(type_hash + words)

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
    numbers = range(50)
    chain = {f"L{n}": members(", ".join(f"L{n + 1}[] m{number}" for number in numbers)) for n in range(20)}
    empty: dict[str, list[Any]] = {f"m{number}": [] for number in numbers}

    assert read_typed_data(one_value("L0", empty, **chain, L20=[]))


Steps: TypeAlias = tuple[str | int, ...]


@dataclass(frozen=True)
class Place:
    """Where a value is: `steps` lead from the typed data to it."""

    steps: Steps
    kind: str
    nullable: bool = False

    @property
    def path(self) -> str:
        spelled = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.steps)
        return "".join(spelled).removeprefix(".")


def places(place: Place, value: Any, types: Types) -> Iterator[Place]:
    """The place of a value and of everything in it."""
    yield place
    kind, steps = place.kind, place.steps
    if isinstance(value, dict):
        for each in types[kind]:
            inner = Place((*steps, each["name"]), each["type"], leads_back(each["type"], kind, types))
            yield from places(inner, value[each["name"]], types)
    elif isinstance(value, list):
        for number, element in enumerate(value):
            yield from places(Place((*steps, number), kind[: kind.rindex("[")]), element, types)


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
    roots = [Place((name,), kind) for name, kind in kinds.items()]
    return [place for root in roots for place in places(root, value_at(data, root.steps), data["types"])]


def value_at(data: Any, steps: Steps) -> Any:
    for step in steps:
        data = data[step]
    return data


def assert_refused_at(path: str, data: dict[str, Any]) -> None:
    with pytest.raises(TypedDataError) as caught:
        read_typed_data(data)
    assert str(caught.value).startswith((f"{path} ", f"{path}.", f"{path}["))


@given(st.sampled_from(VECTORS), st.data())
def test_a_change_is_refused_at_its_place(vector: dict[str, Any], choice: st.DataObject) -> None:
    data = deepcopy(vector["typed_data"])
    named = [each for each in all_places(data) if isinstance(each.steps[-1], str)]
    place = choice.draw(st.sampled_from(named))
    del value_at(data, place.steps[:-1])[place.steps[-1]]
    assert_refused_at(place.path, data)

    data = deepcopy(vector["typed_data"])
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


@given(st.sampled_from(VECTORS), st.data())
def test_one_member_more_is_not_signed(vector: dict[str, Any], choice: st.DataObject) -> None:
    data = deepcopy(vector["typed_data"])
    before, digest = signed_part(data), digest_of(data)
    structs = [place for place in all_places(data) if isinstance(value_at(data, place.steps), dict)]
    steps = choice.draw(st.sampled_from(structs)).steps

    value_at(data, steps)["more"] = choice.draw(st.none() | st.booleans() | st.text(max_size=5))

    assert signed_part(data) == before
    assert digest_of(before) == digest_of(data) == digest
