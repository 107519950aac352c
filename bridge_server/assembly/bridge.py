"""The bridge: sessions and calls in both dialects, and the WebSocket relay of generations 1.x and 2.x."""

import os
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from aiohttp import web

from bridge_server.assembly.foundation import Foundation
from bridge_server.assembly.room import Room, afterwards
from bridge_server.kernel.cache import ReadCache
from bridge_server.kernel.errors import BridgeError
from bridge_server.kernel.token_bucket import Limit, per_second
from bridge_server.outbox.topics import TOPIC_WEBHOOK
from bridge_server.pubsub import queues
from bridge_server.pubsub.frames import Frames
from bridge_server.pubsub.routes import PubSubHandlers, pubsub_routes
from bridge_server.pubsub.v1_sockets import PubSub
from bridge_server.pubsub.v1_store import Journal, Message, TopicStore, notice_of
from bridge_server.pubsub.v1_topics import Deliveries, SharedTopics, Topics
from bridge_server.pubsub.v2_models import ClientLimits
from bridge_server.pubsub.v2_service import Irn, IrnLimits
from bridge_server.pubsub.v2_store import IrnStore
from bridge_server.pubsub.v2_tokens import ClientAdmission, ClientTokens
from bridge_server.relay import service
from bridge_server.relay.models import CALL_WEBHOOK, Caps, Lifetimes
from bridge_server.relay.routes import RelayCharges, RelayHandlers, relay_routes
from bridge_server.relay.store import RelayStore, RelaySweepStore
from bridge_server.relay.wire import PLAIN, V07, Dialect
from bridge_server.settings.settings import Settings
from bridge_server.web.routes import Handler, Route


def relay_room(foundation: Foundation) -> Room:
    """Sessions, calls, and subscriptions to them."""
    settings, live, clock = foundation.settings, foundation.live, foundation.clock
    store = RelayStore(foundation.database)
    relay = relay_service(foundation)
    # Another process may have changed what PostgreSQL holds: nothing that was read is kept.
    cache = ReadCache(settings.cache_bytes if settings.database is None else 0, service.OWNER_KINDS)
    cache.subscribe_to(foundation.events)
    reads = service.RelayReads(store, cache, foundation.signals, clock)
    new_sessions = live.held(
        lambda now: per_second("new-sessions", now.sessions_per_minute / 60, now.sessions_burst)
    )
    charges = RelayCharges(foundation.payload_bytes, foundation.subscription_bytes)

    def rows(dialect: Dialect, webhook_rule: service.WebhookRule | None) -> tuple[Route, ...]:
        handlers = RelayHandlers(relay, reads, dialect, settings.max_wait, charges, webhook_rule)

        def take(now: Settings) -> None:
            handlers.longest_wait_seconds = now.max_wait

        live.follow(take)
        return relay_routes(
            handlers, dialect, body_limit_bytes=settings.relay_body_limit,
            every_request=foundation.every_request, new_sessions=new_sessions,
        )  # fmt: skip

    def routes(webhook_rule: service.WebhookRule | None = None) -> tuple[Route, ...]:
        return (*rows(PLAIN, webhook_rule), *rows(V07, webhook_rule))

    return Room(
        name="relay",
        routes=routes(),
        lan_routes=routes(service.public_webhook),
        emptied=(partial(afterwards, cache.clear),),
        sweeps=service.relay_sweeps(RelaySweepStore(foundation.database)),
        gone_handlers={CALL_WEBHOOK: relay.forget_receiver, TOPIC_WEBHOOK: relay.forget_receiver},
    )


def relay_service(foundation: Foundation) -> service.Relay:
    """The rules of sessions and calls."""
    settings = foundation.settings
    lifetimes = Lifetimes(
        session_ms=settings.session_ttl * 1000,
        call_ms=settings.call_ttl * 1000,
        status_ms=settings.status_ttl * 1000,
        subscription_ms=settings.subscription_ttl * 1000,
    )
    caps = foundation.live.held(lambda now: Caps(now.max_pending_calls, now.max_topic_webhooks))
    return service.Relay(RelayStore(foundation.database), foundation.clock, foundation.ids, lifetimes, caps)


_IRN_HEARTBEAT_SECONDS = 20
"""JavaScript clients of generation 2.x give up a socket on which nothing has come for 35 seconds."""


class PubSubServices(NamedTuple):
    """The services of the sockets: of generation 1.x and of 2.x."""

    first: PubSub
    second: Irn


def pubsub_services(foundation: Foundation) -> PubSubServices:
    """Both generations, whose sockets are counted together by address."""
    open_from = Counter() if foundation.observation is None else foundation.observation.open_sockets
    limits = foundation.live.held(lambda now: queues.SocketLimits(
        per_address=now.max_sockets, topics=now.max_socket_topics, address_topics=now.max_address_topics,
        unacknowledged=2 * now.max_topic_messages, heartbeat_seconds=now.heartbeat,
    ))  # fmt: skip
    shares = queues.SocketShares(limits, open_from)
    return PubSubServices(_first(foundation, shares), _second(foundation, shares))


def pubsub_room(foundation: Foundation, services: PubSubServices, front: Handler) -> Room:
    """Sockets, topics, and the messages that wait on them. `front` answers browsers at the root."""
    settings, (pubsub, irn) = foundation.settings, services

    def audience_of(request: web.Request) -> str | None:
        return settings.public_url or f"ws://{request.host}" if settings.relay_check_audience else None

    admission = ClientAdmission(ClientTokens(foundation.clock), audience_of, frozenset(settings.project_ids))
    handlers = PubSubHandlers(
        pubsub, irn, admission, foundation.addresses.bucket_key, settings.message_limit, front
    )

    def stop() -> None:
        pubsub.close()
        irn.close()

    routes = pubsub_routes(handlers, foundation.every_request)
    return Room(
        name="pubsub",
        routes=routes,
        lan_routes=routes,
        running=(pubsub.running, irn.running),
        stop=stop,
        emptied=(pubsub.emptied, irn.emptied),
        sweeps=(pubsub.sweep, irn.sweep),
        gauges=lambda: {"sockets": pubsub.sockets + irn.sockets, "socket_topics": pubsub.topics + irn.topics},
    )


def _first(foundation: Foundation, shares: queues.SocketShares) -> PubSub:
    """Generation 1.x."""
    clock, live, limits = foundation.clock, foundation.live, shares.limits
    messages, queue = live.held(_messages), live.held(_queue_limits)
    store = TopicStore(foundation.database, foundation.payload_bytes)

    def delivering(refuse: Callable[[Message, BridgeError], None]) -> tuple[Journal, Deliveries]:
        journal = Journal(store, clock, foundation.ids, queue, refuse)
        if foundation.database_file is not None:
            return journal, Topics(store, journal, clock, queue)
        return journal, SharedTopics(store, journal, clock, queue, foundation.events)

    return PubSub(
        store,
        delivering,
        queues.OpenSockets(shares, lambda: limits.heartbeat_seconds, _frames(foundation, "1.x")),
        lambda address: foundation.quotas.charge(address, (messages,)).later,
        os.urandom,
    )


def _second(foundation: Foundation, shares: queues.SocketShares) -> Irn:
    """Generation 2.x."""
    settings, live = foundation.settings, foundation.live
    clients = live.held(
        lambda now: ClientLimits(
            queues.Share(now.max_client_messages, now.max_client_bytes),
            topics=now.max_client_topics,
            topic_clients=now.max_topic_clients,
            remembered_calls=now.max_remembered_calls,
            subscription_ms=settings.subscription_ttl * 1000,
            heartbeat_seconds=min(now.heartbeat, _IRN_HEARTBEAT_SECONDS),
        )
    )
    return Irn(
        IrnStore(
            foundation.database, foundation.payload_bytes, foundation.subscription_bytes,
            partial(notice_of, foundation.ids),
        ),
        foundation.clock,
        IrnLimits(live.held(_queue_limits), clients, settings.message_limit),
        queues.OpenSockets(shares, lambda: clients.heartbeat_seconds, _frames(foundation, "2.x")),
        queues.MessageCharges(foundation.quotas, live.held(_messages)),
        foundation.events,
    )  # fmt: skip


def _frames(foundation: Foundation, generation: str) -> Frames | None:
    """The record of what sockets carry; None where no requests are recorded."""
    traffic, is_shared = foundation.traffic, foundation.database_file is None
    return None if traffic is None else Frames(traffic, foundation.clock, generation, is_shared=is_shared)


def _messages(settings: Settings) -> Limit:
    return per_second("messages", settings.messages_per_second, settings.messages_burst)


def _queue_limits(settings: Settings) -> queues.QueueLimits:
    return queues.QueueLimits(
        topic=queues.Share(settings.max_topic_messages, settings.max_topic_bytes),
        address=queues.Share(settings.max_address_messages, settings.max_address_bytes),
        lifetime_ms=settings.message_ttl * 1000,
    )
