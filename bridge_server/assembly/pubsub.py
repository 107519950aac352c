"""The WebSocket relay of generation 1.x."""

import os

from bridge_server.assembly.foundation import Foundation
from bridge_server.assembly.room import Room
from bridge_server.kernel.token_bucket import Limit, per_second
from bridge_server.pubsub.handlers import PubSubHandlers
from bridge_server.pubsub.models import QueueLimits, Share, SocketLimits
from bridge_server.pubsub.routes import pubsub_routes
from bridge_server.pubsub.service import PubSub
from bridge_server.pubsub.store import TopicStore
from bridge_server.settings.settings import Settings


def pubsub_room(foundation: Foundation) -> Room:
    """Sockets, topics, and the messages that wait on them."""
    settings = foundation.settings
    pubsub = _service(foundation)
    handlers = PubSubHandlers(pubsub, foundation.addresses.bucket_key, settings.message_limit)
    return Room(
        name="pubsub",
        routes=pubsub_routes(handlers, foundation.every_request),
        running=(pubsub.running,),
        stop=pubsub.close,
        emptied=(pubsub.emptied,),
        sweeps=(pubsub.sweep,),
        gauges=lambda: {"sockets": pubsub.sockets, "socket_topics": pubsub.topics},
    )


def _service(foundation: Foundation) -> PubSub:
    live = foundation.live
    messages = live.held(_messages)
    return PubSub(
        TopicStore(foundation.database, foundation.payload_bytes),
        foundation.clock,
        foundation.ids,
        os.urandom,
        live.held(_queue_limits),
        live.held(_socket_limits),
        charge=lambda address: foundation.quotas.charge(address, (messages,)),
    )


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
