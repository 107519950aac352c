"""JSON-RPC 2.0 (https://www.jsonrpc.org/specification): request objects in, response objects out. A number
that is an id is answered as it was spelled, which no parser keeps (1e2, 100.0 and 100 are one value, and
1e400 is beyond every float): a client may look an answer up by the text that it sent.
"""

import re
from collections.abc import Iterable
from typing import Any, Final, NamedTuple, TypeAlias

import orjson

from bridge_server.kernel.errors import InvalidInputError
from bridge_server.kernel.values import dataclass
from bridge_server.web.bodies import STRING, NotJsonError, TooLargeNumberError, parse_value

_SPACE = rb"[ \t\n\r]*+"
_NUMBER = rb"-?+(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][+-]?+[0-9]++)?+"

# A member "id" with a number; a string; what opens, closes or separates.
_TOKEN = re.compile(
    rb'"id"' + _SPACE + b":" + _SPACE + b"(" + _NUMBER + rb")(?=[ \t\n\r,}])|" + STRING + b"|[][{},]",
    re.DOTALL,
)
_BATCH = re.compile(_SPACE + rb"\[")

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603

MOST_CALLS = 100
"""The most requests in one batch."""
MOST_VALUES = 65_536
"""Members and elements in a body: enough for a full batch of large typed data."""

_NO_ID = b"null"
_EXAMPLE = '{"jsonrpc":"2.0","id":1,"method":"eth_accounts","params":[]}'


class RpcError(NamedTuple):
    """An error object. `data` is sent if it `has_data`, since null is data, too."""

    code: int
    message: str
    data: Any = None
    has_data: bool = False


@dataclass(slots=True)
class MethodCall:
    """A request object. `id_text` is the JSON of its id as it was sent; a notification has none."""

    method: str
    params: list[Any] | dict[str, Any] | None
    id_text: bytes | None


@dataclass(slots=True)
class Unreadable:
    """An element that is not a request object, and the error that answers it."""

    error: RpcError
    id_text: bytes = _NO_ID


Request: TypeAlias = MethodCall | Unreadable


def read_requests(body: bytes) -> Request | list[Request]:
    """The request in a body, or the requests of a batch in their order. A faulty body is Unreadable."""
    try:
        document, numbers = _parse(body)
    except NotJsonError as error:
        return Unreadable(RpcError(PARSE_ERROR, error.detail))
    except InvalidInputError as error:
        return _invalid(error.detail)
    if not isinstance(document, list):
        return _request(document, numbers.get(0))
    if not document:
        return _invalid("The batch is empty.")
    if len(document) > MOST_CALLS:
        return _invalid(f"The batch has {len(document)} calls, and at most {MOST_CALLS} may be in one.")
    return [_request(element, numbers.get(place)) for place, element in enumerate(document)]


def write_result(id_text: bytes, result: Any) -> bytes:
    """The response object of a call that succeeded; `result` is any JSON value, or an orjson.Fragment."""
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (id_text, orjson.dumps(result))


def write_error(id_text: bytes, error: RpcError) -> bytes:
    """The response object of a call that failed."""
    members = {"code": error.code, "message": error.message}
    if error.has_data:
        members["data"] = error.data
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (id_text, orjson.dumps(members))


def write_batch(responses: Iterable[bytes]) -> bytes:
    """The answer to a batch."""
    return b"[%b]" % b",".join(responses)


def _parse(body: bytes) -> tuple[Any, dict[int, bytes]]:
    """The document, and by the places of its requests those ids whose text is not known from their value."""
    try:
        document = parse_value(body, "The body", MOST_VALUES)
    except TooLargeNumberError:
        numbers, plain = _number_ids(body)
        return parse_value(plain, "The body", MOST_VALUES), numbers
    for request in document if isinstance(document, list) else (document,):
        sent = request.get("id") if isinstance(request, dict) else None
        if type(sent) is float or (sent == 0 and b"-0" in body):
            return document, _number_ids(body)[0]
    return document, {}


def _number_ids(body: bytes) -> tuple[dict[int, bytes], bytes]:
    """The numbers that are ids, by the place of their request; and the body with 0 in their stead. A text
    that is not JSON stays as it is. The time that it takes grows with the body's length alone.
    """
    is_batch = _BATCH.match(body) is not None
    texts: dict[int, bytes] = {}
    parts: list[bytes] = []
    depth = place = end = 0
    for token in _TOKEN.finditer(body):
        text = token[0]
        if text in b"{[":
            depth += 1
        elif text in b"}]":
            depth -= 1
        elif text == b",":
            place += is_batch and depth == 1
        elif token[1] is not None and depth == 1 + is_batch:
            texts[place] = token[1]
            parts += (body[end : token.start(1)], b"0")
            end = token.end()
    return texts, b"".join((*parts, body[end:]))


def _request(document: Any, id_text: bytes | None) -> Request:
    """Read a request whose id has this text; None to spell the id from its value."""
    if not isinstance(document, dict):
        return _invalid(f"A request must be an object, such as {_EXAMPLE}, or an array of them.")
    if "id" in document:
        id_text = id_text or _id_text(document["id"])
        if id_text is None:
            return _invalid("id must be a string, a number or null.")
    method, params = document.get("method"), document.get("params")
    if document.get("jsonrpc") != "2.0":
        return _invalid('jsonrpc must be "2.0".', id_text)
    if not isinstance(method, str):
        return _invalid("method must be a string, the name of a method.", id_text)
    if not isinstance(params, list | dict) and "params" in document:
        return _invalid("params must be an array, or for the node's methods an object.", id_text)
    return MethodCall(method, params, id_text)


def _id_text(sent: Any) -> bytes | None:
    """The JSON of an id; None for a value that must not be one."""
    if type(sent) is int:
        return b"%d" % sent  # however large
    return orjson.dumps(sent) if sent is None or type(sent) in (str, float) else None


def _invalid(message: str, id_text: bytes | None = None) -> Unreadable:
    return Unreadable(RpcError(INVALID_REQUEST, message), id_text or _NO_ID)


def summary(sent: bytes, answered: bytes) -> str:
    """The methods of a body and the errors of its answer in a few words, for the record of requests."""
    calls, answers = _listed(orjson.loads(sent)), _listed(orjson.loads(answered or b"[]"))
    methods = [str(call["method"]) for call in calls]
    errors = [each["error"] for each in answers if "error" in each]
    return " · ".join([*methods, *(f"{each['code']} {each['message']}" for each in errors)])


def _listed(document: Any) -> list[Any]:
    return document if isinstance(document, list) else [document]
