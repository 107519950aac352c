"""The routes of the push server (docs/protocol.md, C)."""

import re
from typing import Any

from aiohttp import web

from bridge_server.kernel.token_bucket import Limit
from bridge_server.outbox.topics import TooManyWebhooksError
from bridge_server.push import wire
from bridge_server.push.models import (
    BridgeRefusedError,
    ProviderFailedError,
    TokenDeadError,
    TooManyPushesError,
    TopicNotFoundError,
)
from bridge_server.push.service import PushServer
from bridge_server.push.wire import Addresses
from bridge_server.web.addresses import origins_of_socket
from bridge_server.web.answers import json_answer
from bridge_server.web.bodies import json_object
from bridge_server.web.limits import StoredBytes
from bridge_server.web.routes import ANY_PAGE, About, DescribedAnswer, Handler, Parameter, Route
from bridge_server.web.shapes import done

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


class PushHandlers:
    """One method per endpoint (docs/protocol.md, C). Without a `public_url` the server's own URL is derived
    from the socket's address. Other servers are given that URL only with `allow_private`, because it may be
    reachable only from this machine.
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
        client, address = wire.read_client(await json_object(request), self._addresses)
        own_urls = self._own_urls(request)
        with self._subscriptions.bill(request, client.size_bytes) as bill:
            if bill.late is not None:
                await bill.late
            await self._service.register(client, address, own_urls, self._push_url(own_urls))
        return bill.declared_on(json_answer(wire.REGISTERED))

    async def push(self, request: web.Request) -> web.StreamResponse:
        """A bridge calls it with a topic. The device shows 'New request from ...' in its language. If the
        provider calls the token dead, the registration is removed.
        """
        topic = wire.read_topic(await json_object(request))
        await self._service.push(topic, _message_id(request))
        return json_answer(wire.PUSHED)

    def _push_url(self, own_urls: frozenset[str]) -> str | None:
        if self._public_url is not None:
            return f"{self._public_url}/push"
        return f"{min(own_urls)}/push" if self._allow_private and own_urls else None

    def _own_urls(self, request: web.Request) -> frozenset[str]:
        if self._public_url is not None:
            return frozenset({self._public_url})
        transport = request.transport
        return origins_of_socket(transport.get_extra_info("sockname") if transport is not None else None)


def _message_id(request: web.Request) -> str | None:
    """The `webhook-id` header, which is the same in every attempt (Standard Webhooks); None if missing."""
    sent = request.headers.get("webhook-id", "")
    return sent if _MESSAGE_ID.fullmatch(sent) else None


def push_routes(
    handlers: PushHandlers, body_limit_bytes: int, every_request: Limit, new_clients: Limit
) -> tuple[Route, ...]:
    """Both endpoints of the push server. Any origin may call them, because wallets can be web pages."""

    def row(
        path: str, name: str, handler: Handler, who: str, limits: tuple[Limit, ...], **about: Any
    ) -> Route:
        return Route(
            method="POST", path=path, name=name, handler=handler, body_limit_bytes=body_limit_bytes,
            limits=limits, access=ANY_PAGE, who=who, about=About(work=handler, tag="Push", **about),
        )  # fmt: skip

    return (
        row("/new", "register-push", handlers.register, "wallet", (every_request, new_clients),
            summary="Register a wallet for pushes", answers=done("It is registered."),
            problems=(BridgeRefusedError, TooManyPushesError, TooManyWebhooksError),
            body=wire.ClientShape, body_example=_CLIENT),
        row("/push", "push", handlers.push, "bridge", (every_request,),
            summary="Push to the wallet of a topic",
            answers=(DescribedAnswer(200, "The provider took it.", wire.PushedAnswer),),
            problems=(TopicNotFoundError, TokenDeadError, ProviderFailedError, TooManyPushesError),
            body=wire.PushTopicShape, body_example={"topic": _TOPIC}, parameters=(_MESSAGE_HEADER,)),
    )  # fmt: skip
