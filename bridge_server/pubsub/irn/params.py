"""The methods of generation 2.x and their parameters. Other parameters are not looked at."""

import re
from collections.abc import Callable, Mapping
from typing import TypeAlias

from bridge_server.pubsub.irn.errors import InvalidCallError, TimeToLiveError
from bridge_server.pubsub.irn.models import (
    FetchCall,
    IrnCall,
    Publication,
    PublishCall,
    Receipt,
    ReceiveCall,
    SubscribeCall,
    SubscriptionAnswer,
    UnsubscribeCall,
)
from bridge_server.topics.models import Topic

LONGEST_TTL_SECONDS = 30 * 86_400

_Params: TypeAlias = Mapping[str, object]

_MOST_IN_A_BATCH = 500
_LARGEST_U32 = 2**32 - 1
_SESSION_TTL_SECONDS = 300
_PROPOSAL, _PROPOSAL_RESPONSE, _SETTLEMENT = 1100, 1101, 1102

_DIGITS = re.compile(r"[0-9]{1,20}", re.ASCII)
_TOPIC = re.compile(r"[0-9a-fA-F]{64}", re.ASCII)
_PREFIXES = ("irn_", "iridium_")


def read_call(method: str, params: object) -> IrnCall:
    """The call of a client. Raises InvalidCallError, TimeToLiveError."""
    read = _READERS.get(method)
    if read is None:
        raise _unknown(method)
    if not isinstance(params, dict):
        raise _wrong("params must be an object.")
    return read(params)


def _unknown(method: str) -> InvalidCallError:
    if not method:
        return InvalidCallError("InvalidJsonRpcVersion", 'jsonrpc must be "2.0", and method a name.')
    known = ", ".join([*(f"irn_{name}" for name in _METHODS), *_SESSION_METHODS])
    return InvalidCallError("InvalidMethod", f"There is no such method. There are {known}.")


def _wrong(detail: str, tag: str = "InvalidParams") -> InvalidCallError:
    return InvalidCallError(tag, detail)


def _topic(value: object, name: str = "topic") -> Topic:
    if not isinstance(value, str) or not _TOPIC.fullmatch(value):
        raise _wrong(f"{name} must be 64 hexadecimal digits.", "InvalidTopic")
    return Topic(value)


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
    return Publication(
        _topic(params.get("topic")),
        _text(params, "message"),
        _ttl(params.get("ttl")),
        _tag(params.get("tag")),
        _prompt(params.get("prompt")),
        _attestation(params),
    )


def _publish(params: _Params) -> PublishCall:
    return PublishCall((_publication(params),))


def _batch_publish(params: _Params) -> PublishCall:
    return PublishCall(tuple(_publication(each) for each in _objects(params, "messages")))


def _subscribe(params: _Params) -> SubscribeCall:
    return SubscribeCall((_topic(params.get("topic")),), SubscriptionAnswer.ONE)


def _batch_subscribe(params: _Params) -> SubscribeCall:
    return SubscribeCall(_topics(params), SubscriptionAnswer.LIST)


def _batch_subscribe_blocking(params: _Params) -> SubscribeCall:
    return SubscribeCall(_topics(params), SubscriptionAnswer.RESULTS)


def _unsubscribe(params: _Params) -> UnsubscribeCall:
    return UnsubscribeCall((_topic(params.get("topic")),))


def _batch_unsubscribe(params: _Params) -> UnsubscribeCall:
    return UnsubscribeCall(tuple(_topic(each.get("topic")) for each in _objects(params, "subscriptions")))


def _fetch(params: _Params) -> FetchCall:
    return FetchCall((_topic(params.get("topic")),))


def _batch_fetch(params: _Params) -> FetchCall:
    return FetchCall(_topics(params))


def _batch_receive(params: _Params) -> ReceiveCall:
    return ReceiveCall(tuple(_receipt(each) for each in _objects(params, "receipts")))


def _receipt(params: _Params) -> Receipt:
    message_id = params.get("message_id")
    if isinstance(message_id, str) and _DIGITS.fullmatch(message_id):
        message_id = int(message_id)
    if type(message_id) is not int:
        raise _wrong("message_id must be the id of the request that the message came in.")
    return Receipt(_topic(params.get("topic")), message_id)


def _propose_session(params: _Params) -> PublishCall:
    topic = _topic(params.get("pairingTopic"), "pairingTopic")
    proposal = Publication(
        topic,
        _sealed(params, "sessionProposal"),
        _session_ttl(params),
        _PROPOSAL,
        prompt=True,
        attestation=_attestation(params),
    )
    return PublishCall((proposal,), subscribes=topic)


def _approve_session(params: _Params) -> PublishCall:
    pairing = _topic(params.get("pairingTopic"), "pairingTopic")
    session = _topic(params.get("sessionTopic"), "sessionTopic")
    response = _sealed(params, "sessionProposalResponse")
    settlement = _sealed(params, "sessionSettlementRequest")
    ttl = _session_ttl(params)
    return PublishCall(
        (
            Publication(pairing, response, ttl, _PROPOSAL_RESPONSE, prompt=False, attestation=None),
            Publication(session, settlement, ttl, _SETTLEMENT, prompt=False, attestation=None),
        ),
        subscribes=session,
    )


_METHODS: dict[str, Callable[[_Params], IrnCall]] = {
    "publish": _publish,
    "batchPublish": _batch_publish,
    "subscribe": _subscribe,
    "subscribeBlocking": _subscribe,
    "batchSubscribe": _batch_subscribe,
    "batchSubscribeBlocking": _batch_subscribe_blocking,
    "unsubscribe": _unsubscribe,
    "batchUnsubscribe": _batch_unsubscribe,
    "fetchMessages": _fetch,
    "batchFetchMessages": _batch_fetch,
    "batchReceive": _batch_receive,
}
_SESSION_METHODS: dict[str, Callable[[_Params], IrnCall]] = {
    "wc_proposeSession": _propose_session,
    "wc_approveSession": _approve_session,
}
_READERS = _SESSION_METHODS | {
    f"{prefix}{name}": read for prefix in _PREFIXES for name, read in _METHODS.items()
}
