"""The operator's side: one service per subject, for the admin API and for the console, and its two rooms."""

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, nullcontext
from functools import partial

from bridge_server.admin import accounts, clients, delivery_tests, notifications, outbox, server
from bridge_server.admin.other_processes import Cluster, Neighbours
from bridge_server.admin.projects import ProjectAdmin, project_routes
from bridge_server.admin.rows import KEY_BYTES, AdminRows, Handles
from bridge_server.admin.sessions import SessionAdmin, TopicAdmin, session_routes
from bridge_server.admin.traffic import TrafficAdmin, traffic_routes
from bridge_server.admin.traffic_records import CallLives, Requests
from bridge_server.admin.traffic_stream import TrafficStreams
from bridge_server.admin.wallet import ApprovalAdmin, WalletAdmin, approval_routes, wallet_routes
from bridge_server.assembly.bridge import relay_service
from bridge_server.assembly.foundation import PUSHES, Foundation, Observation, noted
from bridge_server.assembly.room import Room, afterwards
from bridge_server.assembly.system_routes import Services
from bridge_server.kernel.background import running
from bridge_server.kernel.token_bucket import Limit
from bridge_server.notify.history import HistoryStore
from bridge_server.notify.models import Delivered
from bridge_server.notify.service import Audiences
from bridge_server.outbox.message_store import MessageStore, pending_of
from bridge_server.pubsub.v2_list import TopicList
from bridge_server.relay.store import SessionList
from bridge_server.settings.settings import Settings
from bridge_server.settings.types import secret_of
from bridge_server.wallet.approvals import ApprovalStore
from bridge_server.wallet.transactions.store import TransactionListing
from bridge_server.web.addresses import Hosts
from bridge_server.web.request_log import TurnedAway
from bridge_server.web.routes import Access, Route

_TURN_SECONDS = 20.0
_OTHER_HOST = "reach it as localhost or by its address, or name the host in rpc_hosts."


class Operator:
    """One service per subject of the admin API, over the services of the rooms."""

    def __init__(
        self, foundation: Foundation, observation: Observation, rooms: Sequence[Room], services: Services
    ) -> None:
        database, clock, settings = foundation.database, foundation.clock, foundation.settings
        projects, wallet, traffic = services.projects, services.wallet, observation.traffic
        self.foundation = foundation
        self.observation = observation
        self.services = services
        neighbours: Neighbours | None = None
        if foundation.database_file is None:  # other processes may use the database, too
            backend, live = foundation.backend, foundation.live
            neighbours = Neighbours(
                backend.processes, backend.own_number, lambda: secret_of(live.current.admin_token)
            )
        self.neighbours = neighbours
        processes = Cluster(neighbours)
        self.handles = Handles(_key_of_handles(settings))
        self.requests = Requests(traffic, self.handles, clock)
        self.streams = None if traffic is None else TrafficStreams(traffic, self.requests.fields)
        self.history = history = HistoryStore(database)
        self.audiences = Audiences(database, services.notifications)
        self.accounts = accounts.AccountAdmin(projects, history, clock)
        self.approvals = ApprovalAdmin(ApprovalStore(database), wallet.approvals, clock)
        self.wallet = WalletAdmin(wallet.accounts, TransactionListing(database), settings.audit_file)
        self.outbox = outbox.OutboxAdmin(
            MessageStore(database, pushes=PUSHES), services.dispatcher, clock, observation.attempts,
            foundation.webhooks.headers, processes,
        )  # fmt: skip
        sender = noted(foundation.webhook_sender, observation)
        self.webhook_tests = delivery_tests.WebhookTests(sender, clock, foundation.ids, foundation.stopping)
        self.push_tests = delivery_tests.PushTests(services.push.server)
        self.settings = server.SettingsAdmin(foundation.live.shown, services.readiness)
        sessions, status_ms = SessionList(database, clock), settings.status_ttl * 1_000
        self.lives = CallLives(sessions, self.requests, partial(pending_of, database), status_ms, processes)
        relay, seen = relay_service(foundation), observation.activities
        self.sessions = SessionAdmin(self.lives, relay, seen)
        sockets_on = services.sockets.second.sockets_on
        self.topics = TopicAdmin(TopicList(database, clock), sockets_on, traffic, processes)
        limits = _limits(foundation, observation, rooms)
        self.clients = clients.ClientAdmin(observation.clients, limits, processes)
        senders = services.push.provider_senders
        sources = server.FigureSources(
            sessions, observation.made, observation.clients,
            lambda: {name: value for room in rooms for name, value in room.gauges().items()},
            foundation.figures, services.stock,
            lambda: {channel: sender.outcomes for channel, sender in senders.items()},
            settings.database_file,
        )  # fmt: skip
        self.stats = server.StatsAdmin(sources, clock, processes)
        count = partial(observation.made.count, server.NOTIFICATION)
        foundation.events.subscribe(Delivered, lambda event: count(len(event.accounts)))

    def room(self) -> Room:
        """The endpoints over the rooms' services; there are none without `admin_token`."""
        rows = _rows(self.foundation)
        if rows is None:
            return Room(name="admin")
        may_sign, projects = self.foundation.settings.admin_wallet, self.services.projects
        sending = notifications.NotificationAdmin(self.history, self.audiences)
        routes = (
            *project_routes(ProjectAdmin(projects), rows),
            *notifications.notification_routes(sending, rows),
            *accounts.account_routes(self.accounts, accounts.InboxAdmin(self.services.inbox), rows),
            *approval_routes(self.approvals, rows, may_sign=may_sign),
            *wallet_routes(self.wallet, rows, may_sign=may_sign),
            *outbox.outbox_routes(self.outbox, rows),
            *delivery_tests.delivery_test_routes(self.webhook_tests, self.push_tests, rows),
            *server.settings_routes(self.settings, rows),
        )
        return Room(name="admin", routes=routes)

    def watching_room(self) -> Room:
        """The endpoints over the records of requests, and the work that keeps the records small."""
        rows, streams, observation = _rows(self.foundation), self.streams, self.observation

        @asynccontextmanager
        async def following() -> AsyncIterator[None]:
            pushing = nullcontext() if streams is None else running(streams.push_forever())
            async with running(turn_forever()), pushing:
                yield

        async def turn_forever() -> None:
            while True:
                await asyncio.sleep(_TURN_SECONDS)
                observation.clients.turn()

        def forget() -> None:
            kept = (observation.clients, observation.made, observation.activities, observation.attempts)
            for records in kept:
                records.clear()
            if streams is not None:
                streams.end_all()

        async def catch_up() -> None:
            """Requests that are not recorded yet belong to the time before the clock is moved."""
            observation.clients.turn()

        routes: tuple[Route, ...] = ()
        if rows is not None:
            traffic = TrafficAdmin(streams, self.lives)
            routes = (
                *traffic_routes(traffic, rows),
                *clients.client_routes(self.clients, rows),
                *session_routes(self.sessions, self.topics, rows),
                *server.stats_routes(self.stats, rows),
            )
        return Room(
            name="observation",
            routes=routes,
            running=(following,) if self.neighbours is None else (self.neighbours.opened, following),
            stop=None if streams is None else streams.close,
            emptied=(partial(afterwards, forget),),
            catch_up=catch_up,
        )


def _rows(foundation: Foundation) -> AdminRows | None:
    """Makes the rows of the admin API; None without a token."""
    token, settings = foundation.live.token("admin_token"), foundation.settings
    if token is None:
        return None
    turned_away = TurnedAway(foundation.addresses, foundation.clock, "admin_refused", "admin_token")
    guard = Hosts(settings.operators_hosts).guard("The admin API does not answer to", _OTHER_HOST)
    access = Access(guard=guard, bearer=token, on_refusal=turned_away.note)
    return AdminRows(access, settings.notify_body_limit)


def _key_of_handles(settings: Settings) -> bytes:
    """The key of this process; or of all that share a database and a token: each knows every handle."""
    token = secret_of(settings.admin_token)
    if settings.database is None or token is None:
        return os.urandom(KEY_BYTES)
    return hashlib.blake2b(token.encode(), digest_size=KEY_BYTES, person=b"handles").digest()


def _limits(foundation: Foundation, observation: Observation, rooms: Sequence[Room]) -> clients.AddressLimits:
    of_routes = [limit for room in rooms for row in room.routes for limit in row.limits]
    of_bytes = (foundation.payload_bytes.per_address, foundation.subscription_bytes.per_address)
    limits: dict[str, Limit] = {limit.name: limit for limit in (*of_routes, *of_bytes)}
    return clients.AddressLimits(
        foundation.addresses, foundation.connections, foundation.quotas, foundation.clock,
        tuple(limits.values()), observation.open_sockets,
    )  # fmt: skip
