"""Models of the push server: notices, registrations, failures."""

from collections.abc import Mapping
from dataclasses import field
from typing import NamedTuple

from bridge_server.kernel.errors import GoneError, NotFoundError, UnavailableError, UpstreamError
from bridge_server.kernel.values import dataclass
from bridge_server.outbox.models import DeviceEndpoint
from bridge_server.outbox.topics import Topic

OWN_CHANNEL = "push"
OWN_WEBHOOK = f"{OWN_CHANNEL}:"
"""The webhook of this push server at its own bridge: a channel of the outbox, called without HTTP."""


@dataclass(frozen=True, slots=True)
class PushNotice:
    """The content of a push. `message_id` stays for all attempts, so that receivers can drop repeats. `data`
    holds further members for the receiving app; names and values are short strings.
    """

    message_id: str
    title: str
    body: str
    url: str | None = None
    data: Mapping[str, str] = field(default_factory=dict)
    ttl_seconds: int = 86_400


class Registration(NamedTuple):
    """A registered client, which receives a push for each message on its topic."""

    topic: Topic
    bridge: str
    channel: str
    address: DeviceEndpoint
    peer_name: str
    language: str


class TopicNotFoundError(NotFoundError, code="topic-not-found", title="Topic not found"):
    """No client is registered for the topic, or its registration has expired."""

    detail = "No client is registered for this topic, or its registration has expired."


class BridgeRefusedError(UpstreamError, code="bridge-refused", title="The bridge refused"):
    """The bridge that the client named does not accept the subscription."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"The bridge did not take the subscription: {reason}. Nothing is registered.")


class ProviderFailedError(UpstreamError, code="provider-failed", title="The push provider failed"):
    """The provider did not accept the push. The reason is logged for the operator, not answered."""

    def __init__(self, reason: str) -> None:
        super().__init__("The provider did not take the push. The request id finds the reason in the log.")
        self.reason = reason


class TooManyPushesError(UnavailableError, code="too-many-pushes", title="Too many pushes at once"):
    """The limit of concurrent pushes, or of registrations at other bridges, is reached."""

    def __init__(self) -> None:
        super().__init__("Too many pushes or registrations wait for other servers. Try again.")


class TokenDeadError(GoneError, code="token-dead", title="The push token is dead"):
    """The provider reports that the client's token is no longer valid."""

    detail = "The provider reports that the token is no longer valid, so the registration was removed."
