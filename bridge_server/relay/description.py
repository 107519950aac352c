"""The bridge's endpoints in OpenAPI: texts and shapes that their rows do not have (docs/protocol.md, B)."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, TypeAlias

from pydantic import WithJsonSchema

from bridge_server.outbox.topics import TooManyWebhooksError
from bridge_server.relay import wire
from bridge_server.relay.models import CallNotFoundError, SessionNotFoundError, TooManyPendingCallsError
from bridge_server.relay.wire import V07
from bridge_server.version import VERSION
from bridge_server.web.shapes import (
    TEXT,
    AnswerShape,
    DescribedAnswer,
    Operation,
    count,
    done,
    text,
)

_TAG = "Bridge"
_PAYLOAD = {"data": "8a3f0c", "hmac": "5d1e77", "iv": "c0ffee"}

SessionId: TypeAlias = Annotated[str, text("0192f7c8-7e6a-7d2b-b0a5-0f7f3c1d2e4f")]
CallId: TypeAlias = Annotated[str, text("0192f7c8-8a10-7c4e-9d3b-51c2a7f6b0d8")]
Expiry: TypeAlias = Annotated[int, count(1_800_000_000_000)]
Opaque: TypeAlias = Annotated[Any, WithJsonSchema({"type": ["string", "object"], "examples": [_PAYLOAD]})]


class ServerInfoAnswer(AnswerShape):
    """The program that answers."""

    name: Annotated[str, text("Bridge Server")]
    repository: Annotated[str, text("https://github.com/bridge-server/bridge-server")]
    version: Annotated[str, text(VERSION)]


class OpenedSessionAnswer(AnswerShape):
    """A session that was opened."""

    sessionId: SessionId  # noqa: N815 - the protocol's spelling


class MadeCallAnswer(AnswerShape):
    """A call that waits for the wallet."""

    callId: CallId  # noqa: N815 - the protocol's spelling


class SessionExpiryAnswer(AnswerShape):
    """The expiry of a session, in milliseconds since the Unix epoch."""

    expires: Expiry


class StoredPayloadAnswer(AnswerShape):
    """A payload, byte for byte as it was sent."""

    encryptionPayload: Opaque  # noqa: N815 - the protocol's spelling


class OpenedSession07Answer(OpenedSessionAnswer):
    """A session that was opened, and its expiry."""

    expires: Expiry


class Payload07Answer(StoredPayloadAnswer):
    """A payload, and its expiry."""

    expires: Expiry


class StoredPayload07Answer(AnswerShape):
    """A payload in the envelope of generation 0.7."""

    data: Payload07Answer


class WaitingCalls07Answer(AnswerShape):
    """The calls that wait for an answer, in the envelope of generation 0.7."""

    data: dict[str, StoredPayloadAnswer]


_FOUND = DescribedAnswer(200, "The payload.", StoredPayloadAnswer)
_NOTHING = DescribedAnswer(204, "There is none yet.")

_PLAIN = {
    "hello": Operation(
        tag=_TAG,
        summary="Greeting",
        text="A line of text for a look in the browser.",
        answers=(DescribedAnswer(200, "The greeting, with the version.", str, TEXT),),
        needs_database=False,
    ),
    "info": Operation(
        tag=_TAG,
        summary="Name and version",
        text="The name, the repository and the version of the server.",
        answers=(DescribedAnswer(200, "The program that answers.", ServerInfoAnswer),),
        needs_database=False,
    ),
    "open-session": Operation(
        tag=_TAG,
        summary="Open a session",
        text="The dapp opens a session and hands its id to the wallet, with a key of which the server knows "
        "nothing. Any body is accepted and ignored. A session lives 24 hours from the wallet's last update "
        "or the dapp's last call.",
        answers=(DescribedAnswer(200, "The session's id, a UUID of version 7.", OpenedSessionAnswer),),
    ),
    "session": Operation(
        tag=_TAG,
        summary="What the wallet has said",
        text="The payload of the wallet's last update. The dapp asks until the wallet has approved the "
        "session.",
        answers=(_FOUND, _NOTHING),
        problems=(SessionNotFoundError,),
        polls=True,
    ),
    "update-session": Operation(
        tag=_TAG,
        summary="Approve or update a session",
        text="The wallet stores a payload for the dapp, and prolongs the session. `push` registers a webhook "
        "for new calls; left out it keeps the earlier one, null removes it.",
        answers=(DescribedAnswer(200, "Until when the session lives.", SessionExpiryAnswer),),
        problems=(SessionNotFoundError,),
        body=wire.SessionUpdateShape,
        body_example={
            "encryptionPayload": _PAYLOAD,
            "push": {"type": "fcm", "token": "d7Zt3k", "webhook": "https://push.example.org/push"},
        },
    ),
    "end-session": Operation(
        tag=_TAG,
        summary="End a session",
        text="Either side ends the session; its calls go with it.",
        answers=done("It has ended."),
        problems=(SessionNotFoundError,),
    ),
    "calls": Operation(
        tag=_TAG,
        summary="Calls that wait for an answer",
        text="The wallet reads the calls without a status, oldest first, by their ids. Reading deletes "
        "nothing.",
        answers=(
            DescribedAnswer(
                200, "The calls; an empty object if there are none.", dict[str, StoredPayloadAnswer]
            ),
        ),
        problems=(SessionNotFoundError,),
        polls=True,
    ),
    "request-call": Operation(
        tag=_TAG,
        summary="Ask the wallet for something",
        text="The dapp adds a call. The session's webhook and the webhooks of `/subscribe` are notified. A "
        "session has at most 100 calls without a status.",
        answers=(DescribedAnswer(200, "The call's id.", MadeCallAnswer),),
        problems=(SessionNotFoundError, TooManyPendingCallsError),
        body=wire.NewCallShape,
        body_example={"encryptionPayload": _PAYLOAD, "dappName": "Example Shop"},
    ),
    "call": Operation(
        tag=_TAG,
        summary="One call",
        text="The payload of a call, however often it is asked for, until it expires.",
        answers=(_FOUND,),
        problems=(CallNotFoundError,),
    ),
    "answer-call": Operation(
        tag=_TAG,
        summary="Answer a call",
        text="The wallet stores the status of a call for the dapp. A later status replaces an earlier one.",
        answers=done("The status is stored."),
        problems=(CallNotFoundError,),
        body=wire.StatusShape,
        body_example={"encryptionPayload": _PAYLOAD},
    ),
    "call-status": Operation(
        tag=_TAG,
        summary="The answer to a call",
        text="The dapp reads the wallet's answer, however often, until it expires.",
        answers=(_FOUND, _NOTHING),
        problems=(CallNotFoundError,),
        polls=True,
    ),
    "subscribe": Operation(
        tag=_TAG,
        summary="Have a webhook called for new calls",
        text="Registers a webhook for a topic, which is a session's id. It is notified of each new call, and "
        "forgotten after 30 days unless it is registered again. A topic has at most 16 webhooks.",
        answers=done("It is registered."),
        problems=(TooManyWebhooksError,),
        body=wire.TopicSubscriptionShape,
        body_example={
            "topic": "0192f7c8-7e6a-7d2b-b0a5-0f7f3c1d2e4f",
            "webhook": "https://push.example.org/push",
        },
    ),
}

_FOUND_07 = (DescribedAnswer(200, "The payload, and until when it is kept.", StoredPayload07Answer),)
_ANSWERS_07 = {
    "open-session": (
        DescribedAnswer(200, "The session's id, and until when it lives.", OpenedSession07Answer),
    ),
    "session": (*_FOUND_07, DescribedAnswer(204, "There is none yet, or the session has ended.")),
    "calls": (
        DescribedAnswer(200, "The calls; `data` is an empty object if there are none.", WaitingCalls07Answer),
    ),
    "call": _FOUND_07,
    "call-status": (*_FOUND_07, _NOTHING),
}
"""The answers of generation 0.7 that differ."""


def _of_generation_07(name: str, operation: Operation) -> Operation:
    return replace(
        operation,
        tag="Bridge, generation 0.7",
        summary=f"{operation.summary} (0.7)",
        answers=_ANSWERS_07.get(name, operation.answers),
    )


RELAY_OPERATIONS: Mapping[str, Operation] = {
    **_PLAIN,
    **{V07.route_prefix + name: _of_generation_07(name, each) for name, each in _PLAIN.items()},
}
