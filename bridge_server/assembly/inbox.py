"""Inboxes: an account signs in, reads its notifications, and names its devices."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from bridge_server.assembly.foundation import Foundation
from bridge_server.assembly.projects import ProjectServices
from bridge_server.assembly.room import Room, afterwards
from bridge_server.inbox.arrivals import Arrivals
from bridge_server.inbox.device_store import DeviceStore
from bridge_server.inbox.devices import Devices
from bridge_server.inbox.handlers import InboxHandlers, InboxServices
from bridge_server.inbox.origins import origin_of_url
from bridge_server.inbox.page import InboxPage
from bridge_server.inbox.reading import InboxReads
from bridge_server.inbox.routes import inbox_routes, page_routes
from bridge_server.inbox.sign_in import SignIn
from bridge_server.inbox.sign_in_store import SignInStore
from bridge_server.inbox.store import InboxStore
from bridge_server.inbox.streams import Streams
from bridge_server.inbox.subscribing import InboxSubscriptions
from bridge_server.kernel.background import running
from bridge_server.notify.device_notices import DEVICE
from bridge_server.notify.events import Delivered
from bridge_server.push.addresses import Addresses
from bridge_server.settings.settings import Settings
from bridge_server.web.allowed_origins import AllowedOrigins, is_loopback_origin


def inbox_services(
    foundation: Foundation, projects: ProjectServices, push_addresses: Addresses
) -> InboxServices:
    """The services of inboxes. Devices are reached at `push_addresses`."""
    settings, database, clock = foundation.settings, foundation.database, foundation.clock
    store, arrivals = InboxStore(database), Arrivals(foundation.signals)
    sign_in = _sign_in(foundation)
    foundation.events.subscribe(Delivered, lambda event: arrivals.arrived(event.accounts), everywhere=True)
    return InboxServices(
        sign_in,
        InboxSubscriptions(store, projects.subscriptions),
        InboxReads(store, arrivals, clock),
        Streams(store, arrivals, sign_in.confirm, foundation.events, clock, settings.max_streams),
        Devices(DeviceStore(database), push_addresses, clock, foundation.ids, settings.max_devices),
    )


def inbox_room(foundation: Foundation, services: InboxServices) -> Room:
    """The endpoints of inboxes, and their background work."""
    settings, live = foundation.settings, foundation.live
    origins = _page_origins(settings)
    handlers = InboxHandlers(services, settings.max_wait, has_public_url=settings.public_url is not None)

    @asynccontextmanager
    async def streaming() -> AsyncIterator[None]:
        """New notifications go to the open streams."""
        streams = services.streams
        async with running(streams.deliver_forever()), running(streams.keep_alive_forever()):
            yield

    def take(now: Settings) -> None:
        handlers.longest_wait_seconds = now.max_wait
        services.streams.most_per_account = now.max_streams
        services.devices.most_per_account = now.max_devices

    live.follow(take)
    return Room(
        name="inbox",
        routes=(
            *inbox_routes(handlers, settings.inbox_body_limit, foundation.every_request, origins),
            *page_routes(InboxPage(), foundation.every_request, origins),
        ),
        running=(streaming,),
        stop=services.streams.close,
        emptied=(partial(afterwards, services.streams.end_all),),
        catch_up=services.streams.look_again,
        sweeps=(services.sign_in.sweep,),
        gauges=lambda: {"inbox_streams": services.streams.open},
        gone_handlers={DEVICE: services.devices.forget_receiver},
    )


def _page_origins(settings: Settings) -> AllowedOrigins:
    """The origins of the settings; in test mode every page of this machine is a developer's own."""
    return AllowedOrigins(settings.inbox_origins, admits=is_loopback_origin if settings.test else None)


def _sign_in(foundation: Foundation) -> SignIn:
    settings = foundation.settings
    own = origin_of_url(settings.public_url) if settings.public_url is not None else None
    return SignIn(
        SignInStore(foundation.database),
        foundation.clock,
        os.urandom,
        origins=frozenset(settings.inbox_origins) | ({own} if own is not None else set()),
        admits_loopback=settings.test,
        nonce_ttl_ms=settings.sign_in_ttl * 1000,
        token_ttl_ms=settings.inbox_token_ttl * 1000,
    )
