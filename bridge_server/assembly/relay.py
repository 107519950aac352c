"""The relay of sessions and calls, in both of its dialects."""

from functools import partial

from bridge_server.assembly.foundation import Foundation
from bridge_server.assembly.room import Room, afterwards
from bridge_server.kernel.cache import ReadCache
from bridge_server.kernel.token_bucket import Limit, per_second
from bridge_server.relay.dialect import PLAIN, Dialect
from bridge_server.relay.handlers import RelayHandlers
from bridge_server.relay.models import CALL_WEBHOOK, Caps, Lifetimes
from bridge_server.relay.polling import OWNER_KINDS, RelayReads
from bridge_server.relay.routes import relay_routes, with_lan_handlers
from bridge_server.relay.service import Relay
from bridge_server.relay.store import RelayStore
from bridge_server.relay.sweep_store import RelaySweepStore
from bridge_server.relay.sweeping import relay_sweeps
from bridge_server.relay.v07 import V07
from bridge_server.relay.webhook_rules import WebhookRule, public_webhook
from bridge_server.settings.settings import Settings
from bridge_server.topics.models import TOPIC_WEBHOOK
from bridge_server.web.routes import Route


def relay_room(foundation: Foundation) -> Room:
    """Sessions, calls, and subscriptions to them."""
    settings, live, clock = foundation.settings, foundation.live, foundation.clock
    store = RelayStore(foundation.database)
    relay = relay_service(foundation)
    # Another process may have changed what PostgreSQL holds: nothing that was read is kept.
    cache = ReadCache(settings.cache_bytes if settings.database is None else 0, OWNER_KINDS)
    cache.subscribe_to(foundation.events)
    reads = RelayReads(store, cache, foundation.signals, clock)
    new_sessions = live.held(_new_sessions)

    def routes(dialect: Dialect) -> tuple[Route, ...]:
        return _routes(foundation, relay, reads, dialect, new_sessions)

    return Room(
        name="relay",
        routes=routes(PLAIN) + routes(V07),
        emptied=(partial(afterwards, cache.clear),),
        sweeps=relay_sweeps(RelaySweepStore(foundation.database)),
        gone_handlers={CALL_WEBHOOK: relay.forget_receiver, TOPIC_WEBHOOK: relay.forget_receiver},
    )


def relay_service(foundation: Foundation) -> Relay:
    """The rules of sessions and calls."""
    return Relay(
        RelayStore(foundation.database),
        foundation.clock,
        foundation.ids,
        _lifetimes(foundation.settings),
        foundation.live.held(_caps),
    )


def _routes(
    foundation: Foundation, relay: Relay, reads: RelayReads, dialect: Dialect, new_sessions: Limit
) -> tuple[Route, ...]:
    settings = foundation.settings

    def rows(webhook_rule: WebhookRule | None = None) -> tuple[Route, ...]:
        handlers = RelayHandlers(
            relay,
            reads,
            dialect,
            settings.max_wait,
            foundation.addresses.bucket_key,
            payloads=foundation.payload_bytes,
            subscriptions=foundation.subscription_bytes,
            webhook_rule=webhook_rule,
        )

        def take(now: Settings) -> None:
            handlers.longest_wait_seconds = now.max_wait

        foundation.live.follow(take)
        return relay_routes(
            handlers,
            dialect,
            body_limit_bytes=settings.relay_body_limit,
            every_request=foundation.every_request,
            new_sessions=new_sessions,
            sightings=None if foundation.observation is None else foundation.observation.sightings,
        )

    return with_lan_handlers(rows(), on_lan=rows(public_webhook))


def _new_sessions(settings: Settings) -> Limit:
    return per_second("new-sessions", settings.sessions_per_minute / 60, settings.sessions_burst)


def _lifetimes(settings: Settings) -> Lifetimes:
    return Lifetimes(
        session_ms=settings.session_ttl * 1000,
        call_ms=settings.call_ttl * 1000,
        status_ms=settings.status_ttl * 1000,
        subscription_ms=settings.subscription_ttl * 1000,
    )


def _caps(settings: Settings) -> Caps:
    return Caps(settings.max_pending_calls, settings.max_topic_webhooks)
