"""The notification service that projects' backends call, and the inboxes of accounts."""

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial

from bridge_server.assembly.foundation import Foundation
from bridge_server.assembly.room import DemoProject, Room, afterwards
from bridge_server.inbox.devices import Devices, DeviceStore
from bridge_server.inbox.page import InboxPage
from bridge_server.inbox.routes import InboxHandlers, InboxServices, inbox_routes, page_routes
from bridge_server.inbox.sign_in import SignIn, SignInLifetimes, SignInStore
from bridge_server.inbox.store import Arrivals, InboxReads, InboxStore
from bridge_server.inbox.streams import Streams
from bridge_server.kernel.background import running
from bridge_server.kernel.fields import origin_of_url
from bridge_server.notify import service
from bridge_server.notify.models import Delivered, Notification, NotifyRequest
from bridge_server.notify.routes import NotifyHandlers, notify_routes
from bridge_server.notify.service import DEVICE, Audiences, Notifications
from bridge_server.notify.store import MissedLimits, NotifyStore, SendingLimits
from bridge_server.outbox.models import OutgoingMessage
from bridge_server.projects.caip10 import parse_account
from bridge_server.projects.models import NewSubscription, ProjectId, TypeId
from bridge_server.projects.service import ProjectServices
from bridge_server.projects.subscriptions import PROJECT_EVENT
from bridge_server.push.routes import Addresses
from bridge_server.settings.settings import Settings
from bridge_server.web.metrics import Family
from bridge_server.web.routes import AllowedOrigins, is_loopback_origin

_OUTCOMES = (
    "Accounts of calls to notify since the start, by the outcome: sent, rate_limited, type_not_subscribed, "
    "not_subscribed."
)


def notifications_of(foundation: Foundation, services: ProjectServices) -> Notifications:
    """Notifications to the subscribers of projects."""
    settings = foundation.settings
    missed = foundation.live.held(lambda now: MissedLimits(now.max_missed_accounts))
    lifetimes = service.NotificationLifetimes(
        read_kept_ms=settings.read_notification_ttl * 1000,
        unread_kept_ms=settings.unread_notification_ttl * 1000,
        missed_kept_ms=settings.missed_account_ttl * 1000,
    )
    limits = SendingLimits(services.account_limit, missed)
    return Notifications(NotifyStore(foundation.database), foundation.clock, limits, lifetimes)


def notify_room(foundation: Foundation, services: ProjectServices, notifications: Notifications) -> Room:
    """The endpoints of notifications."""
    handlers = NotifyHandlers(notifications, Audiences(foundation.database, notifications), services.projects)
    settings, outcomes = foundation.settings, notifications.outcomes
    foundation.events.subscribe(Delivered, lambda event: outcomes.update(sent=len(event.accounts)))

    async def families() -> Sequence[Family]:
        rows: dict[tuple[str, ...], float] = {(outcome,): count for outcome, count in outcomes.items()}
        return [Family("notifications", _OUTCOMES, rows, ("outcome",), is_total=True)]

    return Room(
        name="notify",
        families=families,
        routes=notify_routes(handlers, settings.notify_body_limit, lists_freely=settings.test),
        sweeps=(notifications.sweep,),
    )


def projects_room(services: ProjectServices) -> Room:
    """Deletes what deleted projects have left behind. Projects have no endpoints of their own."""
    handlers = {PROJECT_EVENT: _keep_webhook}
    return Room(name="projects", sweeps=(services.projects.sweep,), gone_handlers=handlers)


async def _keep_webhook(_: OutgoingMessage) -> None:
    """Change nothing: the operator has set a project's webhook, and removes it."""


# The project that `bridge-server dev` has from the start.

_FIRST_TITLE = "Welcome"
_FIRST_BODY = "The demo project has sent this when the server started. POST /demo/notify sends the next one."


def demo_room(services: ProjectServices, notifications: Notifications, demo: DemoProject | None) -> Room:
    """Makes the project before the server answers, and again when test mode has emptied the database."""
    if demo is None:
        return Room(name="demo")

    async def ensure() -> None:
        is_new = await services.projects.ensure(demo.project_id, demo.name, demo.secret, demo.types)
        if is_new and demo.account is not None:
            account = parse_account(demo.account)
            await services.subscriptions.subscribe(demo.project_id, NewSubscription(account, None))
            first = Notification(TypeId(next(iter(demo.types))), _FIRST_TITLE, _FIRST_BODY, None)
            request = NotifyRequest(first, None, {account.spelled: account.key})
            await notifications.notify(ProjectId(demo.project_id), request)

    @asynccontextmanager
    async def before() -> AsyncIterator[None]:
        await ensure()
        yield

    @asynccontextmanager
    async def after_reset() -> AsyncIterator[None]:
        yield
        await ensure()

    return Room(name="demo", running=(before,), emptied=(after_reset,))


def inbox_services(
    foundation: Foundation, projects: ProjectServices, push_addresses: Addresses
) -> InboxServices:
    """The services of inboxes. Devices are reached at `push_addresses`."""
    settings, database, clock = foundation.settings, foundation.database, foundation.clock
    store, arrivals = InboxStore(database), Arrivals(foundation.signals)
    own = None if settings.public_url is None else origin_of_url(settings.public_url)
    origins = frozenset(filter(None, (*settings.inbox_origins, own)))
    lifetimes = SignInLifetimes(settings.sign_in_ttl * 1000, settings.inbox_token_ttl * 1000)
    sign_in = SignIn(
        SignInStore(database), clock, os.urandom, origins=origins, admits_loopback=settings.test,
        lifetimes=lifetimes,
    )  # fmt: skip
    foundation.events.subscribe(Delivered, lambda event: arrivals.arrived(event.accounts), everywhere=True)
    return InboxServices(
        sign_in,
        projects.subscriptions,
        InboxReads(store, arrivals, clock),
        Streams(store, arrivals, sign_in.confirm, foundation.events, clock, settings.max_streams),
        Devices(DeviceStore(database), push_addresses, clock, foundation.ids, settings.max_devices),
    )


def inbox_room(foundation: Foundation, services: InboxServices) -> Room:
    """The endpoints of inboxes, and their background work."""
    settings = foundation.settings
    # In test mode every page of this machine is a developer's own, and the wallet signs with published keys.
    origins = AllowedOrigins(settings.inbox_origins, admits=is_loopback_origin if settings.test else None)
    page = InboxPage(settings.test and settings.dev_accounts and settings.rpc_token is None)
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

    foundation.live.follow(take)
    return Room(
        name="inbox",
        routes=(
            *inbox_routes(handlers, settings.inbox_body_limit, foundation.every_request, origins),
            *page_routes(page, foundation.every_request, origins),
        ),
        running=(streaming,),
        stop=services.streams.close,
        emptied=(partial(afterwards, services.streams.end_all),),
        catch_up=services.streams.check_again,
        sweeps=(services.sign_in.store.sweep,),
        gauges=lambda: {"inbox_streams": services.streams.open},
        gone_handlers={DEVICE: services.devices.forget_receiver},
    )
