"""Any types and any values of them, in every spelling that a wallet must understand."""

from random import Random
from typing import Any

from eth_utils import to_checksum_address  # type: ignore[import-not-found]

STRUCTS = ("Zebra", "Person", "Order", "Asset", "item_2", "Mail", "Bid", "Amount", "permit", "Leaf")
NAMES = (
    *("from", "to", "wallet", "amount", "data", "kind", "value", "id", "name", "note", "is_open", "deadline"),
    *("owner", "spender", "nonce", "items", "hash", "memo2", "_x", "A", "camelCase", "hasOwnProperty"),
)
TEXTS = (
    "",
    "Hello, Bob!",
    "0x1234",
    "line\nbreak",
    "Zürich",
    "日本語",
    "👩‍👩‍👧",
    '"quoted" \\ text',
    "\x00",
    " a ",
)
DOMAIN_TYPES = {
    "name": "string",
    "version": "string",
    "chainId": "uint256",
    "verifyingContract": "address",
    "salt": "bytes32",
}
MAX_JSON_INTEGER = 2**53 - 1

Types = dict[str, list[dict[str, str]]]


def any_typed_data(chance: Random) -> dict[str, Any]:
    """Up to six structs, each used by one before it, and a message of the first."""
    types = any_types(chance)
    primary_type = next(iter(types))
    domain = any_domain(chance)
    domain_type = [{"name": name, "type": DOMAIN_TYPES[name]} for name in domain]
    return {
        "types": {"EIP712Domain": domain_type, **types},
        "primaryType": primary_type,
        "domain": domain,
        "message": any_struct(chance, types, primary_type),
    }


def any_types(chance: Random) -> Types:
    """The structs as types; the first is the primary type."""
    structs = chance.sample(STRUCTS, chance.randrange(1, 7))
    members: dict[str, list[str]] = {name: [] for name in structs}
    for position, name in enumerate(structs):
        if position:
            members[chance.choice(structs[:position])].append(with_arrays(chance, name))
        members[name] += [with_arrays(chance, atomic_type(chance)) for _ in range(chance.randrange(1, 6))]
    for kinds in members.values():
        chance.shuffle(kinds)
    return {
        name: [
            {"name": member, "type": kind}
            for member, kind in zip(chance.sample(NAMES, len(kinds)), kinds, strict=True)
        ]
        for name, kinds in members.items()
    }


def atomic_type(chance: Random) -> str:
    """Integers and bytes of any width as often as all others."""
    return chance.choice(
        (
            f"uint{8 * chance.randrange(1, 33)}",
            f"int{8 * chance.randrange(1, 33)}",
            f"bytes{chance.randrange(1, 33)}",
            chance.choice(("string", "bytes", "bool", "address", "uint256", "bytes32")),
        )
    )


def with_arrays(chance: Random, kind: str) -> str:
    """Perhaps an array, perhaps an array of arrays."""
    while chance.random() < 0.25 and kind.count("[") < 3:
        kind += chance.choice(("[]", "[]", f"[{chance.randrange(1, 4)}]"))
    return kind


def any_domain(chance: Random) -> dict[str, Any]:
    """One to five of the domain's members, in the standard's order."""
    names = set(chance.sample(list(DOMAIN_TYPES), chance.randrange(1, 6)))
    return {name: any_value(chance, {}, kind) for name, kind in DOMAIN_TYPES.items() if name in names}


def any_struct(chance: Random, types: Types, name: str) -> dict[str, Any]:
    """A value of a struct; its members in any order."""
    members = types[name].copy()
    chance.shuffle(members)
    return {member["name"]: any_value(chance, types, member["type"]) for member in members}


def any_value(chance: Random, types: Types, kind: str) -> Any:
    """A value of any type, as JSON has it."""
    if kind.endswith("]"):
        element, _, length = kind[:-1].rpartition("[")
        return [any_value(chance, types, element) for _ in range(int(length or chance.randrange(4)))]
    if kind in types:
        return any_struct(chance, types, kind)
    return any_atom(chance, kind)


def any_atom(chance: Random, kind: str) -> Any:
    """A value that is neither a struct nor an array."""
    if kind == "string":
        return chance.choice(TEXTS) * chance.choice((1, 1, 1, 7))
    if kind == "bool":
        return chance.random() < 0.5
    if kind == "address":
        return any_address(chance)
    if kind.startswith("bytes"):
        size = int(kind[5:] or chance.choice((0, 1, 31, 32, 33, 100)))
        return f"0x{chance.randbytes(size).hex()}"
    bits = int(kind.lstrip("uint"))
    low, high = (0, 2**bits - 1) if kind.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return spelled_number(chance, chance.choice((low, high, 0, 1, chance.randint(low, high))))


def any_address(chance: Random) -> str:
    """An address in lower case or with its checksum."""
    address = f"0x{chance.randbytes(20).hex()}"
    return chance.choice((address, str(to_checksum_address(address))))


def spelled_number(chance: Random, number: int) -> int | str:
    """An integer as a number if JSON can represent it, as decimal text, or as hexadecimal if not negative."""
    spellings: list[int | str] = [str(number)]
    if abs(number) <= MAX_JSON_INTEGER:
        spellings.append(number)
    if number >= 0:
        spellings.append(hex(number))
    return chance.choice(spellings)
