"""What operators see of requests, clients, sessions and figures: for the admin API, and for the console."""

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

from bridge_server.admin.clients.handlers import ClientHandlers
from bridge_server.admin.clients.routes import client_routes
from bridge_server.admin.clients.service import ClientViews
from bridge_server.admin.handles import KEY_BYTES, Handles
from bridge_server.admin.sessions.handlers import SessionHandlers
from bridge_server.admin.sessions.routes import session_routes
from bridge_server.admin.sessions.service import SessionViews
from bridge_server.admin.stats.handlers import StatsHandlers
from bridge_server.admin.stats.routes import stats_routes
from bridge_server.admin.stats.service import NOTIFICATION, StatsReader
from bridge_server.admin.traffic.handlers import TrafficHandlers
from bridge_server.admin.traffic.lifetime import CallLives
from bridge_server.admin.traffic.routes import traffic_routes
from bridge_server.admin.traffic.stream import TrafficStreams
from bridge_server.admin.traffic.wire import request_fields
from bridge_server.assembly.admin import admin_rows
from bridge_server.assembly.foundation import Foundation
from bridge_server.assembly.observation import Observation
from bridge_server.assembly.processes import neighbours_of
from bridge_server.assembly.push import PushServices
from bridge_server.assembly.relay import relay_service
from bridge_server.assembly.room import Room, afterwards
from bridge_server.kernel.background import running
from bridge_server.kernel.token_bucket import Limit
from bridge_server.notify.events import Delivered
from bridge_server.outbox.pending import pending_of
from bridge_server.relay.session_list import SessionList
from bridge_server.settings.checks import secret_of
from bridge_server.settings.settings import Settings
from bridge_server.web.clients import Clients

_TURN_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class OperatorViews:
    """The services that answer an operator; the console has the same."""

    observation: Observation
    handles: Handles
    streams: TrafficStreams | None
    """None when no record of requests is kept."""
    lives: CallLives
    clients: ClientViews
    sessions: SessionViews
    stats: StatsReader


def operator_views(
    foundation: Foundation, observation: Observation, rooms: Sequence[Room], push: PushServices
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
        CallLives(sessions, traffic, partial(pending_of, foundation.database), status_ms),
        _clients(foundation, observation, rooms),
        SessionViews(
            sessions,
            relay_service(foundation),
            observation.sightings,
            traffic,
            handles,
            foundation.clock,
            status_ms,
        ),
        _stats(foundation, observation, sessions, rooms, push),
    )


def views_room(foundation: Foundation, views: OperatorViews) -> Room:
    """The views' endpoints in the admin API, and what keeps the records small."""
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
        """What was put off belongs to the time before the clock is moved."""
        observation.clients.turn()

    rows, neighbours = admin_rows(foundation), neighbours_of(foundation)
    return Room(
        name="observation",
        routes=()
        if rows is None
        else (
            *traffic_routes(TrafficHandlers(streams, views.lives, views.handles, neighbours), rows),
            *client_routes(ClientHandlers(views.clients, foundation.addresses, neighbours), rows),
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
    push: PushServices,
) -> StatsReader:
    def figures() -> dict[str, float]:
        return {name: value for room in rooms for name, value in room.gauges().items()}

    def pushes() -> Mapping[str, Mapping[str, int]]:
        return {channel: sender.outcomes for channel, sender in push.provider_senders.items()}

    return StatsReader(
        sessions,
        observation.made,
        observation.clients,
        foundation.figures,
        figures,
        pushes,
        foundation.settings.database_file,
        foundation.clock,
    )
