"""Typed data (EIP-712): encoders for arrays and structs, made once for a set of types."""

from collections.abc import Mapping, Sequence

from bridge_server.ethereum.keccak import keccak256
from bridge_server.ethereum.typed_data_errors import MemberError, shown
from bridge_server.ethereum.typed_data_types import Member, StructTypes, encode_type, references
from bridge_server.ethereum.typed_data_words import WORD_ENCODERS, ZERO_WORD, Encoder


def struct_encoders(types: StructTypes) -> Mapping[str, Encoder]:
    """The encoder of each struct type from an object to its hash (EIP-712, `hashStruct`).

    Members that the type does not name are not looked at: they are not signed.
    """
    referenced = references(types)
    members: dict[str, list[tuple[str, Encoder]]] = {name: [] for name in types}
    structs = {
        name: _struct_encoder(name, encode_type(name, referenced[name], types), members[name])
        for name in types
    }
    encoders = {**WORD_ENCODERS, **structs}
    for name in types:  # after all structs: types may refer to each other in circles
        for member in types[name]:
            encode = _member_encoder(member, encoders)
            if not member.lengths and name in referenced.get(member.core, ()):
                encode = _or_null(encode)
            members[name].append((member.name, encode))
    return structs


def _struct_encoder(struct: str, spelled_type: str, members: Sequence[tuple[str, Encoder]]) -> Encoder:
    type_hash = keccak256(spelled_type.encode())

    def encode(value: object) -> bytes:
        if type(value) is not dict:
            raise MemberError(f"must be an object of type {struct}, and is {shown(value)}")
        words = [type_hash]
        name = ""
        try:
            for name, encode_member in members:
                words.append(encode_member(value[name]))
        except KeyError:
            raise MemberError(f"is missing: {struct} has this member", name) from None
        except MemberError as fault:
            raise fault.inside(name) from None
        return keccak256(b"".join(words))

    return encode


def _member_encoder(member: Member, encoders: Mapping[str, Encoder]) -> Encoder:
    encode = encoders[member.core]
    for length in member.lengths:
        encode = _array_encoder(encode, length)
    return encode


def _array_encoder(encode_element: Encoder, length: int | None) -> Encoder:
    def encode(value: object) -> bytes:
        if type(value) is not list:
            raise MemberError(f"must be an array, and is {shown(value)}")
        if length is not None and len(value) != length:
            raise MemberError(f"must be an array of {length}, and has {len(value)}")
        words: list[bytes] = []
        try:
            words.extend(map(encode_element, value))  # keeps the words made before a fault
        except MemberError as fault:
            raise fault.inside(len(words)) from None
        return keccak256(b"".join(words))

    return encode


def _or_null(encode: Encoder) -> Encoder:
    """A type that leads back to itself needs an end: there null stands for no struct, and its word is zero.

    EIP-712 is silent; MetaMask and eth-account do so. Nowhere else can null be signed.
    """
    return lambda value: ZERO_WORD if value is None else encode(value)
