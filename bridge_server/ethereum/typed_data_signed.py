"""Typed data (EIP-712): the part of it that is signed, without the members that no type names."""

from collections.abc import Mapping
from typing import Any

from bridge_server.ethereum.typed_data_types import (
    DOMAIN_TYPE,
    Member,
    StructTypes,
    domain_type_of,
    read_types,
    references,
)


def signed_part(document: Mapping[str, Any]) -> dict[str, Any]:
    """A copy without the unsigned parts, and with the same hash. `read_typed_data` has accepted the original.

    Its types are the domain's, and all to which the primary type refers.
    """
    types, primary_type, domain = read_types(document["types"]), document["primaryType"], document["domain"]
    types = {DOMAIN_TYPE: domain_type_of(domain), **types}
    used = references(types)[primary_type] | {DOMAIN_TYPE, primary_type}
    message = {} if primary_type == DOMAIN_TYPE else _struct(types, primary_type, document["message"])
    return {
        "types": {name: _spelled(members) for name, members in types.items() if name in used},
        "primaryType": primary_type,
        "domain": _struct(types, DOMAIN_TYPE, domain),
        "message": message,
    }


def _spelled(members: tuple[Member, ...]) -> list[dict[str, str]]:
    return [{"name": member.name, "type": member.type} for member in members]


def _struct(types: StructTypes, name: str, value: Mapping[str, Any]) -> dict[str, Any]:
    return {member.name: _value(types, member, value[member.name]) for member in types[name]}


def _value(types: StructTypes, member: Member, value: Any) -> Any:
    if isinstance(value, list):
        return [_value(types, member, element) for element in value]
    return _struct(types, member.core, value) if isinstance(value, dict) else value
