"""Request bodies: strict JSON, shapes checked by pydantic, opaque values."""

import asyncio
import json
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, TypeVar

import orjson
from aiohttp import hdrs, web
from pydantic import BaseModel, ConfigDict, ValidationError, WithJsonSchema

from bridge_server.kernel.errors import Fault, InvalidInputError, UnsupportedMediaError
from bridge_server.kernel.json_texts import DuplicateNameError, member_texts, unique_members, why_not_json
from bridge_server.kernel.values import dataclass
from bridge_server.web.aiohttp_internals import body_of

MAX_DEPTH = 64
MAX_VALUES = 4_096
"""Members and elements in all. The protocol's largest body has some 500."""

_GIVEN_UP = ("depth limit exceeded", "failed to allocate memory")
"""The beginnings of orjson's errors for a text that is nested too deep for it."""
_BEYOND_FLOATS = "number is infinity"
"""The beginning of orjson's error for a number such as 1e400."""
STRING = rb'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)'
"""The pattern of a string of JSON. It matches a string without an end, too: else each of its quotation marks
would begin a search to the end of the text.
"""
_STRING_OR_NUMBER = re.compile(
    rb"(" + STRING + rb")|-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?", re.DOTALL
)

_Read = TypeVar("_Read")

WEB_URL = WithJsonSchema({"type": "string", "format": "uri", "pattern": "^[Hh][Tt][Tt][Pp][Ss]?://"})
"""The schema of a URL that `http_url` checks, in the server's description."""

_PLACES_NAMED = 10
_CONTAINERS = frozenset((dict, list))
_KINDS_OF_JSON = {list: "an array", str: "a string", bool: "a boolean", type(None): "null"}


@dataclass(frozen=True, slots=True)
class JsonObject:
    """A JSON object: its values, and the text of each as the sender wrote it (UTF-8). Without texts, the
    sender wrote it just as orjson writes its values.
    """

    values: dict[str, Any]
    texts: dict[str, bytes] | None

    def text(self, name: str) -> bytes:
        """The text of one member. Raises KeyError."""
        return orjson.dumps(self.values[name]) if self.texts is None else self.texts[name]


class NotJsonError(InvalidInputError):
    """The text is no JSON at all."""


class TooLargeNumberError(NotJsonError):
    """The text has a number that no float can hold. What follows it was not read."""


async def json_object(request: web.Request, *, is_labelled: bool = True) -> JsonObject:
    """The body of a request as a JSON object. Raises UnsupportedMediaError, InvalidInputError. Unless it
    `is_labelled`, its Content-Type does not matter.
    """
    require_json(request, is_labelled=is_labelled)
    return parse_object(await request.read())


def require_json(request: web.Request, *, is_declared: bool = False, is_labelled: bool = True) -> None:
    """Raise UnsupportedMediaError for a body with a Content-Encoding, or with a Content-Type other than JSON.
    A missing one passes unless `is_declared`; any passes unless `is_labelled`: fetch sends text/plain.
    """
    headers = request.headers
    if hdrs.CONTENT_ENCODING in headers:
        raise UnsupportedMediaError("Send the body as it is, without a Content-Encoding.")
    content_type = headers.get(hdrs.CONTENT_TYPE)
    if not content_type and is_declared:
        raise UnsupportedMediaError("Say 'Content-Type: application/json'.")
    if is_labelled and content_type is not None and content_type != "application/json":
        kind = request.content_type
        if kind != "application/json" and not kind.endswith("+json"):
            raise UnsupportedMediaError(f"Send the body as application/json, not as {content_type[:255]!r}.")


def parse_object(body: bytes, *, is_opaque: bool = False) -> JsonObject:
    """Parse a body. Raises InvalidInputError, which names the fault and its place. An opaque body is stored
    as it is: it may have any number of values, and numbers of any size, of which only the texts are exact.
    """
    values = _load(_load_with_any_number if is_opaque else orjson.loads, body, "The body")
    if not isinstance(values, dict):
        kind = _KINDS_OF_JSON.get(type(values), "a number")
        raise InvalidInputError(f"The body must be a JSON object, not {kind}.")
    _check_size(body, values, None if is_opaque else MAX_VALUES, "The body")
    if orjson.dumps(values) == body:  # as browsers write it; such a body has no second reading
        return JsonObject(values, None)
    return JsonObject(values, _read_again(_member_texts, body, "The body"))


def parse_value(text: bytes, what: str, most_values: int) -> Any:
    """Parse any JSON document; `what` it is begins the sentence of the InvalidInputError it may raise, which
    is a NotJsonError if the text is not JSON. Integers are exact; numbers with a fraction or an exponent are
    floats.
    """
    value = _load(orjson.loads, text, what)
    _check_size(text, value, most_values, what)
    if orjson.dumps(value) == text:  # it has no second reading, nor an integer that became a float
        return value
    return _read_again(_decode_exactly, text, what)


def _load(load: Callable[[bytes], Any], text: bytes, what: str) -> Any:
    try:
        return load(text)
    except orjson.JSONDecodeError as error:
        if error.msg.startswith(_GIVEN_UP):
            raise _too_deep(what) from error
        if error.msg.startswith(_BEYOND_FLOATS):
            raise TooLargeNumberError(f"{what} has a number that is too large.") from error
        why = f"is not JSON: {why_not_json(str(error))}" if text else "is empty; send JSON"
        raise NotJsonError(f"{what} {why}.") from error


def _load_with_any_number(body: bytes) -> Any:
    """The values in a body, with 0 for each number if one of them is beyond the range of a float."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        if not error.msg.startswith(_BEYOND_FLOATS):
            raise
    return orjson.loads(_STRING_OR_NUMBER.sub(lambda found: found[0] if found[1] else b"0", body))


def _check_size(text: bytes, document: Any, most_values: int | None, what: str) -> None:
    """Refuse a document that is too deep, or has so many values that reading them keeps others waiting."""
    if (most_values is None or len(text) <= 2 * most_values) and _is_shallow(document):
        return  # judged by its few members: counting takes three passes over the text
    is_flat = text.count(b"{") + text.count(b"[") <= MAX_DEPTH
    if is_flat and (most_values is None or text.count(b",") < most_values):
        return
    depth = count = 0
    level = [value for value in (document,) if isinstance(value, dict | list)]
    while level:
        depth += 1
        count += sum(map(len, level))
        if depth > MAX_DEPTH:
            raise _too_deep(what)
        if most_values is not None and count > most_values:
            raise InvalidInputError(f"{what} has more than {most_values} values.")
        inner = [value for item in level for value in (item.values() if isinstance(item, dict) else item)]
        level = [value for value in inner if isinstance(value, dict | list)]


def _is_shallow(document: Any) -> bool:
    """Whether it is an object of few members with no object or array in theirs: so it is two levels deep."""
    if type(document) is not dict or len(document) > MAX_DEPTH:
        return False
    for member in document.values():
        kind = type(member)
        if kind is dict:
            member = member.values()
        elif kind is not list:
            continue
        if not _CONTAINERS.isdisjoint(map(type, member)):
            return False
    return True


def _too_deep(what: str) -> InvalidInputError:
    return InvalidInputError(f"{what} is nested deeper than {MAX_DEPTH} levels.")


def _read_again(read: Callable[[str], _Read], text: bytes, what: str) -> _Read:
    """Read a valid document with Python's own parser, which is slower and sees more."""
    try:
        return read(text.decode())
    except DuplicateNameError as error:
        raise InvalidInputError(f"{what} has an object with the name {error} twice.") from error
    except RecursionError as error:  # in a member that a later member of its name hid
        raise _too_deep(what) from error
    except ValueError as error:
        raise InvalidInputError(f"{what} has a number that cannot be represented: {error}.") from error


_decode_exactly: Callable[[str], Any] = json.JSONDecoder(object_pairs_hook=unique_members).decode


def _member_texts(text: str) -> dict[str, bytes]:
    return {name: member.encode() for name, member in member_texts(text, are_unique=True).items()}


class Shape(BaseModel):
    """A body as the protocol spells it. Types are strict; unknown fields are ignored."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True, defer_build=True)


AnyShape = TypeVar("AnyShape", bound=Shape)


def check(
    shape: type[AnyShape], values: dict[str, Any], found: Sequence[Fault] = (), *, may_misspell: bool = False
) -> AnyShape:
    """Return the values in that shape; raise InvalidInputError with every fault, also the ones in `found`. An
    unknown member that spells a known one otherwise is a fault, as A asks, unless a body `may_misspell`.
    """
    faults = [] if may_misspell else misspelled(shape, values)
    faults += found
    try:
        checked = shape.model_validate(values)
    except ValidationError as error:
        faults += map(_fault, error.errors())
    if faults:
        places = ", ".join(fault.pointer for fault in faults[:_PLACES_NAMED])
        if len(faults) > _PLACES_NAMED:
            places += f" and {len(faults) - _PLACES_NAMED} more"
        raise InvalidInputError(f"The body has faults at {places}.", faults)
    return checked


def misspelled(shape: type[Shape], values: Any, place: str = "#") -> list[Fault]:
    """Unknown members that differ from a known one only in case and punctuation, as typing errors do."""
    if not isinstance(values, dict):
        return []
    names, inner = _names_of(shape)
    faults = [
        Fault(f"{place}/{_escaped(name)}", f"is not known: write {names[_letters(name)]}")
        for name in values
        if name not in names.values() and _letters(name) in names
    ]
    for name, kind in inner.items():
        faults += misspelled(kind, values.get(name), f"{place}/{name}")
    return faults


@lru_cache(maxsize=64)
def _names_of(shape: type[Shape]) -> tuple[dict[str, str], dict[str, type[Shape]]]:
    """The members of a shape by their letters; and by their names those that have a shape of their own."""
    kinds = {name: field.annotation for name, field in shape.model_fields.items()}
    inner = {name: kind for name, kind in kinds.items() if isinstance(kind, type) and issubclass(kind, Shape)}
    return {_letters(name): name for name in kinds}, inner


def _letters(name: str) -> str:
    return "".join(filter(str.isalnum, name)).casefold()


def _fault(error: Any) -> Fault:
    """A fault that pydantic found; its pointer is a URI fragment (RFC 6901, section 6)."""
    pointer = "#" + "".join(f"/{_escaped(str(step))}" for step in error["loc"])
    if error["type"] == "model_type":  # pydantic's own text names the class of the shape
        return Fault(pointer, "must be an object")
    return Fault(pointer, error["msg"].removeprefix("Value error, "))


def _escaped(step: str) -> str:
    return step.replace("~", "~0").replace("/", "~1")


class OpaqueBodies:
    """Reads bodies that are mostly stored as they are; large ones in turn, beside the event loop."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    def at_once(self, request: web.Request) -> JsonObject | None:
        """As `json_object`, without waiting; None unless the body has come and is no long work."""
        body = body_of(request)
        if body is None or _is_long_work(body):
            return None
        require_json(request)
        return parse_object(body, is_opaque=True)

    async def json_object(self, request: web.Request) -> JsonObject:
        """The body of a request as a JSON object. Raises UnsupportedMediaError, InvalidInputError."""
        require_json(request)
        body = await request.read()
        if not _is_long_work(body):
            return parse_object(body, is_opaque=True)
        async with self._turn:
            return await asyncio.to_thread(parse_object, body, is_opaque=True)


def _is_long_work(body: bytes) -> bool:
    """Whether the body may have so many values that checking them would delay other requests."""
    return len(body) > MAX_VALUES and sum(map(body.count, (b",", b"[", b"{"))) > MAX_VALUES
