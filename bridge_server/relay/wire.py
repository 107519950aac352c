"""The bridge's JSON (docs/protocol.md, B): bodies to models, models to answers, in both of its dialects."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, NamedTuple, TypeAlias

import orjson
from pydantic import AfterValidator, Field, PlainValidator, WithJsonSchema

from bridge_server.kernel.errors import BridgeError
from bridge_server.kernel.fields import PUSH_TOKEN_MAX_CHARACTERS, PUSH_TYPE_MAX_CHARACTERS, http_url
from bridge_server.kernel.version import NAME, REPOSITORY, VERSION
from bridge_server.outbox.topics import Topic
from bridge_server.relay import models
from bridge_server.web.bodies import WEB_URL, JsonObject, Shape, check
from bridge_server.web.routes import DescribedAnswer
from bridge_server.web.shapes import TypedDict, count, text

SUCCESS = b'{"success":true}'
NO_CALLS = b"{}"
INFO = orjson.dumps({"name": NAME, "repository": REPOSITORY, "version": VERSION})
GREETING = f"Hello World, this is {NAME} v{VERSION}"

_PAYLOAD = "encryptionPayload"
_LONGEST_NAME = 255


def _opaque(value: Any) -> Any:
    if not isinstance(value, str | dict):
        raise ValueError("must be a string or an object")
    return value


OpaqueValue = Annotated[Any, PlainValidator(_opaque), WithJsonSchema({"type": ["string", "object"]})]
WebUrl = Annotated[str, AfterValidator(http_url), WEB_URL]


class PushDetailsShape(Shape):
    """The wallet's push details."""

    type: Annotated[str, Field(max_length=PUSH_TYPE_MAX_CHARACTERS)]
    token: Annotated[str, Field(max_length=PUSH_TOKEN_MAX_CHARACTERS)]
    webhook: WebUrl


class SessionUpdateShape(Shape):
    """The body of PUT /session/{sessionId}."""

    encryptionPayload: OpaqueValue  # noqa: N815 - the protocol's spelling
    push: PushDetailsShape | None = None


class NewCallShape(Shape):
    """The body of POST /session/{sessionId}/call/new."""

    encryptionPayload: OpaqueValue  # noqa: N815 - the protocol's spelling
    dappName: Annotated[str, Field(min_length=1, max_length=_LONGEST_NAME)]  # noqa: N815 - the protocol's spelling


class StatusShape(Shape):
    """The body of POST /call-status/{callId}/new."""

    encryptionPayload: OpaqueValue  # noqa: N815 - the protocol's spelling


class TopicSubscriptionShape(Shape):
    """The body of POST /subscribe."""

    topic: Annotated[str, Field(min_length=1, max_length=128)]
    webhook: WebUrl


# Answers are written as bytes, because a payload is passed on byte for byte; their shapes describe them.

PAYLOAD_EXAMPLE = {"data": "8a3f0c", "hmac": "5d1e77", "iv": "c0ffee"}

SpelledSessionId: TypeAlias = Annotated[str, text("0192f7c8-7e6a-7d2b-b0a5-0f7f3c1d2e4f")]
SpelledCallId: TypeAlias = Annotated[str, text("0192f7c8-8a10-7c4e-9d3b-51c2a7f6b0d8")]
Expiry: TypeAlias = Annotated[int, count(1_800_000_000_000)]
Opaque: TypeAlias = Annotated[
    Any, WithJsonSchema({"type": ["string", "object"], "examples": [PAYLOAD_EXAMPLE]})
]


class ServerInfoAnswer(TypedDict):
    """The program that answers."""

    name: Annotated[str, text(NAME)]
    repository: Annotated[str, text(REPOSITORY)]
    version: Annotated[str, text(VERSION)]


class OpenedSessionAnswer(TypedDict):
    """A session that was opened."""

    sessionId: SpelledSessionId  # noqa: N815


class MadeCallAnswer(TypedDict):
    """A call that waits for the wallet."""

    callId: SpelledCallId  # noqa: N815


class SessionExpiryAnswer(TypedDict):
    """The expiry of a session, in milliseconds since the Unix epoch."""

    expires: Expiry


class StoredPayloadAnswer(TypedDict):
    """A payload, byte for byte as it was sent."""

    encryptionPayload: Opaque  # noqa: N815


class OpenedSession07Answer(OpenedSessionAnswer):
    """A session that was opened, and its expiry."""

    expires: Expiry


class Payload07Answer(StoredPayloadAnswer):
    """A payload, and its expiry."""

    expires: Expiry


class StoredPayload07Answer(TypedDict):
    """A payload in the envelope of generation 0.7."""

    data: Payload07Answer


class WaitingCalls07Answer(TypedDict):
    """The calls that wait for an answer, in the envelope of generation 0.7."""

    data: dict[str, StoredPayloadAnswer]


# Bodies of writes are judged by their values at once; the shapes, which take ten times as long, tell all
# faults of one that is not as it should be.


def read_session_update(document: JsonObject) -> models.SessionUpdate:
    """The wallet's update. `push` absent keeps what there is; null removes it."""
    values = document.values
    if "push" not in values and isinstance(values.get(_PAYLOAD), str | dict):
        return models.SessionUpdate(_payload(document), models.Keep.KEEP)
    shape = check(SessionUpdateShape, values, may_misspell=True)
    return models.SessionUpdate(_payload(document), _push(shape))


def read_new_call(document: JsonObject) -> models.NewCall:
    """The dapp's call request."""
    values = document.values
    payload, name = values.get(_PAYLOAD), values.get("dappName")
    if isinstance(payload, str | dict) and isinstance(name, str) and 0 < len(name) <= _LONGEST_NAME:
        return models.NewCall(_payload(document), name)
    shape = check(NewCallShape, values, may_misspell=True)
    return models.NewCall(_payload(document), shape.dappName)


def read_status(document: JsonObject) -> models.Payload:
    """The wallet's call status."""
    if not isinstance(document.values.get(_PAYLOAD), str | dict):
        check(StatusShape, document.values, may_misspell=True)
    return _payload(document)


def read_subscription(document: JsonObject) -> tuple[Topic, str]:
    """A topic, and the webhook to call when something happens on it."""
    shape = check(TopicSubscriptionShape, document.values, may_misspell=True)
    return Topic(shape.topic), shape.webhook


def write_opened(session: models.OpenedSession) -> bytes:
    """The answer to POST /session/new."""
    return b'{"sessionId":"%b"}' % session.session_id.encode()


def write_call_id(call_id: models.CallId) -> bytes:
    """The answer to POST /session/{sessionId}/call/new."""
    return b'{"callId":"%b"}' % call_id.encode()


def write_expiry(expires_at_ms: int) -> bytes:
    """The answer to PUT /session/{sessionId}."""
    return b'{"expires":%d}' % expires_at_ms


def write_payload(payload: models.Payload) -> bytes:
    """A payload, the very text that was sent."""
    return b'{"encryptionPayload":%b}' % payload


def write_calls(calls: tuple[models.CallRequest, ...]) -> bytes:
    """The answer to GET /session/{sessionId}/calls: an object keyed by call id, in the order given."""
    return b"{%b}" % b",".join(
        b'"%b":{"encryptionPayload":%b}' % (call.call_id.encode(), call.payload) for call in calls
    )


def write_push_notice(
    session_id: models.SessionId, call_id: models.CallId, push: models.PushDetails, dapp_name: str
) -> bytes:
    """The notice of a new call to the wallet's push webhook."""
    notice = {
        "sessionId": session_id,
        "callId": call_id,
        "pushType": push.type,
        "pushToken": push.token,
        "dappName": dapp_name,
    }
    return orjson.dumps(notice)


def write_topic_notice(topic: str) -> bytes:
    """The notice of a new call to a webhook of /subscribe."""
    return orjson.dumps({"topic": topic})


def _payload(document: JsonObject) -> models.Payload:
    return models.Payload(document.text(_PAYLOAD))


def _push(shape: SessionUpdateShape) -> models.PushDetails | models.Keep | None:
    if "push" not in shape.model_fields_set:
        return models.Keep.KEEP
    push = shape.push
    return None if push is None else models.PushDetails(push.type, push.token, push.webhook)


# Dialects of the bridge's protocol: one set of rules, and an envelope for each kind of client.


class Dialect(NamedTuple):
    """The paths and the spelling of the bridge for one kind of client; by default the protocol's own."""

    tag: str
    """The heading of its routes in the description."""
    answers: Mapping[str, tuple[DescribedAnswer, ...]]
    """The described answers that are the dialect's own, by the names of the protocol's routes."""
    path: str = ""
    """The prefix of the protocol's paths."""
    route_prefix: str = ""
    """The prefix of the routes' names, in the log and in the metrics."""
    mark: str = ""
    """The end of each summary in the description."""
    opened: Callable[[models.OpenedSession], bytes] = write_opened
    """The answer to POST /session/new."""
    payload: Callable[[bytes, int], bytes] = lambda plain, _: plain
    """The answer to a read that found a payload, by the plain answer and its expiry (epoch milliseconds)."""
    calls_envelope: tuple[bytes, bytes] | None = None
    """The text before and after the protocol's own answer to a read of calls."""
    forgiven: tuple[type[BridgeError], ...] = ()
    """The errors that are no failure of reading or ending a session: it reads as one without a payload."""


NOTHING_YET = DescribedAnswer(204, "There is none yet.")
_OPENED = DescribedAnswer(200, "The session's id, a UUID of version 7.", OpenedSessionAnswer)
_FOUND = DescribedAnswer(200, "The payload.", StoredPayloadAnswer)
_CALLS = DescribedAnswer(200, "The calls; an empty object if there are none.", dict[str, StoredPayloadAnswer])

PLAIN = Dialect(
    tag="Bridge",
    answers={
        "open-session": (_OPENED,),
        "session": (_FOUND, NOTHING_YET),
        "calls": (_CALLS,),
        "call": (_FOUND,),
        "call-status": (_FOUND, NOTHING_YET),
    },
)
"""The protocol's own spelling (docs/protocol.md, B)."""


# Generation 0.7: npm `walletconnect`, `rn-walletconnect-wallet` and `js-walletconnect-core`, unmodified.
#
# They send the protocol's own requests, under the bridge URL that they are given, and read every payload
# inside an envelope, `{"data": {"encryptionPayload", "expires"}}`. Their reading of an answer decides its
# form:
#
# - `POST /session/new` answers with `expires` beside `sessionId`. The dapp keeps both in its browser, and
#   resumes the session after a reload only if `expires`, epoch milliseconds, lies ahead.
# - `GET /session/{sessionId}`: at 204 the dapp asks again later. At an error `initSession()` fails, and fails
#   again at every reload until `expires` has passed; so a session that has ended is 204 too, and the dapp
#   opens another. A long poll is answered 404 all the same: these clients send none, and others would poll in
#   a loop.
# - `GET .../calls` is `{"data": {}}` without calls: applications iterate over the answer, and a 204 would
#   give them null. When the session has ended it is 404, the only sign of that end to the wallet.
# - `GET /call-status/{callId}`: at 204 the dapp asks again later. At an error it gives the call up, which is
#   right for a call that is gone.
# - `DELETE` of a session that has ended succeeds: at an error the wallet would stay connected for ever.
# - Of any other error they read the status alone: the application gets `Error: Not Found`. Of the answers to
#   `DELETE` and `POST /call-status/{callId}/new` they read nothing else either.


def _v07_opened(session: models.OpenedSession) -> bytes:
    return b'{"sessionId":"%b","expires":%d}' % (session.session_id.encode(), session.expires_at_ms)


def _v07_payload(plain: bytes, expires_at_ms: int) -> bytes:
    without_brace = plain[:-1]
    return b'{"data":%b,"expires":%d}}' % (without_brace, expires_at_ms)


_OPENED_07 = DescribedAnswer(200, "The session's id, and until when it lives.", OpenedSession07Answer)
_FOUND_07 = DescribedAnswer(200, "The payload, and until when it is kept.", StoredPayload07Answer)
_CALLS_07 = DescribedAnswer(
    200, "The calls; `data` is an empty object if there are none.", WaitingCalls07Answer
)

V07 = Dialect(
    path="/compat/v0.7",
    route_prefix="v0.7-",
    opened=_v07_opened,
    payload=_v07_payload,
    calls_envelope=(b'{"data":', b"}"),
    forgiven=(models.SessionNotFoundError,),
    tag="Bridge, generation 0.7",
    mark=" (0.7)",
    answers={
        "open-session": (_OPENED_07,),
        "session": (_FOUND_07, DescribedAnswer(204, "There is none yet, or the session has ended.")),
        "calls": (_CALLS_07,),
        "call": (_FOUND_07,),
        "call-status": (_FOUND_07, NOTHING_YET),
    },
)
