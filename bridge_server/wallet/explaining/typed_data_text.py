"""Typed data (EIP-712) for a person's eyes: a tree of every member with its type and value, and permits."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from bridge_server.ethereum.address import checksummed
from bridge_server.ethereum.typed_data_types import DOMAIN_TYPE, StructTypes, read_types
from bridge_server.wallet.explaining.amounts import instant, is_unlimited
from bridge_server.wallet.explaining.visible_text import visible

Document: TypeAlias = Mapping[str, Any]
"""The signed part of typed data, as JSON."""

_INDENT = "  "
_TIMES = {"deadline", "sigDeadline", "expiry", "expiration", "validTo", "validAfter", "validBefore"}
_TIMES |= {"startTime", "endTime"}


def domain_lines(document: Document) -> list[str]:
    """The domain as a tree, a line for each member."""
    return list(_members(read_types(document["types"]), DOMAIN_TYPE, document["domain"], ""))


def message_lines(document: Document) -> list[str]:
    """The message as a tree, a line for each member and element."""
    primary_type = document["primaryType"]
    if primary_type == DOMAIN_TYPE:
        return ["(nothing but the domain)"]
    return list(_members(read_types(document["types"]), primary_type, document["message"], ""))


def permits(document: Document) -> list[str]:
    """The spender and the amount of a token's permit, a line for each token; nothing for other messages.

    Permits are defined by EIP-2612, by DAI, and by Permit2 for a single token or several.
    """
    message = document["message"]
    if "permit" not in document["primaryType"].lower() or not isinstance(message.get("spender"), str):
        return []
    parts = message.get("details", message.get("permitted", message))
    entries = [part for part in (parts if isinstance(parts, list) else [parts]) if isinstance(part, dict)]
    spender = visible(message["spender"])
    return [f"{spender} can take {_allowance(document, entry)}" for entry in entries]


def _allowance(document: Document, entry: Document) -> str:
    token = visible(str(entry.get("token", document["domain"].get("verifyingContract", "?"))))
    if "allowed" in entry:
        return f"UNLIMITED of the token {token}" if entry["allowed"] else f"no more of the token {token}"
    amount = _number(entry.get("amount", entry.get("value")))
    if amount is None:
        return f"of the token {token}: see the message"
    return f"{'UNLIMITED' if is_unlimited(amount) else amount} of the token {token}"


def _members(types: StructTypes, struct: str, value: Document, indent: str) -> Iterator[str]:
    for member in types[struct]:
        yield from _value(types, member.name, member.type, value[member.name], indent)


def _value(types: StructTypes, name: str, kind: str, value: Any, indent: str) -> Iterator[str]:
    """The lines of one value. `name` is its member's, or its number in an array."""
    head = f"{indent}{visible(name)} ({kind})"
    if value is None:
        yield f"{head}: nothing"
    elif isinstance(value, list):
        yield f"{head}: {len(value)} of them" if value else f"{head}: none"
        for number, element in enumerate(value):
            yield from _value(types, str(number), kind[: kind.rindex("[")], element, indent + _INDENT)
    elif isinstance(value, dict):
        yield head
        yield from _members(types, kind, value, indent + _INDENT)
    else:
        yield f"{head}: {_atom(name, kind, value)}"


def _atom(name: str, kind: str, value: Any) -> str:
    if kind == "string":
        return visible(json.dumps(value, ensure_ascii=False))
    if kind == "bool":
        return "true" if value else "false"
    if kind == "address":
        return checksummed(value.lower())
    if kind.startswith("bytes"):
        return visible(value)
    number = _number(value)
    if number is None:
        return visible(str(value))
    return instant(number) if name in _TIMES else str(number)


def _number(value: Any) -> int | None:
    """An integer in any of its spellings."""
    try:
        return int(value, 16 if value.startswith("0x") else 10) if isinstance(value, str) else int(value)
    except (ValueError, TypeError):
        return None
