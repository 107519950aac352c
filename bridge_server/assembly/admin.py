"""The admin API: the services that answer an operator, and the rooms that show them."""

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial

from bridge_server.admin.accounts import AccountHandlers, AccountViews, account_routes
from bridge_server.admin.approvals import ApprovalDesk, ApprovalHandlers, approval_routes
from bridge_server.admin.clients import ClientHandlers, ClientsEverywhere, ClientViews, client_routes
from bridge_server.admin.delivery_tests import (
    DeliveryTestHandlers,
    PushTests,
    WebhookTests,
    delivery_test_routes,
)
from bridge_server.admin.notifications import NotificationHandlers, notification_routes
from bridge_server.admin.other_processes import Neighbours
from bridge_server.admin.outbox import AttemptsEverywhere, OutboxDesk, OutboxHandlers, outbox_routes
from bridge_server.admin.projects import ProjectHandlers, project_routes
from bridge_server.admin.rows import KEY_BYTES, AdminRows, Handles, guard_of
from bridge_server.admin.server import (
    NOTIFICATION,
    SettingsDesk,
    SettingsHandlers,
    StatsHandlers,
    StatsReader,
    settings_routes,
    stats_routes,
)
from bridge_server.admin.sessions import SessionHandlers, SessionsEverywhere, SessionViews, session_routes
from bridge_server.admin.traffic import TrafficHandlers, traffic_routes
from bridge_server.admin.traffic_records import CallLives, LivesEverywhere, request_fields
from bridge_server.admin.traffic_stream import TrafficStreams
from bridge_server.admin.wallet import WalletDesk, WalletDeskHandlers, wallet_desk_routes
from bridge_server.assembly.bridge import relay_service
from bridge_server.assembly.foundation import PUSHES, Foundation, Observation, noted
from bridge_server.assembly.operated import Operated
from bridge_server.assembly.projects import ProjectServices
from bridge_server.assembly.room import Room, afterwards
from bridge_server.assembly.testmode import TestMode
from bridge_server.inbox.reading import InboxReads
from bridge_server.kernel.background import running
from bridge_server.kernel.token_bucket import Limit
from bridge_server.kernel.values import dataclass
from bridge_server.notify.audiences import Audiences, AudienceStore
from bridge_server.notify.history import HistoryStore
from bridge_server.notify.models import Delivered
from bridge_server.outbox.message_store import MessageStore, pending_of
from bridge_server.relay.store import SessionList
from bridge_server.settings.settings import Settings
from bridge_server.settings.types import secret_of
from bridge_server.wallet.approvals import ApprovalStore
from bridge_server.wallet.transactions.store import TransactionListing
from bridge_server.web.addresses import Hosts
from bridge_server.web.recorder import Clients
from bridge_server.web.request_log import TurnedAway
from bridge_server.web.routes import Route

# The services that answer an operator, for the admin API and for the console.


@dataclass(frozen=True, slots=True)
class OperatorDesks:
    """One service per subject of the admin API."""

    projects: ProjectServices
    history: HistoryStore
    audiences: Audiences
    accounts: AccountViews
    inbox: InboxReads
    approvals: ApprovalDesk
    wallet: WalletDesk
    outbox: OutboxDesk
    attempts: AttemptsEverywhere
    webhook_tests: WebhookTests
    push_tests: PushTests
    settings: SettingsDesk


def operator_desks(
    foundation: Foundation, observation: Observation, operated: Operated, neighbours: Neighbours | None
) -> OperatorDesks:
    """The services of the operator, over the services of the rooms."""
    database, clock = foundation.database, foundation.clock
    projects, wallet = operated.projects, operated.wallet
    history = HistoryStore(database)
    outbox = OutboxDesk(
        MessageStore(database, pushes=PUSHES),
        operated.dispatcher,
        clock,
        observation.attempts,
        foundation.webhooks.headers,
    )
    return OperatorDesks(
        projects=projects,
        history=history,
        audiences=Audiences(AudienceStore(database), operated.notifications),
        accounts=AccountViews(
            projects.projects,
            projects.subscriptions,
            history,
            projects.device_states,
            clock,
            projects.account_limit,
        ),
        inbox=operated.inbox,
        approvals=ApprovalDesk(ApprovalStore(database), wallet.approvals, clock),
        wallet=WalletDesk(wallet.accounts, TransactionListing(database), foundation.settings.audit_file),
        outbox=outbox,
        attempts=AttemptsEverywhere(outbox, neighbours),
        webhook_tests=WebhookTests(
            noted(foundation.webhook_sender, observation), clock, foundation.ids, foundation.stopping
        ),
        push_tests=PushTests(operated.push.server),
        settings=SettingsDesk(foundation.live.shown, operated.readiness),
    )


# The admin API, for the bearer of `admin_token`.


def admin_room(foundation: Foundation, desks: OperatorDesks) -> Room:
    """The operator's endpoints; there are none without a token."""
    rows = admin_rows(foundation)
    return Room(name="admin", routes=() if rows is None else _routes(foundation, desks, rows))


def admin_rows(foundation: Foundation) -> AdminRows | None:
    """Makes the rows of the admin API; None without a token."""
    token, settings = foundation.live.token("admin_token"), foundation.settings
    if token is None:
        return None
    turned_away = TurnedAway(foundation.addresses, foundation.clock, "admin_refused", "admin_token")
    return AdminRows(
        token, settings.notify_body_limit, guard_of(Hosts(settings.operators_hosts)), turned_away.note
    )


def _routes(foundation: Foundation, desks: OperatorDesks, rows: AdminRows) -> tuple[Route, ...]:
    may_sign, limit = foundation.settings.admin_wallet, desks.projects.account_limit
    return (
        *project_routes(_project_handlers(desks.projects), rows),
        *notification_routes(NotificationHandlers(desks.history, desks.audiences), rows),
        *account_routes(AccountHandlers(desks.accounts, desks.inbox, limit), rows),
        *approval_routes(ApprovalHandlers(desks.approvals), rows, may_sign=may_sign),
        *wallet_desk_routes(WalletDeskHandlers(desks.wallet), rows, may_sign=may_sign),
        *outbox_routes(OutboxHandlers(desks.outbox, desks.attempts), rows),
        *delivery_test_routes(DeliveryTestHandlers(desks.webhook_tests, desks.push_tests), rows),
        *settings_routes(SettingsHandlers(desks.settings), rows),
    )


def _project_handlers(services: ProjectServices) -> ProjectHandlers:
    return ProjectHandlers(
        services.projects,
        services.subscriptions,
        services.device_states,
        services.account_limit,
    )


# Views of requests, clients, sessions and figures: for the admin API, and for the console.

_TURN_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class OperatorViews:
    """The services that answer an operator, through the admin API and the console."""

    observation: Observation
    handles: Handles
    streams: TrafficStreams | None
    """None when no record of requests is kept."""
    lives: LivesEverywhere
    clients: ClientsEverywhere
    sessions: SessionsEverywhere
    stats: StatsReader
    neighbours: Neighbours | None
    """The other processes on the database; None where it is a file."""


def operator_views(
    foundation: Foundation,
    observation: Observation,
    rooms: Sequence[Room],
    operated: Operated,
    neighbours: Neighbours | None,
) -> OperatorViews:
    """The views of these rooms."""
    traffic, handles = observation.traffic, Handles(_key_of_handles(foundation.settings))
    sessions = SessionList(foundation.database, foundation.clock)
    status_ms = foundation.settings.status_ttl * 1_000
    foundation.events.subscribe(
        Delivered, lambda event: observation.made.count(NOTIFICATION, len(event.accounts))
    )
    return OperatorViews(
        observation,
        handles,
        None
        if traffic is None
        else TrafficStreams(traffic, partial(request_fields, traffic=traffic, handles=handles)),
        LivesEverywhere(
            CallLives(sessions, traffic, partial(pending_of, foundation.database), status_ms),
            traffic,
            handles,
            neighbours,
        ),
        ClientsEverywhere(_clients(foundation, observation, rooms), neighbours),
        SessionsEverywhere(
            SessionViews(
                sessions,
                relay_service(foundation),
                observation.sightings,
                traffic,
                handles,
                foundation.clock,
                status_ms,
            ),
            neighbours,
        ),
        _stats(foundation, observation, sessions, rooms, operated),
        neighbours,
    )


def views_room(foundation: Foundation, views: OperatorViews) -> Room:
    """The views' endpoints in the admin API, and the work that keeps the records small."""
    streams, observation = views.streams, views.observation

    @asynccontextmanager
    async def following() -> AsyncIterator[None]:
        async with running(_turn_forever(observation.clients)):
            if streams is None:
                yield
                return
            async with running(streams.push_forever()):
                yield

    def forget() -> None:
        observation.clients.clear()
        observation.made.clear()
        observation.sightings.clear()
        observation.attempts.clear()
        if streams is not None:
            streams.end_all()

    async def catch_up() -> None:
        """Requests that are not recorded yet belong to the time before the clock is moved."""
        observation.clients.turn()

    rows, neighbours = admin_rows(foundation), views.neighbours
    return Room(
        name="observation",
        routes=()
        if rows is None
        else (
            *traffic_routes(TrafficHandlers(streams, views.lives, views.handles, neighbours), rows),
            *client_routes(ClientHandlers(views.clients, foundation.addresses), rows),
            *session_routes(SessionHandlers(views.sessions), rows),
            *stats_routes(StatsHandlers(views.stats, neighbours), rows),
        ),
        running=(following,) if neighbours is None else (neighbours.opened, following),
        stop=None if streams is None else streams.close,
        emptied=(partial(afterwards, forget),),
        catch_up=catch_up,
    )


def _key_of_handles(settings: Settings) -> bytes:
    """The key of this process; or of all that share a database and a token: each knows every handle."""
    token = secret_of(settings.admin_token)
    if settings.database is None or token is None:
        return os.urandom(KEY_BYTES)
    return hashlib.blake2b(token.encode(), digest_size=KEY_BYTES, person=b"handles").digest()


async def _turn_forever(clients: Clients) -> None:
    while True:
        await asyncio.sleep(_TURN_SECONDS)
        clients.turn()


def _clients(foundation: Foundation, observation: Observation, rooms: Sequence[Room]) -> ClientViews:
    of_routes = {limit.name: limit for room in rooms for row in room.routes for limit in row.limits}
    of_bytes = (foundation.payload_bytes.per_address, foundation.subscription_bytes.per_address)
    limits: dict[str, Limit] = {**of_routes, **{limit.name: limit for limit in of_bytes}}
    return ClientViews(
        observation.clients,
        foundation.addresses,
        foundation.connections,
        foundation.quotas,
        foundation.clock,
        tuple(limits.values()),
        observation.open_sockets,
    )


def _stats(
    foundation: Foundation,
    observation: Observation,
    sessions: SessionList,
    rooms: Sequence[Room],
    operated: Operated,
) -> StatsReader:
    def figures() -> dict[str, float]:
        return {name: value for room in rooms for name, value in room.gauges().items()}

    def pushes() -> Mapping[str, Mapping[str, int]]:
        return {channel: sender.outcomes for channel, sender in operated.push.provider_senders.items()}

    return StatsReader(
        sessions,
        observation.made,
        observation.clients,
        foundation.figures,
        figures,
        operated.stock,
        pushes,
        foundation.settings.database_file,
        foundation.clock,
    )


# The services of other rooms for the console's pages.


@dataclass(frozen=True, slots=True)
class ConsoleParts:
    """The services through which pages read and change other rooms."""

    desks: OperatorDesks
    views: OperatorViews
    operated: Operated
    test_mode: TestMode | None


@dataclass(frozen=True, slots=True)
class OperatorRooms:
    """The admin API in two rooms, and what the console's pages need once test mode is there or not."""

    admin: Room
    views: Room
    parts: Callable[[TestMode | None], ConsoleParts]


def operator_rooms(
    foundation: Foundation, observation: Observation, rooms: Sequence[Room], operated: Operated
) -> OperatorRooms:
    """The operator's rooms over these rooms. Only `admin_token` turns on the routes of the admin API."""
    neighbours = foundation.backend.neighbours(lambda: secret_of(foundation.live.current.admin_token))
    desks = operator_desks(foundation, observation, operated, neighbours)
    views = operator_views(foundation, observation, rooms, operated, neighbours)
    return OperatorRooms(
        admin_room(foundation, desks),
        views_room(foundation, views),
        partial(ConsoleParts, desks, views, operated),
    )
