"""JSON-RPC frames of generation 2.x: requests and confirmations in, answers and messages out."""

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import orjson

from bridge_server.kernel.errors import BridgeError, LimitError, TooLargeError, UnavailableError
from bridge_server.outbox.topics import Topic
from bridge_server.pubsub import queues
from bridge_server.pubsub.v2_models import (
    ClientKey,
    ClientRequest,
    Confirmation,
    FetchCall,
    InvalidCallError,
    IrnCall,
    Publication,
    Publishing,
    Receipt,
    ReceiveCall,
    SubscribeCall,
    SubscriptionAnswer,
    TimeToLiveError,
    TooManySubscriptionsError,
    TooManyTopicClientsError,
    UnsubscribeCall,
    WaitingMessage,
)
from bridge_server.pubsub.v2_tokens import DID_PREFIX

_NO_ID = b"null"
_MOST_DIGITS = 20
_LARGEST_ID = 2**64 - 1

MESSAGE_HEAD = b',"jsonrpc":"2.0","method":"irn_subscription","params":{"id":"%b","data":'
CONFIRMED = b'{"id":%b,"jsonrpc":"2.0","result":true}'
"""The receiver's answer to a message, as clients write it."""
LONGEST_CONFIRMED = 60
RESULT = b'{"id":%b,"jsonrpc":"2.0","result":%b}'
"""The answer to a call; the result is JSON."""

_HANDLER, _PAYLOAD, _INTERNAL, _TOO_MANY = -32000, -32600, -32603, 3001


def read_frame(text: bytes) -> ClientRequest | Confirmation:
    """The request or answer in a frame; a request whose id is wrong is read as one without an id. Raises
    FrameNotJsonError, InvalidFrameError: it is no JSON-RPC.
    """
    values = queues.read_members(text, "one JSON-RPC object: {id, jsonrpc, method, params}")
    method, sent = values.get("method"), values.get("id")
    id_text = b"%d" % sent if type(sent) is int and 0 <= sent <= _LARGEST_ID else _text_of_digits(sent)
    if isinstance(method, str):
        if values.get("jsonrpc") != "2.0":
            return ClientRequest(id_text, "", None)
        return ClientRequest(id_text, method, values.get("params"))
    if "result" not in values and "error" not in values:
        raise queues.InvalidFrameError("A frame must be a JSON-RPC request or response: it has no method.")
    is_received = values.get("result") is True and "error" not in values
    return Confirmation(CONFIRMED % id_text, is_received)


def write_message(id_text: bytes, head: bytes, data: bytes) -> bytes:
    """The request that brings a message to a receiver: the data, behind MESSAGE_HEAD with a subscription."""
    return b"".join((b'{"id":', id_text, head, data, b"}}"))


def write_error(id_text: bytes, error: BridgeError) -> bytes:
    """The answer to a call that failed."""
    return b'{"id":%b,"jsonrpc":"2.0","error":%b}' % (id_text, orjson.dumps(_error(error)))


def write_subscriptions(answer: SubscriptionAnswer, client: ClientKey, topics: Sequence[Topic]) -> bytes:
    """The answer to subscriptions, in the form that the call asks for: their ids, or true."""
    if answer is SubscriptionAnswer.DONE:
        return b"true"
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
    values = {
        "topic": publication.topic,
        "message": publication.message,
        "publishedAt": published_at_ms,
        "tag": publication.tag,
    }
    if publication.attestation is not None:
        values["attestation"] = publication.attestation
    return orjson.dumps(values)


def subscription_id(client: ClientKey, topic: Topic) -> bytes:
    """64 hexadecimal digits, as JavaScript clients make them for themselves."""
    return hashlib.sha256(f"{topic}{DID_PREFIX}{client}".encode()).hexdigest().encode()


def _text_of_digits(sent: object) -> bytes:
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
        case queues.QueueFullError():
            return _HANDLER, "MailboxLimitExceeded"
        case TooManySubscriptionsError() | TooManyTopicClientsError() | queues.TooManyAddressTopicsError():
            return _HANDLER, "SubscriberLimitExceeded"
        case LimitError():
            return _TOO_MANY, "TooManyRequests"
        case UnavailableError():
            return _INTERNAL, "StorageError"
    return _INTERNAL, "Unknown"


# The methods of generation 2.x and their parameters. Other parameters are not read.

LONGEST_TTL_SECONDS = 30 * 86_400

_Params: TypeAlias = Mapping[str, object]

_MOST_IN_A_BATCH = 500
_LARGEST_U32 = 2**32 - 1
_SESSION_TTL_SECONDS = 300
_PROPOSAL, _PROPOSAL_RESPONSE, _SETTLEMENT = 1100, 1101, 1102

_DIGITS = re.compile(r"[0-9]{1,20}", re.ASCII)
_TOPIC_DIGITS, _TOPIC_BYTES = 64, 32
_from_hexadecimal = bytes.fromhex
_PREFIXES = ("irn_", "iridium_")


def read_call(request: ClientRequest) -> IrnCall:
    """The call in a request. Raises InvalidCallError, TimeToLiveError."""
    if request.id_text == _NO_ID:
        raise InvalidCallError(
            "InvalidRequestId", "id must be a whole number from 0 to 2^64-1, or such a number as a string."
        )
    read = _READERS.get(request.method)
    if read is None:
        raise _unknown(request.method)
    if not isinstance(request.params, dict):
        raise _wrong("params must be an object.")
    return read(request.params)


def _unknown(method: str) -> InvalidCallError:
    if not method:
        return InvalidCallError("InvalidJsonRpcVersion", 'jsonrpc must be "2.0", and method a name.')
    known = ", ".join([*(f"irn_{name}" for name in _METHODS), *_SESSION_METHODS])
    return InvalidCallError("InvalidMethod", f"There is no such method. There are {known}.")


def _wrong(detail: str, tag: str = "InvalidParams") -> InvalidCallError:
    return InvalidCallError(tag, detail)


def _topic(value: Any, name: str = "topic") -> Topic:
    try:  # in half the time of a pattern; it skips spaces, so that there would be fewer bytes
        is_topic = (
            isinstance(value, str)
            and len(value) == _TOPIC_DIGITS
            and len(_from_hexadecimal(value)) == _TOPIC_BYTES
        )
    except ValueError:
        is_topic = False
    if not is_topic:
        raise _wrong(f"{name} must be 64 hexadecimal digits.", "InvalidTopic")
    topic: Topic = value
    return topic


def _text(params: _Params, name: str) -> str:
    value = params.get(name)
    if not isinstance(value, str):
        raise _wrong(f"{name} must be a string.")
    return value


def _sealed(params: _Params, name: str) -> str:
    value = _text(params, name)
    if not value:
        raise _wrong(f"{name} must not be empty.")
    return value


def _ttl(value: object) -> int:
    if type(value) is not int:
        raise _wrong("ttl must be a whole number of seconds.")
    if value < 1:
        raise TimeToLiveError("TtlTooShort")
    if value > _LARGEST_U32:
        raise TimeToLiveError("TtlTooLong")
    return min(value, LONGEST_TTL_SECONDS)


def _session_ttl(params: _Params) -> int:
    value = params.get("ttl")
    return _SESSION_TTL_SECONDS if value is None else _ttl(value)


def _tag(value: object) -> int:
    if value is None:
        return 0
    if type(value) is not int or not 0 <= value <= _LARGEST_U32:
        raise _wrong("tag must be a whole number from 0 to 4294967295; it may be left out.")
    return value


def _prompt(value: object) -> bool:
    if value is not None and not isinstance(value, bool):
        raise _wrong("prompt must be true or false; it may be left out.")
    return value is True


def _attestation(params: _Params) -> str | None:
    value = params.get("attestation")
    if value is not None and not isinstance(value, str):
        raise _wrong("attestation must be a string; it may be left out.")
    return value


def _batch(params: _Params, name: str) -> list[object]:
    values = params.get(name)
    if not isinstance(values, list):
        raise _wrong(f"{name} must be an array.")
    if not values:
        raise _wrong(f"{name} must not be empty.", "BatchEmpty")
    if len(values) > _MOST_IN_A_BATCH:
        raise _wrong(f"{name} may have at most {_MOST_IN_A_BATCH} entries.", "BatchLimitExceeded")
    return values


def _objects(params: _Params, name: str) -> list[_Params]:
    found: list[_Params] = []
    for value in _batch(params, name):
        if not isinstance(value, dict):
            raise _wrong(f"{name} must have objects for entries.")
        found.append(value)
    return found


def _topics(params: _Params) -> tuple[Topic, ...]:
    return tuple(_topic(value, "each of topics") for value in _batch(params, "topics"))


def _publication(params: _Params) -> Publication:
    message, ttl, tag = params.get("message"), params.get("ttl"), params.get("tag")
    return Publication(  # the usual values are judged here: a call for each of them would take longer
        _topic(params.get("topic")),
        message if type(message) is str else _text(params, "message"),
        ttl if type(ttl) is int and 0 < ttl <= LONGEST_TTL_SECONDS else _ttl(ttl),
        tag if type(tag) is int and 0 <= tag <= _LARGEST_U32 else _tag(tag),
        "prompt" in params and _prompt(params["prompt"]),
        _attestation(params) if "attestation" in params else None,
    )


def _one_topic(params: _Params) -> tuple[Topic, ...]:
    return (_topic(params.get("topic")),)


def _subscribe(params: _Params) -> SubscribeCall:
    return SubscribeCall(_one_topic(params), SubscriptionAnswer.ONE)


def _batch_unsubscribe(params: _Params) -> UnsubscribeCall:
    return UnsubscribeCall(tuple(_topic(each.get("topic")) for each in _objects(params, "subscriptions")))


def _receipt(params: _Params) -> Receipt:
    message_id = params.get("message_id")
    if isinstance(message_id, str) and _DIGITS.fullmatch(message_id):
        message_id = int(message_id)
    if type(message_id) is not int:
        raise _wrong("message_id must be the id of the request that the message came in.")
    return Receipt(_topic(params.get("topic")), message_id)


def _propose_session(params: _Params) -> Publishing:
    topic = _topic(params.get("pairingTopic"), "pairingTopic")
    proposal = Publication(
        topic,
        _sealed(params, "sessionProposal"),
        _session_ttl(params),
        _PROPOSAL,
        prompt=True,
        attestation=_attestation(params),
    )
    return Publishing((proposal,), subscribes=topic)


def _approve_session(params: _Params) -> Publishing:
    pairing = _topic(params.get("pairingTopic"), "pairingTopic")
    session = _topic(params.get("sessionTopic"), "sessionTopic")
    response = _sealed(params, "sessionProposalResponse")
    settlement = _sealed(params, "sessionSettlementRequest")
    ttl = _session_ttl(params)
    return Publishing(
        (
            Publication(pairing, response, ttl, _PROPOSAL_RESPONSE, prompt=False, attestation=None),
            Publication(session, settlement, ttl, _SETTLEMENT, prompt=False, attestation=None),
        ),
        subscribes=session,
    )


_METHODS: dict[str, Callable[[_Params], IrnCall]] = {
    "publish": lambda params: Publishing((_publication(params),)),
    "batchPublish": lambda params: Publishing(tuple(map(_publication, _objects(params, "messages")))),
    "subscribe": _subscribe,
    "subscribeBlocking": _subscribe,
    "batchSubscribe": lambda params: SubscribeCall(_topics(params), SubscriptionAnswer.LIST),
    "batchSubscribeBlocking": lambda params: SubscribeCall(_topics(params), SubscriptionAnswer.RESULTS),
    "unsubscribe": lambda params: UnsubscribeCall(_one_topic(params)),
    "batchUnsubscribe": _batch_unsubscribe,
    "fetchMessages": lambda params: FetchCall(_one_topic(params)),
    "batchFetchMessages": lambda params: FetchCall(_topics(params)),
    "batchReceive": lambda params: ReceiveCall(tuple(map(_receipt, _objects(params, "receipts")))),
}
_SESSION_METHODS: dict[str, Callable[[_Params], IrnCall]] = {
    "wc_createTopic": lambda params: SubscribeCall(_one_topic(params), SubscriptionAnswer.DONE),
    "wc_proposeSession": _propose_session,
    "wc_approveSession": _approve_session,
}
_READERS = _SESSION_METHODS | {
    f"{prefix}{name}": read for prefix in _PREFIXES for name, read in _METHODS.items()
}
