"""JSON-RPC frames of generation 2.x: requests and confirmations in, answers and messages out."""

import hashlib
import re
from collections.abc import Sequence

import orjson

from bridge_server.kernel.errors import BridgeError, LimitError, TooLargeError, UnavailableError
from bridge_server.pubsub.irn.errors import (
    InvalidCallError,
    TimeToLiveError,
    TooManySubscriptionsError,
)
from bridge_server.pubsub.irn.models import (
    ClientKey,
    ClientRequest,
    Confirmation,
    Publication,
    SubscriptionAnswer,
    WaitingMessage,
)
from bridge_server.pubsub.irn.tokens import DID_PREFIX
from bridge_server.pubsub.queues.errors import FrameNotJsonError, InvalidFrameError, QueueFullError
from bridge_server.topics.models import Topic

_NO_ID = b"null"
_MOST_DIGITS = 20
_LARGEST_ID = 2**64 - 1

_MESSAGE = b'{"id":%d,"jsonrpc":"2.0","method":"irn_subscription","params":{"id":"%b","data":%b}}'
_CONFIRMED = re.compile(rb'\{"id":([1-9][0-9]{0,15}),"jsonrpc":"2\.0","result":true\}')
_LONGEST_CONFIRMED = 60
_RESULT = b'{"id":%b,"jsonrpc":"2.0","result":%b}'

_HANDLER, _PAYLOAD, _INTERNAL, _TOO_MANY = -32000, -32600, -32603, 3001


def read_frame(text: bytes) -> ClientRequest | Confirmation:
    """The request or answer in a frame. Raises FrameNotJsonError, InvalidFrameError: it is no JSON-RPC.

    A request whose id is wrong is read as one without an id.
    """
    if len(text) <= _LONGEST_CONFIRMED and (confirmed := _CONFIRMED.fullmatch(text)):
        return Confirmation(int(confirmed[1]), is_received=True)  # every second frame, as clients write it
    try:
        values = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise FrameNotJsonError(error.msg) from error
    if not isinstance(values, dict):
        raise InvalidFrameError("A frame must be one JSON-RPC object: {id, jsonrpc, method, params}.")
    method = values.get("method")
    if isinstance(method, str):
        return _request(values, method)
    if "result" not in values and "error" not in values:
        raise InvalidFrameError("A frame must be a JSON-RPC request or response: it has no method.")
    request_id = values.get("id")
    is_received = values.get("result") is True and "error" not in values
    return Confirmation(request_id if type(request_id) is int else -1, is_received)


def require_request(request: ClientRequest) -> None:
    """Raise InvalidCallError for a request without a right id."""
    if request.id_text == _NO_ID:
        raise InvalidCallError(
            "InvalidRequestId", "id must be a whole number from 0 to 2^64-1, or such a number as a string."
        )


def write_result(id_text: bytes, result: bytes) -> bytes:
    """The answer to a call; the result is JSON."""
    return _RESULT % (id_text, result)


def write_error(id_text: bytes, error: BridgeError) -> bytes:
    """The answer to a call that failed."""
    return b'{"id":%b,"jsonrpc":"2.0","error":%b}' % (id_text, orjson.dumps(_error(error)))


def write_failure(id_text: bytes) -> bytes:
    """The answer to a call at which the server has failed."""
    error = {"code": _INTERNAL, "message": "The server failed. Its log has the reason.", "data": "Unknown"}
    return b'{"id":%b,"jsonrpc":"2.0","error":%b}' % (id_text, orjson.dumps(error))


def write_subscriptions(answer: SubscriptionAnswer, client: ClientKey, topics: Sequence[Topic]) -> bytes:
    """The ids of subscriptions, in the form that the call asks for."""
    ids = [subscription_id(client, topic).decode() for topic in topics]
    if answer is SubscriptionAnswer.ONE:
        return orjson.dumps(ids[0])
    return orjson.dumps(ids if answer is SubscriptionAnswer.LIST else [{"id": each} for each in ids])


def write_refused_subscriptions(topics: Sequence[Topic], error: BridgeError) -> bytes:
    """One failure for each topic of a call that has results answered."""
    return orjson.dumps([{"error": _error(error)}] * len(topics))


def write_fetched(messages: Sequence[WaitingMessage], has_more: bool) -> bytes:
    """The answer with the messages that wait for a client."""
    found = [orjson.Fragment(message.data) for message in messages]
    return orjson.dumps({"messages": found, "hasMore": has_more})


def write_data(publication: Publication, published_at_ms: int) -> bytes:
    """The parameters of the request that brings a publication to a receiver."""
    topic, message, _, tag, _, attestation = publication
    values = {"topic": topic, "message": message, "publishedAt": published_at_ms, "tag": tag}
    if attestation is not None:
        values["attestation"] = attestation
    return orjson.dumps(values)


def write_message(request_id: int, subscription: bytes, data: bytes) -> bytes:
    """A message, as a request that the receiver acknowledges."""
    return _MESSAGE % (request_id, subscription, data)


def subscription_id(client: ClientKey, topic: Topic) -> bytes:
    """64 hexadecimal digits, as JavaScript clients make them for themselves."""
    return hashlib.sha256(f"{topic}{DID_PREFIX}{client}".encode()).hexdigest().encode()


def _request(values: dict[str, object], method: str) -> ClientRequest:
    id_text = _id_text(values.get("id"))
    if values.get("jsonrpc") != "2.0":
        return ClientRequest(id_text, "", None)
    return ClientRequest(id_text, method, values.get("params"))


def _id_text(sent: object) -> bytes:
    if type(sent) is int and 0 <= sent <= _LARGEST_ID:
        return b"%d" % sent
    if isinstance(sent, str) and sent.isascii() and sent.isdigit() and len(sent) <= _MOST_DIGITS:
        return b'"%b"' % sent.encode() if int(sent) <= _LARGEST_ID else _NO_ID
    return _NO_ID


def _error(error: BridgeError) -> dict[str, object]:
    code, tag = _code_and_tag(error)
    return {"code": code, "message": error.detail, "data": tag}


def _code_and_tag(error: BridgeError) -> tuple[int, str]:
    """The code and the name that the Rust types give the failure."""
    match error:
        case InvalidCallError(tag=tag):
            return _PAYLOAD, tag
        case TimeToLiveError(tag=tag):
            return _HANDLER, tag
        case TooLargeError():
            return _PAYLOAD, "PayloadSizeExceeded"
        case QueueFullError():
            return _HANDLER, "MailboxLimitExceeded"
        case TooManySubscriptionsError():
            return _HANDLER, "SubscriberLimitExceeded"
        case LimitError():
            return _TOO_MANY, "TooManyRequests"
        case UnavailableError():
            return _INTERNAL, "StorageError"
    return _INTERNAL, "Unknown"
