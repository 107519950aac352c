"""The WebSocket relay of generations 1.x and 2.x."""

import os
from collections import Counter
from collections.abc import Awaitable
from functools import partial

from aiohttp import web

from bridge_server.assembly.foundation import Foundation
from bridge_server.assembly.room import Room
from bridge_server.kernel.token_bucket import Limit, per_second
from bridge_server.pubsub.handlers import PubSubHandlers
from bridge_server.pubsub.irn.admission import ClientAdmission
from bridge_server.pubsub.irn.models import ClientLimits
from bridge_server.pubsub.irn.service import Irn
from bridge_server.pubsub.irn.store import IrnStore
from bridge_server.pubsub.irn.tokens import ClientTokens
from bridge_server.pubsub.queues.models import QueueLimits, Share, SocketLimits
from bridge_server.pubsub.routes import pubsub_routes
from bridge_server.pubsub.service import PubSub
from bridge_server.pubsub.shared_topics import SharedTopics
from bridge_server.pubsub.store import TopicStore
from bridge_server.pubsub.topics import Topics
from bridge_server.pubsub.wire import notice_of
from bridge_server.settings.settings import Settings
from bridge_server.web.charges import Cost

_IRN_HEARTBEAT_SECONDS = 20
"""JavaScript clients of generation 2.x give up a socket on which nothing has come for 35 seconds."""


def pubsub_room(foundation: Foundation) -> Room:
    """Sockets, topics, and the messages that wait on them."""
    settings = foundation.settings
    open_from = Counter() if foundation.observation is None else foundation.observation.open_sockets
    pubsub, irn = _first(foundation, open_from), _second(foundation, open_from)
    handlers = PubSubHandlers(
        pubsub, irn, _admission(foundation), foundation.addresses.bucket_key, settings.message_limit
    )

    def stop() -> None:
        pubsub.close()
        irn.close()

    return Room(
        name="pubsub",
        routes=pubsub_routes(handlers, foundation.every_request),
        running=(pubsub.running, irn.running),
        stop=stop,
        emptied=(pubsub.emptied, irn.emptied),
        sweeps=(pubsub.sweep, irn.sweep),
        gauges=lambda: {
            "sockets": pubsub.sockets + irn.sockets,
            "socket_topics": pubsub.topics + irn.topics,
        },
    )


def _first(foundation: Foundation, open_from: Counter[str]) -> PubSub:
    """Generation 1.x."""
    live = foundation.live
    messages = live.held(_messages)
    is_alone = foundation.database_file is not None
    return PubSub(
        TopicStore(foundation.database, foundation.payload_bytes),
        foundation.clock,
        foundation.ids,
        os.urandom,
        live.held(_queue_limits),
        live.held(_socket_limits),
        open_from,
        charge=lambda address: foundation.quotas.charge(address, (messages,)).later,
        deliveries=Topics if is_alone else partial(SharedTopics, events=foundation.events),
    )


def _second(foundation: Foundation, open_from: Counter[str]) -> Irn:
    """Generation 2.x."""
    live = foundation.live
    messages = live.held(_messages)

    def charge(address: str, count: int) -> Awaitable[None] | None:
        tokens = min(count, messages.burst)
        if foundation.quotas.take((messages.name, address), messages, tokens):
            return None
        return foundation.quotas.charge_costs((Cost(address, messages, tokens),))

    return Irn(
        IrnStore(foundation.database, foundation.payload_bytes, foundation.subscription_bytes),
        foundation.clock,
        live.held(_queue_limits),
        live.held(_socket_limits),
        live.held(partial(_client_limits, foundation.settings.subscription_ttl)),
        foundation.settings.message_limit,
        open_from,
        charge=charge,
        events=foundation.events,
        notice=partial(notice_of, foundation.ids),
    )


def _admission(foundation: Foundation) -> ClientAdmission:
    settings = foundation.settings

    def audience_of(request: web.Request) -> str | None:
        if not settings.relay_check_audience:
            return None
        return settings.public_url or f"ws://{request.host}"

    return ClientAdmission(ClientTokens(foundation.clock), audience_of, frozenset(settings.project_ids))


def _messages(settings: Settings) -> Limit:
    return per_second("messages", settings.messages_per_second, settings.messages_burst)


def _socket_limits(settings: Settings) -> SocketLimits:
    return SocketLimits(
        per_address=settings.max_sockets,
        topics=settings.max_socket_topics,
        unacknowledged=2 * settings.max_topic_messages,
        heartbeat_seconds=settings.heartbeat,
    )


def _queue_limits(settings: Settings) -> QueueLimits:
    return QueueLimits(
        topic=Share(settings.max_topic_messages, settings.max_topic_bytes),
        address=Share(settings.max_address_messages, settings.max_address_bytes),
        lifetime_ms=settings.message_ttl * 1000,
    )


def _client_limits(subscription_seconds: int, settings: Settings) -> ClientLimits:
    return ClientLimits(
        Share(settings.max_client_messages, settings.max_client_bytes),
        topics=settings.max_client_topics,
        remembered_calls=settings.max_remembered_calls,
        subscription_ms=subscription_seconds * 1000,
        heartbeat_seconds=min(settings.heartbeat, _IRN_HEARTBEAT_SECONDS),
    )
