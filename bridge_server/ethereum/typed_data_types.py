"""Typed data (EIP-712): the struct types that it brings along, read strictly, and how each is spelled."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from bridge_server.ethereum.typed_data_errors import MemberError, shown
from bridge_server.ethereum.typed_data_words import WORD_ENCODERS

DOMAIN_TYPE = "EIP712Domain"
DOMAIN_MEMBERS: Mapping[str, str] = {
    "name": "string",
    "version": "string",
    "chainId": "uint256",
    "verifyingContract": "address",
    "salt": "bytes32",
}

MAX_TYPES = 128

_IDENTIFIER = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")

# An identifier, or several with colons between: applications in use name their types `Space:Type`.
_TYPE_NAME = re.compile(rf"{_IDENTIFIER.pattern}(?::{_IDENTIFIER.pattern})*")

# MetaMask and viem see references only from and to names without $ and colons.
_NAME_WITH_REFERENCES = re.compile(r"[A-Za-z0-9_]+")

# A type's name, then its arrays' lengths: `[]`, `[2]`, `[2][]`.
_MEMBER_TYPE = re.compile(rf"({_TYPE_NAME.pattern})((?:\[(?:[1-9][0-9]{{0,5}})?\]){{0,16}})")
_LENGTH = re.compile(r"\[([0-9]*)\]")

# Names that are reserved for types of EIP-712, also missing ones such as bytes33.
_RESERVED = re.compile(r"bool|address|string|function|u?int[0-9]*|bytes[0-9]*|u?fixed([0-9]+x[0-9]+)?")


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a struct. Its type is `core`, or arrays of it: `lengths` from inside out, None for any."""

    name: str
    type: str
    core: str
    lengths: tuple[int | None, ...] = ()


StructTypes: TypeAlias = Mapping[str, tuple[Member, ...]]
"""The members of each struct type, by its name; the core of each is one of these types or has a word."""


def read_types(value: object) -> StructTypes:
    """Read the member `types`. Raises MemberError.

    Unused types are allowed: a type is spelled only with the types to which it refers.
    """
    if type(value) is not dict:
        raise MemberError(
            f"must be an object: the members of each struct type by its name, not {shown(value)}"
        )
    if len(value) > MAX_TYPES:
        raise MemberError(f"must have at most {MAX_TYPES} types, and has {len(value)}")
    for name in value:
        _require_type_name(name)
    types = {name: _members(name, members, value.keys()) for name, members in value.items()}
    if DOMAIN_TYPE in types:
        _require_domain_type(types[DOMAIN_TYPE])
    return types


def domain_type_of(names: Iterable[str]) -> tuple[Member, ...]:
    """The members of the domain type that a domain with these members has. Other members have no type."""
    return tuple(Member(name, kind, kind) for name, kind in DOMAIN_MEMBERS.items() if name in names)


def references(types: StructTypes) -> dict[str, frozenset[str]]:
    """The struct types to which each type refers, directly or through others; itself if it is recursive."""
    direct = {
        name: [member.core for member in members if member.core in types] for name, members in types.items()
    }
    return {name: _reached_from(name, direct) for name in types}


def encode_type(name: str, referenced: Iterable[str], types: StructTypes) -> str:
    """Spell a type (EIP-712, `encodeType`): itself, then the types it refers to in alphabetical order."""
    names = [name, *sorted(other for other in referenced if other != name)]
    return "".join(
        f"{name}({','.join(f'{member.type} {member.name}' for member in types[name])})" for name in names
    )


def _reached_from(name: str, direct: Mapping[str, list[str]]) -> frozenset[str]:
    reached: set[str] = set()
    waiting = [name]
    while waiting:
        new = set(direct[waiting.pop()]) - reached
        reached |= new
        waiting += new
    return frozenset(reached)


def _require_type_name(name: str) -> None:
    if not _TYPE_NAME.fullmatch(name):
        raise MemberError("is no name for a type: use letters, digits, _ and $, and no digit first", name)
    if _RESERVED.fullmatch(name):
        raise MemberError("is the name of a type that is no struct: choose another", name)


def _members(struct: str, value: object, structs: Iterable[str]) -> tuple[Member, ...]:
    if type(value) is not list:
        raise MemberError(
            f"must be an array of members, each with a name and a type, not {shown(value)}", struct
        )
    members: dict[str, Member] = {}
    for place, item in enumerate(value):
        try:
            member = _member(item, structs)
            _require_visible_reference(struct, member.core)
        except MemberError as fault:
            raise fault.inside(place).inside(struct) from None
        if member.name in members:
            raise MemberError(
                f"must differ from the others' names: {struct} has {member.name} twice", struct, place, "name"
            )
        members[member.name] = member
    return tuple(members.values())


def _member(value: object, structs: Iterable[str]) -> Member:
    if type(value) is not dict or not value.keys() >= {"name", "type"}:
        raise MemberError('must be a member such as {"name": "to", "type": "address"}')
    name, spelled = value["name"], value["type"]
    if type(name) is not str or not _IDENTIFIER.fullmatch(name):
        raise MemberError(
            f"must be a name of letters, digits, _ and $, and no digit first, not {shown(name)}", "name"
        )
    match = _MEMBER_TYPE.fullmatch(spelled) if type(spelled) is str else None
    if match is None:
        raise MemberError(
            f"must be a type such as uint256, Person or Person[2][], not {shown(spelled)}", "type"
        )
    core, lengths = match.groups()
    _require_known(core, structs)
    return Member(
        name, spelled, core, tuple(int(length) if length else None for length in _LENGTH.findall(lengths))
    )


def _require_known(core: str, structs: Iterable[str]) -> None:
    if core not in WORD_ENCODERS and core not in structs:
        raise MemberError(f"must be a type of EIP-712 or one in types, and {shown(core)} is neither", "type")


def _require_visible_reference(struct: str, core: str) -> None:
    """A reference that some verifiers overlook would make them spell, and hash, the type differently."""
    if core in WORD_ENCODERS or all(map(_NAME_WITH_REFERENCES.fullmatch, (struct, core))):
        return
    raise MemberError(
        f"must not refer from {struct} to {core}: one of these names has a $ or a colon", "type"
    )


def _require_domain_type(members: tuple[Member, ...]) -> None:
    """EIP-712 knows five members, lets them be in any order, and asks for no private ones."""
    for place, member in enumerate(members):
        if DOMAIN_MEMBERS.get(member.name) != member.type:
            known = ", ".join(f"{kind} {name}" for name, kind in DOMAIN_MEMBERS.items())
            raise MemberError(f"must be one of a domain's members: {known}", DOMAIN_TYPE, place)
