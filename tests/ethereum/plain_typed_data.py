"""EIP-712 in its own words: the encoding of typed data that is known to be in order, slowly and plainly."""

from typing import Any, TypeAlias

from bridge_server.ethereum.keccak import keccak256

Types: TypeAlias = dict[str, list[dict[str, str]]]


def preimage(typed_data: dict[str, Any]) -> bytes:
    """0x1901, the domain's hash, the message's hash."""
    types, primary_type = typed_data["types"], typed_data["primaryType"]
    return (
        b"\x19\x01"
        + hash_struct("EIP712Domain", typed_data["domain"], types)
        + hash_struct(primary_type, typed_data["message"], types)
    )


def hash_struct(name: str, value: dict[str, Any], types: Types) -> bytes:
    words = [word(member["type"], value[member["name"]], types) for member in types[name]]
    return keccak256(keccak256(encode_type(name, types).encode()) + b"".join(words))


def encode_type(name: str, types: Types) -> str:
    return "".join(
        f"{struct}({','.join(member['type'] + ' ' + member['name'] for member in types[struct])})"
        for struct in [name, *sorted(referenced(name, types) - {name})]
    )


def referenced(name: str, types: Types) -> set[str]:
    """The structs that a struct has, that these have, and so on."""
    found: set[str] = set()

    def visit(struct: str) -> None:
        for member in types[struct]:
            core = member["type"].split("[")[0]
            if core in types and core not in found:
                found.add(core)
                visit(core)

    visit(name)
    return found


def word(kind: str, value: Any, types: Types) -> bytes:
    if kind.endswith("]"):
        element_kind = kind[: kind.rindex("[")]
        return keccak256(b"".join(word(element_kind, element, types) for element in value))
    if kind in types:
        return bytes(32) if value is None else hash_struct(kind, value, types)
    if kind == "string":
        return keccak256(value.encode())
    if kind == "bytes":
        return keccak256(bytes.fromhex(value[2:]))
    if kind.startswith("bytes"):
        return bytes.fromhex(value[2:]).ljust(32, b"\0")
    if kind == "address":
        return bytes.fromhex(value[2:]).rjust(32, b"\0")
    number = int(value, 0) if isinstance(value, str) else int(value)
    return (number % 2**256).to_bytes(32)
