"""The push server's endpoints (docs/protocol.md, C): their JSON, their handlers and their rows.

A push channel turns a device's token into its address in the outbox.
"""

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

import orjson
from aiohttp import web
from pydantic import AfterValidator, Field
from yarl import URL

from bridge_server.kernel.errors import Fault
from bridge_server.kernel.fields import PUSH_TOKEN_MAX_CHARACTERS, PUSH_TYPE_MAX_CHARACTERS, http_url
from bridge_server.kernel.token_bucket import Limit
from bridge_server.outbox.models import DeviceEndpoint
from bridge_server.outbox.topics import TooManyWebhooksError, Topic
from bridge_server.push import models, notices
from bridge_server.push.service import PushServer
from bridge_server.web import answers, shapes
from bridge_server.web.addresses import origins_of_socket
from bridge_server.web.bodies import WEB_URL, JsonObject, Shape, check, json_object
from bridge_server.web.limits import StoredBytes
from bridge_server.web.routes import ANY_PAGE, About, DescribedAnswer, Handler, Parameter, Route

_MESSAGE_ID = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)

_TOPIC = "0192f7c8-7e6a-7d2b-b0a5-0f7f3c1d2e4f"
_CLIENT = {
    "bridge": "https://bridge.example.org",
    "topic": _TOPIC,
    "type": "log",
    "token": "d7Zt3k",
    "peerName": "Example Shop",
    "language": "en",
}
_MESSAGE_HEADER = Parameter(
    "webhook-id",
    "The id of the message, the same in every attempt (Standard Webhooks): providers show it once.",
    place="header",
)

_REGISTERED = b'{"success":true}'
_PUSHED = b'{"success":true,"successs":true}'
"""The field `successs` is spelled as in the protocol; `success` is added for clients that expect it."""

_ALIASES = {"apn": "apns"}

_TOPIC_MAX_CHARACTERS = 128
_TEXT_MAX_CHARACTERS = 1_024

AddressOf = Callable[[str], DeviceEndpoint]
"""Converts a channel's token. Raises ValueError, which describes the form of a valid token."""

TopicText = Annotated[str, Field(min_length=1, max_length=_TOPIC_MAX_CHARACTERS)]


class Addresses:
    """The configured channels by name."""

    def __init__(self, channels: Mapping[str, AddressOf]) -> None:
        self._channels = dict(channels)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the configured channels."""
        return tuple(sorted(self._channels))

    def named(self, name: str) -> str | None:
        """The channel with this name or alias, in any letter case; None if it is not configured."""
        lower = name.lower()
        channel = _ALIASES.get(lower, lower)
        return channel if channel in self._channels else None

    def address(self, channel: str, token: str) -> DeviceEndpoint:
        """The address of a device. Raises ValueError if the token does not have the channel's form."""
        return self._channels[channel](token)


def _bridge_url(text: str) -> str:
    if "?" in text or "#" in text:
        raise ValueError("must have no query and no fragment: its path is continued by /subscribe")
    return http_url(text)


class ClientShape(Shape):
    """The body of POST /new."""

    bridge: Annotated[str, AfterValidator(_bridge_url), WEB_URL]
    topic: TopicText
    type: Annotated[str, Field(min_length=1, max_length=PUSH_TYPE_MAX_CHARACTERS)]
    token: Annotated[str, Field(min_length=1, max_length=PUSH_TOKEN_MAX_CHARACTERS)]
    peerName: Annotated[str, Field(max_length=_TEXT_MAX_CHARACTERS)]  # noqa: N815 - the protocol's spelling
    language: Annotated[str, Field(max_length=_TEXT_MAX_CHARACTERS)]


class PushTopicShape(Shape):
    """The body of POST /push."""

    topic: TopicText


class PushedAnswer(shapes.SuccessAnswer):
    """The provider took the push. `successs` is the protocol's spelling."""

    successs: Literal[True]


def read_client(document: JsonObject, addresses: Addresses) -> tuple[models.Registration, int]:
    """Read a registration; returns also the number of bytes that storing it takes."""
    faults: list[Fault] = []
    name, token = document.values.get("type"), document.values.get("token")
    channel = address = None
    if isinstance(name, str) and 0 < len(name) <= PUSH_TYPE_MAX_CHARACTERS:
        channel = addresses.named(name)
        if channel is None:
            configured = ", ".join(addresses.names)
            faults.append(Fault("#/type", f"is not a configured type: choose from {configured}"))
    if channel is not None and isinstance(token, str) and 0 < len(token) <= PUSH_TOKEN_MAX_CHARACTERS:
        try:
            address = addresses.address(channel, token)
        except ValueError as error:
            faults.append(Fault("#/token", str(error)))
    shape = check(ClientShape, document.values, faults, may_misspell=True)
    assert channel is not None
    assert address is not None  # check() has raised otherwise
    texts = (shape.bridge, shape.topic, channel, shape.token, shape.peerName, shape.language)
    registration = models.Registration(
        Topic(shape.topic), shape.bridge, channel, address, shape.peerName, shape.language
    )
    return registration, sum(len(text.encode()) for text in texts)


def webhook_address(token: str) -> DeviceEndpoint:
    """The address of a webhook; its token is its URL. Raises ValueError."""
    return DeviceEndpoint(http_url(token), None)


def service_address(channel: str, checked: Callable[[str], str]) -> AddressOf:
    """Converter for a channel whose devices are all reached through one service, such as FCM."""
    return lambda token: DeviceEndpoint(f"{channel}:{checked(token)}", channel)


def webpush_address(checked: Callable[[str], str]) -> AddressOf:
    """Converter for Web Push: a lane per push service. `checked` returns a subscription with `endpoint`."""

    def read(token: str) -> DeviceEndpoint:
        subscription = checked(token)
        origin = URL(orjson.loads(subscription)["endpoint"]).origin()
        return DeviceEndpoint(f"webpush:{subscription}", f"webpush {origin}")

    return read


class PushHandlers:
    """One method per endpoint (docs/protocol.md, C). Without a `public_url` the server's own URL is derived
    from the socket's address; it may be local, so other servers get it only with `allow_private`.
    """

    def __init__(
        self,
        service: PushServer,
        addresses: Addresses,
        public_url: str | None,
        allow_private: bool,
        subscriptions: StoredBytes,
    ) -> None:
        self._service = service
        self._subscriptions = subscriptions
        self._allow_private = allow_private
        self._addresses = addresses
        self._public_url = public_url

    async def register(self, request: web.Request) -> web.StreamResponse:
        """Registers a device for a topic, which is a session's id, and subscribes this server's own `/push`
        at the bridge. If the bridge refuses, nothing is registered. `type` is `fcm`, `apns`, `webpush`,
        `webhook` or `log`, as far as the operator has configured them.
        """
        registration, size_bytes = read_client(await json_object(request), self._addresses)
        own_urls = self._own_urls(request)
        with self._subscriptions.bill(request, size_bytes) as bill:
            if bill.late is not None:
                await bill.late
            await self._service.register(registration, own_urls, self._push_url(own_urls), bill)
        return bill.declared_on(answers.json_answer(_REGISTERED))

    async def push(self, request: web.Request) -> web.StreamResponse:
        """A bridge calls it with a topic. The device shows 'New request from ...' in its language. If the
        provider calls the token dead, the registration is removed.
        """
        document = await json_object(request)
        faults = []
        if document.values.get("event") == notices.REQUEST:
            faults.append(Fault("#/event", "is the event of a push: a push must not cause another push"))
        topic = Topic(check(PushTopicShape, document.values, faults, may_misspell=True).topic)
        message_id = request.headers.get("webhook-id", "")
        await self._service.push(topic, message_id if _MESSAGE_ID.fullmatch(message_id) else None)
        return answers.json_answer(_PUSHED)

    def _push_url(self, own_urls: frozenset[str]) -> str | None:
        if self._public_url is not None:
            return f"{self._public_url}/push"
        return f"{min(own_urls)}/push" if self._allow_private and own_urls else None

    def _own_urls(self, request: web.Request) -> frozenset[str]:
        if self._public_url is not None:
            return frozenset({self._public_url})
        return origins_of_socket(request.transport and request.transport.get_extra_info("sockname"))


def push_routes(
    handlers: PushHandlers, body_limit_bytes: int, every_request: Limit, new_clients: Limit
) -> tuple[Route, ...]:
    """Both endpoints of the push server. Any origin may call them, because wallets can be web pages."""

    def row(path: str, name: str, work: Handler, who: str, limits: tuple[Limit, ...], **about: Any) -> Route:
        return Route(
            method="POST", path=path, name=name, handler=work, body_limit_bytes=body_limit_bytes,
            limits=limits, access=ANY_PAGE, who=who, about=About(work=work, tag="Push", **about),
        )  # fmt: skip

    return (
        row("/new", "register-push", handlers.register, "wallet", (every_request, new_clients),
            summary="Register a wallet for pushes", answers=shapes.done("It is registered."),
            problems=(models.BridgeRefusedError, models.TooManyPushesError, TooManyWebhooksError),
            body=ClientShape, body_example=_CLIENT),
        row("/push", "push", handlers.push, "bridge", (every_request,),
            summary="Push to the wallet of a topic",
            answers=(DescribedAnswer(200, "The provider took it.", PushedAnswer),),
            problems=(models.TopicNotFoundError, models.TokenDeadError, models.ProviderFailedError,
                      models.TooManyPushesError),
            body=PushTopicShape, body_example={"topic": _TOPIC}, parameters=(_MESSAGE_HEADER,)),
    )  # fmt: skip
