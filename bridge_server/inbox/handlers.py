"""Handlers of the inbox: read the request, call the service once, write the answer."""

from dataclasses import dataclass

from aiohttp import web

from bridge_server.inbox import notification_wire, wire
from bridge_server.inbox.devices import Devices
from bridge_server.inbox.models import DeviceId, Reader
from bridge_server.inbox.reading import InboxReads
from bridge_server.inbox.sign_in import SignIn
from bridge_server.inbox.streams import Streams
from bridge_server.inbox.subscribing import InboxSubscriptions
from bridge_server.projects.wire import read_wanted_types
from bridge_server.web.answers import json_answer
from bridge_server.web.event_stream import EventStream
from bridge_server.web.json_body import json_object
from bridge_server.web.own_origins import origins_of_socket
from bridge_server.web.prefer import polled, wanted_wait

_READER = web.RequestKey("reader", Reader)
_NO_ORIGINS: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class InboxServices:
    """The services that the handlers call."""

    sign_in: SignIn
    subscribing: InboxSubscriptions
    reading: InboxReads
    streams: Streams
    devices: Devices


class InboxHandlers:
    """One method per endpoint (docs/protocol.md, A.7).

    With `has_public_url` the address of the socket is not an origin of the server.
    """

    def __init__(self, services: InboxServices, longest_wait_seconds: int, has_public_url: bool) -> None:
        self._services = services
        self.longest_wait_seconds = longest_wait_seconds
        self._has_public_url = has_public_url

    async def identify(self, request: web.Request, token: str) -> str | None:
        """Authenticate an account by its token; returns the account's key, None if the token is not valid."""
        reader = await self._services.sign_in.identify(token)
        if reader is None:
            return None
        request[_READER] = reader
        return f"account:{reader.number}"

    async def nonce(self, _: web.Request) -> web.StreamResponse:
        return json_answer(wire.write_nonce(await self._services.sign_in.offer_nonce()))

    async def login(self, request: web.Request) -> web.StreamResponse:
        attempt = wire.read_sign_in(await json_object(request))
        token = await self._services.sign_in.sign_in(attempt, self._own_origins(request))
        return json_answer(wire.write_token(token))

    async def logout(self, request: web.Request) -> web.StreamResponse:
        await self._services.sign_in.sign_out(request[_READER])
        return json_answer(wire.SUCCESS)

    async def subscriptions(self, request: web.Request) -> web.StreamResponse:
        return json_answer(wire.write_overview(await self._services.subscribing.overview(request[_READER])))

    async def subscribe(self, request: web.Request) -> web.StreamResponse:
        project_id = request.match_info["project_id"]
        values = (await json_object(request)).values if await request.read() else {}
        types = read_wanted_types(values)
        subscription = await self._services.subscribing.subscribe(request[_READER], project_id, types)
        return json_answer(wire.write_subscription(project_id, subscription))

    async def unsubscribe(self, request: web.Request) -> web.StreamResponse:
        await self._services.subscribing.unsubscribe(request[_READER], request.match_info["project_id"])
        return json_answer(wire.SUCCESS)

    async def notifications(self, request: web.Request) -> web.StreamResponse:
        query = notification_wire.read_query(request.query)
        wait = wanted_wait(request, self.longest_wait_seconds)
        page = await self._services.reading.page(request[_READER].number, query, wait.seconds)
        if wait.seconds:
            await self._services.sign_in.confirm(request[_READER])
        return polled(notification_wire.write_page(page), wait)

    async def mark_read(self, request: web.Request) -> web.StreamResponse:
        ids = notification_wire.read_ids(await json_object(request))
        marked = await self._services.reading.mark_read(request[_READER].number, ids)
        return json_answer(notification_wire.write_marked(marked))

    async def stream(self, request: web.Request) -> web.StreamResponse:
        last_event = notification_wire.read_last_event(
            request.headers.get("Last-Event-ID"), request.query.get("last_event_id")
        )
        return EventStream(await self._services.streams.join(request[_READER], last_event))

    async def devices(self, request: web.Request) -> web.StreamResponse:
        return json_answer(wire.write_devices(await self._services.devices.of_reader(request[_READER])))

    async def add_device(self, request: web.Request) -> web.StreamResponse:
        devices = self._services.devices
        device = wire.read_device(await json_object(request), devices.channels)
        return json_answer(wire.write_device(await devices.add(request[_READER], device)))

    async def remove_device(self, request: web.Request) -> web.StreamResponse:
        device_id = DeviceId(request.match_info["device_id"])
        await self._services.devices.remove(request[_READER], device_id)
        return json_answer(wire.SUCCESS)

    def _own_origins(self, request: web.Request) -> frozenset[str]:
        """The origins of the socket's address. The Host header is not used, because the client chooses it."""
        if self._has_public_url or request.transport is None:
            return _NO_ORIGINS
        return origins_of_socket(request.transport.get_extra_info("sockname"))
