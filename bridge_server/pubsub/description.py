"""The sockets described: OpenAPI has no words for frames, so texts say what they carry (docs/protocol.md,
B.11 and B.12).
"""

from collections.abc import Mapping

from bridge_server.pubsub.queues import TooManySocketsError
from bridge_server.pubsub.v2_models import InvalidTokenError
from bridge_server.web.shapes import HTML, DescribedAnswer, Operation, Parameter

_TAG = "Sockets"
_UPGRADE = DescribedAnswer(101, "With `Upgrade: websocket`: the socket is open.")
_PAGE = DescribedAnswer(200, "Without it: a short page about the server.", str, HTML)
_AUTH = Parameter(
    "auth", "Generation 2.x: a JWT of EdDSA (Ed25519), which may also be sent as a bearer token."
)
_PROJECT = Parameter(
    "projectId", "Generation 2.x: the project, where the operator lists those that may connect."
)


def _socket(summary: str, text: str, *parameters: Parameter) -> Operation:
    return Operation(
        tag=_TAG,
        summary=summary,
        text=text,
        answers=(_UPGRADE, _PAGE),
        problems=(InvalidTokenError, TooManySocketsError) if parameters else (TooManySocketsError,),
        parameters=parameters,
        extensions={"x-websocket": True},
    )


PUBSUB_OPERATIONS: Mapping[str, Operation] = {
    "root": _socket(
        "Socket of generation 1.x or 2.x",
        "A WebSocket; with `auth` or a bearer token one of generation 2.x, else of 1.x. Without an upgrade "
        "it is a page: for a browser with addresses and links, else a short one.",
        _AUTH,
        _PROJECT,
    ),
    "compat-v1": _socket(
        "Socket of generation 1.x",
        'A WebSocket that carries `{"topic", "type", "payload", "silent"}` with the types `pub`, `sub` '
        "and `ack`. A message waits up to 24 hours for a subscriber's acknowledgement.",
    ),
    "compat-v2": _socket(
        "Socket of generation 2.x",
        "A WebSocket that carries JSON-RPC 2.0 in both directions, with the methods `irn_publish`, "
        "`irn_subscribe`, `irn_fetchMessages` and their like. A project that may not connect is closed with "
        "3000.",
        _AUTH,
        _PROJECT,
    ),
}
