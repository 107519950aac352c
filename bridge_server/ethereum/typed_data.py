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

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, Self, TypeAlias

import orjson

from bridge_server.ethereum.address import HexError, address_of, data_of
from bridge_server.ethereum.keccak import keccak256

_SHOWN_CHARACTERS = 60
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_$:]{1,60}")

_WORD_BYTES = 32
_ZERO_WORD = bytes(_WORD_BYTES)
_ONE_WORD = (1).to_bytes(_WORD_BYTES)
_WORD_MASK = (1 << 8 * _WORD_BYTES) - 1  # turns a negative number into its two's complement
_CACHED_ADDRESSES = 4_096

_NUMBER = re.compile(r"-?[0-9]{1,78}|0x[0-9a-fA-F]{1,64}")  # 78 digits have 2**256

_BITS = range(8, 257, 8)
_USUAL_BITS = 256

DOMAIN_TYPE = "EIP712Domain"
_DOMAIN_MEMBERS: Mapping[str, str] = {
    "name": "string",
    "version": "string",
    "chainId": "uint256",
    "verifyingContract": "address",
    "salt": "bytes32",
}

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

MAX_TYPES = 128
_MAX_TYPES_BYTES = 32_768
_MAX_DOMAIN_BYTES = 4_096
MAX_VALUES = 8_192  # members and elements in all of a message
MAX_DEPTH = 64

_VERSION = b"\x19\x01"  # EIP-191: structured data
_MEMBERS = ("types", "primaryType", "domain", "message")
_CACHED_TYPES = 128
_CACHED_DOMAINS = 256

_Encoder: TypeAlias = Callable[[Any], bytes]
"""Makes the word of a value, as parsed from JSON. Raises _MemberError for a value of another type."""


class TypedDataError(ValueError):
    """Typed data that cannot be signed; the text begins with the path of the part at fault."""


class TypedData(NamedTuple):
    """Typed data that was read, with its preimage and hash."""

    primary_type: str
    domain: Mapping[str, Any]  # the members that are signed
    preimage: bytes
    """0x1901, the domain's hash and the message's: 66 bytes, or 34 if the primary type is EIP712Domain."""
    digest: bytes  # Keccak-256 of the preimage: the hash to sign

    @property
    def chain_id(self) -> int | None:
        """The chain that the domain is bound to, if it names one."""
        chain_id = self.domain.get("chainId")
        return None if chain_id is None else int.from_bytes(_WORD_ENCODERS["uint256"](chain_id))


def read_typed_data(value: object) -> TypedData:
    """Read typed data and hash it. Raises TypedDataError. `value` is an object as a JSON parser returns it,
    with the members types, primaryType, domain and message. Integers are numbers, or strings with decimal
    digits or with 0x and hexadecimal ones; bytes and addresses are strings with 0x.
    """
    try:
        return _read(value)
    except _MemberError as fault:
        raise TypedDataError(str(fault)) from None


def _read(value: object) -> TypedData:
    types, primary_type, domain, message = _parts(value)
    types_json = _json_of("types", types, _MAX_TYPES_BYTES)
    structs = _structs(types_json)
    if type(primary_type) is not str or primary_type not in structs:
        raise _MemberError(f"must name one of the types, and is {shown(primary_type)}", "primaryType")
    domain_hash, names = _domain(types_json, _json_of("domain", domain, _MAX_DOMAIN_BYTES))
    preimage = _VERSION + domain_hash
    if primary_type != DOMAIN_TYPE:
        try:
            _require_bounded(message)
            preimage += structs[primary_type](message)
        except _MemberError as fault:
            raise fault.inside("message") from None
    return TypedData(primary_type, {name: domain[name] for name in names}, preimage, keccak256(preimage))


def _parts(value: object) -> tuple[Any, ...]:
    if type(value) is not dict:
        raise _MemberError(f"typed data must be an object with {', '.join(_MEMBERS)}, and is {shown(value)}")
    if value.get("primaryType") == DOMAIN_TYPE:
        value = {"message": {}, **value}
    for name in _MEMBERS:
        if name not in value:
            raise _MemberError(f"is missing: typed data has {', '.join(_MEMBERS)}", name)
    return tuple(value[name] for name in _MEMBERS)


def _json_of(name: str, value: object, max_bytes: int) -> bytes:
    """The value's canonical text, which is the key of cached results for it."""
    try:
        text = orjson.dumps(value)
    except TypeError as error:
        raise _MemberError(f"must be JSON: {error}", name) from None
    if len(text) > max_bytes:
        raise _MemberError(f"must be shorter: it takes {len(text)} bytes, of at most {max_bytes}", name)
    return text


@lru_cache(_CACHED_TYPES)
def _structs(types_json: bytes) -> Mapping[str, _Encoder]:
    try:
        return _struct_encoders(read_types(orjson.loads(types_json)))
    except _MemberError as fault:
        raise fault.inside("types") from None


@lru_cache(_CACHED_DOMAINS)
def _domain(types_json: bytes, domain_json: bytes) -> tuple[bytes, Sequence[str]]:
    """The domain's hash, and the names of its members; a dapp's domain comes again with every request."""
    domain = orjson.loads(domain_json)
    try:
        if type(domain) is not dict:
            raise _MemberError(f"must be an object, and is {shown(domain)}")
        members = read_types(orjson.loads(types_json)).get(DOMAIN_TYPE, _domain_type_of(domain))
        encode = _struct_encoders({DOMAIN_TYPE: members})[DOMAIN_TYPE]
        return encode(domain), [member.name for member in members]
    except _MemberError as fault:
        raise fault.inside("domain") from None


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
            raise _MemberError(
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


# Faults, and their paths.
#
# An error is raised where only the value is known. The containers around it add their steps to the path while
# the error passes them, so that data without faults pays nothing for paths.

_Step: TypeAlias = str | int  # a member's name, or an element's place in its array


class _MemberError(ValueError):
    """A member or element breaks a rule; the text begins with its path, such as `message.to[2].wallet`."""

    def __init__(self, detail: str, *path: _Step) -> None:
        super().__init__(detail)
        self._detail, self._path = detail, path

    def inside(self, step: _Step) -> Self:
        """Put the step to the value in front of the path, and return this error."""
        self._path = (step, *self._path)
        return self

    def __str__(self) -> str:
        path = "".join(map(_spelled_step, self._path)).removeprefix(".")
        return f"{path} {self._detail}".lstrip()


def shown(value: object) -> str:
    """A value as an error shows it: always short."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return f"an array of {len(value)}"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    text = f"'{value}'" if isinstance(value, str) else str(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"


def _spelled_step(step: _Step) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    return f".{step}" if _PLAIN_NAME.fullmatch(step) else f"[{shown(step)}]"


# The word of 32 bytes that stands for a value, for all types but structs and arrays.
#
# For each type, only spellings are accepted that all verifiers read alike. So a bool is no number, bytes are
# never padded, and text is not taken for bytes.


def _bool(value: object) -> bytes:
    if value is True:
        return _ONE_WORD
    if value is False:
        return _ZERO_WORD
    raise _MemberError(f"must be a bool, true or false, and is {shown(value)}")


def _string(value: object) -> bytes:
    if type(value) is not str:
        raise _MemberError(f"must be a string, and is {shown(value)}")
    try:
        return keccak256(value.encode())
    except UnicodeEncodeError:
        raise _MemberError(
            "must be a string, and has half of a surrogate pair, which UTF-8 cannot spell"
        ) from None


def _fixed_bytes(size: int) -> _Encoder:
    padding = bytes(_WORD_BYTES - size)
    return lambda value: _data_of(value, size) + padding


def _data_of(value: object, size: int | None = None) -> bytes:
    try:
        return data_of(value, size)
    except HexError as error:
        raise _MemberError(str(error)) from None


def _address(value: object) -> bytes:
    text = value if isinstance(value, str) else ""  # no address either, but a key for the cache
    try:
        return _address_word(text)
    except HexError as error:
        raise _MemberError(str(error)) from None


@lru_cache(_CACHED_ADDRESSES)
def _address_word(text: str) -> bytes:
    """A few addresses come again and again: their checksums are verified once."""
    return bytes.fromhex(address_of(text)[2:]).rjust(_WORD_BYTES, b"\0")


def _integer(name: str, lowest: int, highest: int, limits: str) -> _Encoder:
    def encode(value: Any) -> bytes:
        number = value if type(value) is int else _number_of(value, name)
        if not lowest <= number <= highest:
            raise _MemberError(f"must be of type {name}, {limits}, and is {shown(value)}")
        return (number & _WORD_MASK).to_bytes(_WORD_BYTES)

    return encode


def _number_of(value: object, name: str) -> int:
    if type(value) is float:
        raise _MemberError(
            f"must be of type {name}, and is {value}, a number with a fraction or of more than 64 bits: "
            "write an integer, a large one as a string"
        )
    if type(value) is not str or not _NUMBER.fullmatch(value):
        raise _MemberError(
            f"must be of type {name}: an integer, or a string with its decimal digits or with 0x and its "
            f"hexadecimal ones, not {shown(value)}"
        )
    return int(value, 16 if value.startswith("0x") else 10)


def _unsigned(bits: int) -> _Encoder:
    return _integer(f"uint{bits}", 0, (1 << bits) - 1, f"from 0 to 2^{bits} - 1")


def _signed(bits: int) -> _Encoder:
    half = 1 << bits - 1
    return _integer(f"int{bits}", -half, half - 1, f"from -2^{bits - 1} to 2^{bits - 1} - 1")


_WORD_ENCODERS: Mapping[str, _Encoder] = {
    "bool": _bool,
    "address": _address,
    "string": _string,
    "bytes": lambda value: keccak256(_data_of(value)),
    **{f"bytes{size}": _fixed_bytes(size) for size in range(1, _WORD_BYTES + 1)},
    **{f"uint{bits}": _unsigned(bits) for bits in _BITS},
    **{f"int{bits}": _signed(bits) for bits in _BITS},
    "uint": _unsigned(_USUAL_BITS),
    "int": _signed(_USUAL_BITS),
}
"""The encoders by type. EIP-712 knows no fixed-point numbers and no functions. `uint`, `int` are not in it:
wallets and verifiers take them for 256 bits, and spell them in the type's hash as they came."""


# The struct types that typed data brings along, read strictly, and how each is spelled.


class _Member(NamedTuple):
    """A member of a struct. Its type is `core`, or arrays of it: `lengths` from inside out, None for any."""

    name: str
    type: str
    core: str
    lengths: tuple[int | None, ...] = ()


StructTypes: TypeAlias = Mapping[str, tuple[_Member, ...]]
"""The members of each struct type, by its name; the core of each is one of these types or has a word."""


def read_types(value: object) -> StructTypes:
    """Read the member `types`; unused ones are allowed, and are not spelled. Raises _MemberError."""
    if type(value) is not dict:
        raise _MemberError(
            f"must be an object: the members of each struct type by its name, not {shown(value)}"
        )
    if len(value) > MAX_TYPES:
        raise _MemberError(f"must have at most {MAX_TYPES} types, and has {len(value)}")
    for name in value:
        if not _TYPE_NAME.fullmatch(name):
            raise _MemberError(
                "is no name for a type: use letters, digits, _ and $, and no digit first", name
            )
        if _RESERVED.fullmatch(name):
            raise _MemberError("is the name of a type that is no struct: choose another", name)
    types = {name: _members(name, members, value.keys()) for name, members in value.items()}
    if DOMAIN_TYPE in types:
        _require_domain_type(types[DOMAIN_TYPE])
    return types


def _domain_type_of(names: Iterable[str]) -> tuple[_Member, ...]:
    """The members of the domain type that a domain with these members has. Other members have no type."""
    return tuple(_Member(name, kind, kind) for name, kind in _DOMAIN_MEMBERS.items() if name in names)


def references(types: StructTypes) -> dict[str, frozenset[str]]:
    """The struct types to which each type refers, directly or through others; itself if it is recursive."""
    direct = {name: [each.core for each in members if each.core in types] for name, members in types.items()}
    return {name: _reached_from(name, direct) for name in types}


def encode_type(name: str, referenced: Iterable[str], types: StructTypes) -> str:
    """Spell a type (EIP-712, `encodeType`): itself, then the types it refers to in alphabetical order."""
    names = [name, *sorted(other for other in referenced if other != name)]
    spelled = {each: ",".join(f"{member.type} {member.name}" for member in types[each]) for each in names}
    return "".join(f"{each}({members})" for each, members in spelled.items())


def _reached_from(name: str, direct: Mapping[str, list[str]]) -> frozenset[str]:
    reached: set[str] = set()
    waiting = [name]
    while waiting:
        new = set(direct[waiting.pop()]) - reached
        reached |= new
        waiting += new
    return frozenset(reached)


def _members(struct: str, value: object, structs: Iterable[str]) -> tuple[_Member, ...]:
    if type(value) is not list:
        raise _MemberError(
            f"must be an array of members, each with a name and a type, not {shown(value)}", struct
        )
    members: dict[str, _Member] = {}
    for place, item in enumerate(value):
        try:
            member = _member(item, structs)
            _require_visible_reference(struct, member.core)
        except _MemberError as fault:
            raise fault.inside(place).inside(struct) from None
        if member.name in members:
            raise _MemberError(
                f"must differ from the others' names: {struct} has {member.name} twice", struct, place, "name"
            )
        members[member.name] = member
    return tuple(members.values())


def _member(value: object, structs: Iterable[str]) -> _Member:
    if type(value) is not dict or not value.keys() >= {"name", "type"}:
        raise _MemberError('must be a member such as {"name": "to", "type": "address"}')
    name, spelled = value["name"], value["type"]
    if type(name) is not str or not _IDENTIFIER.fullmatch(name):
        raise _MemberError(
            f"must be a name of letters, digits, _ and $, and no digit first, not {shown(name)}", "name"
        )
    match = _MEMBER_TYPE.fullmatch(spelled) if type(spelled) is str else None
    if match is None:
        raise _MemberError(
            f"must be a type such as uint256, Person or Person[2][], not {shown(spelled)}", "type"
        )
    core, lengths = match.groups()
    if core not in _WORD_ENCODERS and core not in structs:
        raise _MemberError(f"must be a type of EIP-712 or one in types, and {shown(core)} is neither", "type")
    bounds = tuple(int(length) if length else None for length in _LENGTH.findall(lengths))
    return _Member(name, spelled, core, bounds)


def _require_visible_reference(struct: str, core: str) -> None:
    """A reference that some verifiers overlook would make them spell, and hash, the type differently."""
    if core in _WORD_ENCODERS or all(map(_NAME_WITH_REFERENCES.fullmatch, (struct, core))):
        return
    raise _MemberError(
        f"must not refer from {struct} to {core}: one of these names has a $ or a colon", "type"
    )


def _require_domain_type(members: tuple[_Member, ...]) -> None:
    """EIP-712 knows five members, lets them be in any order, and asks for no private ones."""
    for place, member in enumerate(members):
        if _DOMAIN_MEMBERS.get(member.name) != member.type:
            known = ", ".join(f"{kind} {name}" for name, kind in _DOMAIN_MEMBERS.items())
            raise _MemberError(f"must be one of a domain's members: {known}", DOMAIN_TYPE, place)


# Encoders for arrays and structs, made once for a set of types.


def _struct_encoders(types: StructTypes) -> Mapping[str, _Encoder]:
    """The encoder of each struct type to its hash (EIP-712, `hashStruct`). Unnamed members are not signed."""
    referenced = references(types)
    members: dict[str, list[tuple[str, _Encoder]]] = {name: [] for name in types}
    structs = {
        name: _struct_encoder(name, encode_type(name, referenced[name], types), members[name])
        for name in types
    }
    encoders = {**_WORD_ENCODERS, **structs}
    for name in types:  # after all structs: types may refer to each other in circles
        for member in types[name]:
            encode = encoders[member.core]
            for length in member.lengths:
                encode = _array_encoder(encode, length)
            if not member.lengths and name in referenced.get(member.core, ()):
                encode = _or_null(encode)
            members[name].append((member.name, encode))
    return structs


def _struct_encoder(struct: str, spelled_type: str, members: Sequence[tuple[str, _Encoder]]) -> _Encoder:
    type_hash = keccak256(spelled_type.encode())

    def encode(value: object) -> bytes:
        if type(value) is not dict:
            raise _MemberError(f"must be an object of type {struct}, and is {shown(value)}")
        words = [type_hash]
        name = ""
        try:
            for name, encode_member in members:
                words.append(encode_member(value[name]))
        except KeyError:
            raise _MemberError(f"is missing: {struct} has this member", name) from None
        except _MemberError as fault:
            raise fault.inside(name) from None
        return keccak256(b"".join(words))

    return encode


def _array_encoder(encode_element: _Encoder, length: int | None) -> _Encoder:
    def encode(value: object) -> bytes:
        if type(value) is not list:
            raise _MemberError(f"must be an array, and is {shown(value)}")
        if length is not None and len(value) != length:
            raise _MemberError(f"must be an array of {length}, and has {len(value)}")
        words: list[bytes] = []
        try:
            words.extend(map(encode_element, value))  # keeps the words made before a fault
        except _MemberError as fault:
            raise fault.inside(len(words)) from None
        return keccak256(b"".join(words))

    return encode


def _or_null(encode: _Encoder) -> _Encoder:
    """A type that leads back to itself needs an end: there null stands for no struct, and its word is zero.
    EIP-712 is silent; MetaMask and eth-account do so. Nowhere else can null be signed.
    """
    return lambda value: _ZERO_WORD if value is None else encode(value)


# The part of typed data that is signed, without the members that no type names.


def signed_part(document: Mapping[str, Any]) -> dict[str, Any]:
    """A copy without the unsigned parts, and with the same hash. `read_typed_data` has accepted the original.
    Its types are the domain's, and all to which the primary type refers.
    """
    types, primary_type, domain = read_types(document["types"]), document["primaryType"], document["domain"]
    types = {DOMAIN_TYPE: _domain_type_of(domain), **types}
    used = references(types)[primary_type] | {DOMAIN_TYPE, primary_type}
    message = {} if primary_type == DOMAIN_TYPE else _struct(types, primary_type, document["message"])
    spelled = {
        name: [{"name": member.name, "type": member.type} for member in members]
        for name, members in types.items()
        if name in used
    }
    return {
        "types": spelled,
        "primaryType": primary_type,
        "domain": _struct(types, DOMAIN_TYPE, domain),
        "message": message,
    }


def _struct(types: StructTypes, name: str, value: Mapping[str, Any]) -> dict[str, Any]:
    return {member.name: _value(types, member, value[member.name]) for member in types[name]}


def _value(types: StructTypes, member: _Member, value: Any) -> Any:
    if isinstance(value, list):
        return [_value(types, member, element) for element in value]
    return _struct(types, member.core, value) if isinstance(value, dict) else value
