"""Typed data as wallets sign it (EIP-712), read strictly: every signed value is understood.

Where the proposal leaves cases open (https://eips.ethereum.org/EIPS/eip-712), verifiers differ: short bytes,
text for bytes, absent members. All of these are refused, with the path of the faulty part. Decided here:

- Without EIP712Domain in `types` it follows from the domain's members, in the proposal's order, as ethers,
  viem and eth-account have it. (MetaMask would sign an empty domain, which none of them verifies.)
- With the primary type EIP712Domain only the domain is signed, as by MetaMask and viem: the preimage ends
  after it, and `message` is not looked at.
- Members that no type names are not signed, and ignored, as by every wallet (`signed_part` leaves them out).
- null stands for no struct only where a type leads back to itself; everywhere else it is refused.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import orjson

from bridge_server.ethereum.keccak import keccak256
from bridge_server.ethereum.typed_data_encoders import struct_encoders
from bridge_server.ethereum.typed_data_errors import MemberError, shown
from bridge_server.ethereum.typed_data_types import DOMAIN_TYPE, domain_type_of, read_types
from bridge_server.ethereum.typed_data_words import WORD_ENCODERS, Encoder

MAX_TYPES_BYTES = 32_768
MAX_DOMAIN_BYTES = 4_096
MAX_VALUES = 8_192
"""Members and elements in all of a message."""
MAX_DEPTH = 64

_VERSION = b"\x19\x01"  # EIP-191: structured data
_MEMBERS = ("types", "primaryType", "domain", "message")
_CACHED_TYPES = 128
_CACHED_DOMAINS = 256


class TypedDataError(ValueError):
    """Typed data that cannot be signed; the text begins with the path of the part at fault."""


@dataclass(frozen=True, slots=True)
class TypedData:
    """Typed data that was read, with its preimage and hash."""

    primary_type: str
    domain: Mapping[str, Any]
    """The members that are signed."""
    preimage: bytes
    """0x1901, the domain's hash and the message's: 66 bytes, or 34 if the primary type is EIP712Domain."""
    digest: bytes
    """Keccak-256 of the preimage: the hash to sign."""

    @property
    def chain_id(self) -> int | None:
        """The chain that the domain is bound to, if it names one."""
        chain_id = self.domain.get("chainId")
        return None if chain_id is None else int.from_bytes(WORD_ENCODERS["uint256"](chain_id))


def read_typed_data(value: object) -> TypedData:
    """Read typed data and hash it. Raises TypedDataError.

    `value` is an object as a JSON parser returns it, with the members types, primaryType, domain and message.
    Integers are numbers, or strings with decimal digits or with 0x and hexadecimal ones; bytes and addresses
    are strings with 0x.
    """
    try:
        return _read(value)
    except MemberError as fault:
        raise TypedDataError(str(fault)) from None


def _read(value: object) -> TypedData:
    types, primary_type, domain, message = _parts(value)
    types_json = _json_of("types", types, MAX_TYPES_BYTES)
    structs = _structs(types_json)
    if type(primary_type) is not str or primary_type not in structs:
        raise MemberError(f"must name one of the types, and is {shown(primary_type)}", "primaryType")
    domain_hash, names = _domain(types_json, _json_of("domain", domain, MAX_DOMAIN_BYTES))
    preimage = _VERSION + domain_hash
    if primary_type != DOMAIN_TYPE:
        preimage += _message_hash(structs[primary_type], message)
    return TypedData(primary_type, {name: domain[name] for name in names}, preimage, keccak256(preimage))


def _parts(value: object) -> tuple[Any, ...]:
    if type(value) is not dict:
        raise MemberError(f"typed data must be an object with {', '.join(_MEMBERS)}, and is {shown(value)}")
    if value.get("primaryType") == DOMAIN_TYPE:
        value = {"message": {}, **value}
    for name in _MEMBERS:
        if name not in value:
            raise MemberError(f"is missing: typed data has {', '.join(_MEMBERS)}", name)
    return tuple(value[name] for name in _MEMBERS)


def _json_of(name: str, value: object, max_bytes: int) -> bytes:
    """The value's canonical text, which is the key of cached results for it."""
    try:
        text = orjson.dumps(value)
    except TypeError as error:
        raise MemberError(f"must be JSON: {error}", name) from None
    if len(text) > max_bytes:
        raise MemberError(f"must be shorter: it takes {len(text)} bytes, of at most {max_bytes}", name)
    return text


@lru_cache(_CACHED_TYPES)
def _structs(types_json: bytes) -> Mapping[str, Encoder]:
    try:
        return struct_encoders(read_types(orjson.loads(types_json)))
    except MemberError as fault:
        raise fault.inside("types") from None


@lru_cache(_CACHED_DOMAINS)
def _domain(types_json: bytes, domain_json: bytes) -> tuple[bytes, Sequence[str]]:
    """The domain's hash, and the names of its members; a dapp's domain comes again with every request."""
    domain = orjson.loads(domain_json)
    try:
        if type(domain) is not dict:
            raise MemberError(f"must be an object, and is {shown(domain)}")
        members = read_types(orjson.loads(types_json)).get(DOMAIN_TYPE, domain_type_of(domain))
        encode = struct_encoders({DOMAIN_TYPE: members})[DOMAIN_TYPE]
        return encode(domain), [member.name for member in members]
    except MemberError as fault:
        raise fault.inside("domain") from None


def _message_hash(encode: Encoder, message: object) -> bytes:
    try:
        _require_bounded(message)
        return encode(message)
    except MemberError as fault:
        raise fault.inside("message") from None


def _require_bounded(message: object) -> None:
    """Refuse values so deep that they exhaust the stack, or so many that hashing delays other requests."""
    if _is_small(message):
        return
    depth = count = 0
    containers = [message]
    while containers:
        values = [value for container in containers for value in _values_of(container)]
        depth, count = depth + 1, count + len(values)
        if depth > MAX_DEPTH or count > MAX_VALUES:
            raise MemberError(
                f"must have at most {MAX_VALUES} members and elements, in at most {MAX_DEPTH} levels"
            )
        containers = [value for value in values if isinstance(value, dict | list)]


def _is_small(message: object) -> bool:
    """Whether brackets and commas in its text are too few for too many values or too many levels."""
    try:
        text = orjson.dumps(message)
    except TypeError:  # of another parser: too deep for orjson, or with a value that an encoder will refuse
        return False
    containers = text.count(b"{") + text.count(b"[")
    return containers <= MAX_DEPTH and containers + text.count(b",") <= MAX_VALUES


def _values_of(container: object) -> Iterable[object]:
    if isinstance(container, dict):
        return container.values()
    return container if isinstance(container, list) else ()
