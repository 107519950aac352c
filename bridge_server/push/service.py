"""The push server's rules (docs/protocol.md, C)."""

from typing import Self
from urllib.parse import urlsplit

import aiohttp
import orjson
import structlog
from aiohttp import hdrs

from bridge_server.kernel import errors, fields, secrets, version
from bridge_server.kernel.background import KeyedLock, StoppedError, Stopping
from bridge_server.kernel.clock import Clock
from bridge_server.outbox import guarded_client as guarded
from bridge_server.outbox.channels import Sender
from bridge_server.outbox.guarded_client import Outcome, Verdict
from bridge_server.outbox.models import OutgoingMessage
from bridge_server.outbox.topics import Topic
from bridge_server.push import models, notices
from bridge_server.push.store import PushStore
from bridge_server.web.limits import Bill

# Pushes and subscriptions are counted apart: bridges that hang, which a stranger may name, stop no push.
_PUSHES_AT_ONCE = 256
_SUBSCRIPTIONS_AT_ONCE = 256

log = structlog.get_logger()


class Bridges:
    """Subscribes this push server at other servers' bridges (`POST /subscribe`), by guarded connections."""

    def __init__(self, timeout_seconds: float, allow_private: bool) -> None:
        self._timeout_seconds = timeout_seconds
        self._rule = guarded.anywhere if allow_private else guarded.public_only
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = guarded.guarded_client(self._rule, guarded.look_up, self._timeout_seconds)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def subscribe(self, bridge: str, topic: str, webhook: str) -> None:
        """Register the webhook for the topic at the bridge. Raises BridgeRefusedError."""
        assert self._session is not None, "the bridges are not open"
        headers = {
            hdrs.CONTENT_TYPE: "application/json",
            hdrs.ACCEPT_ENCODING: "identity",
            hdrs.USER_AGENT: version.USER_AGENT,
        }
        body = orjson.dumps({"topic": topic, "webhook": webhook})
        try:
            async with self._session.post(
                f"{bridge.rstrip('/')}/subscribe", data=body, headers=headers, allow_redirects=False
            ) as response:
                await guarded.read_limited(response)
                status = response.status
        except Exception as error:  # any fault of the other server becomes a 502 with a reason
            log.info("bridge_not_reached", reason=guarded.judge_error(error).reason)
            raise models.BridgeRefusedError("it cannot be reached") from error
        if not 200 <= status < 300:
            raise models.BridgeRefusedError(f"it answered {status}")


class PushServer:
    """Registers clients and pushes to them."""

    def __init__(
        self,
        store: PushStore,
        sender: Sender,
        bridges: Bridges,
        clock: Clock,
        ids: secrets.IdMaker,
        stopping: Stopping,
    ) -> None:
        self._store = store
        self._sender = sender
        self._bridges = bridges
        self._clock = clock
        self._ids = ids
        self._stopping = stopping
        self._turns = KeyedLock()
        self._pushing = 0
        self._subscribing = 0

    async def register(
        self, registration: models.Registration, own_urls: frozenset[str], push_url: str | None, bill: Bill
    ) -> None:
        """Register a client for its topic, and subscribe to the topic at the client's bridge.

        `own_urls` are the URLs of this server. Another server's bridge is given `push_url` as the webhook;
        None means that it could not reach this server. Registrations of one topic run one after another.
        The `bill` is void if the client leaves before the bridge has accepted. Raises BridgeRefusedError or
        TooManyPushesError, and then nothing is registered.
        """
        own_places = set(map(_place, own_urls))
        if _place(registration.address.url) in {f"{place}/push" for place in own_places}:
            raise errors.InvalidInputError(
                "A push to this server's own /push would cause itself again without end.",
                [errors.Fault("#/token", "is this server's own /push")],
            )
        bill.is_stored = False
        async with self._turns.taken(registration.topic):
            is_own = _place(registration.bridge) in own_places
            if not is_own:
                await self._subscribe(registration, push_url)
            bill.is_stored = True
            await self._store.register(registration, self._clock.now_ms(), is_own)

    async def push(self, topic: Topic, message_id: str | None) -> Outcome:
        """Push to the topic's client now; returns the provider's answer if it accepted the push. `message_id`
        identifies the push and is the same when a caller repeats it. Raises TopicNotFoundError,
        ProviderFailedError, TokenDeadError, TooManyPushesError.
        """
        registration = await self._store.registration(topic, self._clock.now_ms())
        if registration is None:
            raise models.TopicNotFoundError
        message = notices.write_request(registration, message_id or self._ids.random_uuid())
        outcome = await self._send_now(message)
        if outcome.verdict is Verdict.GONE:
            await self.forget_receiver(message)
            raise models.TokenDeadError
        if outcome.verdict is not Verdict.DELIVERED:
            log.info("push_failed", channel=registration.channel, reason=outcome.reason)
            raise models.ProviderFailedError(outcome.reason)
        return outcome

    async def forward(self, notice: OutgoingMessage) -> bool:
        """Queue a push to the client of the notice's topic; False when no client is registered for it."""
        now_ms = self._clock.now_ms()
        topic = None if notice.subject is None else Topic(notice.subject)
        registration = None if topic is None else await self._store.registration(topic, now_ms)
        if registration is None:
            return False
        await self._store.queue(notices.write_request(registration, notice.message_id, notice.client), now_ms)
        return True

    async def forget_receiver(self, message: OutgoingMessage) -> None:
        """Remove the registration of a push whose token the provider calls dead."""
        if message.subject is not None:
            await self._store.unregister(Topic(message.subject), message.url)

    async def _subscribe(self, client: models.Registration, push_url: str | None) -> None:
        if push_url is None:
            raise models.BridgeRefusedError("this server has no public_url that it could call")
        if self._subscribing >= _SUBSCRIPTIONS_AT_ONCE:
            raise models.TooManyPushesError
        self._subscribing += 1
        try:
            await self._stopping.finish(self._bridges.subscribe(client.bridge, client.topic, push_url))
        except StoppedError as error:
            raise models.BridgeRefusedError("this server is stopping") from error
        finally:
            self._subscribing -= 1

    async def _send_now(self, message: OutgoingMessage) -> Outcome:
        if self._pushing >= _PUSHES_AT_ONCE:
            raise models.TooManyPushesError
        self._pushing += 1
        try:
            return await self._stopping.finish(self._sender.send(message, self._clock.now_ms()))
        except StoppedError:
            return Outcome(Verdict.FAILED, "this server is stopping")
        finally:
            self._pushing -= 1


def _place(url: str) -> str:
    """The URL in a normal form that can be compared; a URL without a valid origin is unchanged."""
    origin = fields.origin_of_url(url)
    if origin is None:
        return url
    parts = urlsplit(url)
    query = f"?{parts.query}" if parts.query else ""
    return f"{origin}{parts.path.rstrip('/')}{query}"
