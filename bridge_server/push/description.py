"""The push server described, beyond its rows (docs/protocol.md, C)."""

from collections.abc import Mapping
from typing import Literal

from bridge_server.outbox.topics import TooManyWebhooksError
from bridge_server.push import wire
from bridge_server.push.models import (
    BridgeRefusedError,
    ProviderFailedError,
    TokenDeadError,
    TooManyPushesError,
    TopicNotFoundError,
)
from bridge_server.web.shapes import DescribedAnswer, Operation, Parameter, SuccessAnswer, done

_TAG = "Push"
_TOPIC = "0192f7c8-7e6a-7d2b-b0a5-0f7f3c1d2e4f"


class PushedAnswer(SuccessAnswer):
    """The provider took the push. `successs` is the protocol's spelling."""

    successs: Literal[True]


PUSH_OPERATIONS: Mapping[str, Operation] = {
    "register-push": Operation(
        tag=_TAG,
        summary="Register a wallet for pushes",
        text="Registers a device for a topic, which is a session's id, and subscribes this server's own "
        "`/push` at the bridge. If the bridge refuses, nothing is registered. `type` is `fcm`, `apns`, "
        "`webpush`, `webhook` or `log`, as far as the operator has configured them.",
        answers=done("It is registered."),
        problems=(BridgeRefusedError, TooManyPushesError, TooManyWebhooksError),
        body=wire.ClientShape,
        body_example={
            "bridge": "https://bridge.example.org",
            "topic": _TOPIC,
            "type": "log",
            "token": "d7Zt3k",
            "peerName": "Example Shop",
            "language": "en",
        },
    ),
    "push": Operation(
        tag=_TAG,
        summary="Push to the wallet of a topic",
        text="A bridge calls it with a topic. The device shows 'New request from ...' in its language. If "
        "the provider calls the token dead, the registration is removed.",
        answers=(DescribedAnswer(200, "The provider took it.", PushedAnswer),),
        problems=(TopicNotFoundError, TokenDeadError, ProviderFailedError, TooManyPushesError),
        body=wire.PushTopicShape,
        body_example={"topic": _TOPIC},
        parameters=(
            Parameter(
                "webhook-id",
                "The id of the message, the same in every attempt (Standard Webhooks): providers show it "
                "once.",
                place="header",
            ),
        ),
    ),
}
