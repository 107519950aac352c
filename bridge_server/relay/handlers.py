"""HTTP to the relay and back: read, one service call, write."""

from collections.abc import Callable
from contextlib import suppress

from aiohttp import web

from bridge_server.relay import wire
from bridge_server.relay.dialect import Dialect
from bridge_server.relay.models import CallId, Found, SessionId
from bridge_server.relay.polling import RelayReads
from bridge_server.relay.service import Relay
from bridge_server.relay.sightings import DAPP_NAME
from bridge_server.relay.webhook_rules import WebhookRule
from bridge_server.web.answers import json_answer, text_answer
from bridge_server.web.opaque_body import OpaqueBodies
from bridge_server.web.prefer import Wait, polled, wanted_wait
from bridge_server.web.stored_bytes import StoredBytes


class RelayHandlers:
    """One method per endpoint of the protocol's section B, answered in one dialect.

    `address_of` gives the address to which a client's requests count; `webhook_rule` judges the webhooks that
    clients register; without one the settings alone decide where messages may go.
    """

    def __init__(
        self,
        relay: Relay,
        polling: RelayReads,
        dialect: Dialect,
        longest_wait_seconds: int,
        address_of: Callable[[web.Request], str | None],
        *,
        payloads: StoredBytes,
        subscriptions: StoredBytes,
        webhook_rule: WebhookRule | None = None,
    ) -> None:
        self._address_of = address_of
        self._relay = relay
        self._payloads = payloads
        self._subscriptions = subscriptions
        self._webhook_rule = webhook_rule
        self._polling = polling
        self._dialect = dialect
        self.longest_wait_seconds = longest_wait_seconds
        self._bodies = OpaqueBodies()

    async def hello(self, _: web.Request) -> web.Response:
        return text_answer(wire.GREETING)

    async def info(self, _: web.Request) -> web.Response:
        return json_answer(wire.INFO)

    async def open_session(self, _: web.Request) -> web.Response:
        return json_answer(self._dialect.opened(await self._relay.open_session()))

    async def update_session(self, request: web.Request) -> web.Response:
        session_id = _session_id(request)
        update = wire.read_session_update(await self._bodies.json_object(request))
        rule = self._webhook_rule
        if rule is not None:
            update = update.with_webhook(lambda webhook: rule(webhook, "#/push/webhook"))
        with self._payloads.bill(request, update.size_bytes) as bill:
            if bill.late is not None:
                await bill.late
            expires_at_ms = await self._relay.update_session(session_id, update)
        return bill.declared_on(json_answer(wire.write_expiry(expires_at_ms)))

    async def end_session(self, request: web.Request) -> web.Response:
        with suppress(*self._dialect.forgiven):
            await self._relay.end_session(_session_id(request))
        return json_answer(wire.SUCCESS)

    async def session(self, request: web.Request) -> web.Response:
        session_id = _session_id(request)
        wait = wanted_wait(request, self.longest_wait_seconds)
        try:
            found = await self._polling.session(session_id, wait.seconds)
        except self._dialect.forgiven:
            if wait.seconds:
                raise
            found = None
        return self._polled(found, wait)

    async def request_call(self, request: web.Request) -> web.Response:
        session_id = _session_id(request)
        call = wire.read_new_call(await self._bodies.json_object(request))
        request[DAPP_NAME] = call.dapp_name
        client = self._address_of(request)
        with self._payloads.bill(request, len(call.payload)) as bill:
            if bill.late is not None:
                await bill.late
            call_id = await self._relay.request_call(session_id, call, client, bill.afford)
        return bill.declared_on(json_answer(wire.write_call_id(call_id)))

    async def calls(self, request: web.Request) -> web.Response:
        session_id = _session_id(request)
        wait = wanted_wait(request, self.longest_wait_seconds)
        found = await self._polling.calls(session_id, wait.seconds)
        answer = polled(wire.NO_CALLS if found is None else found.body, wait)
        if self._dialect.calls_envelope is not None:
            answer.put_into(*self._dialect.calls_envelope)
        return answer

    async def call(self, request: web.Request) -> web.Response:
        found = await self._polling.call(_session_id(request), _call_id(request))
        return json_answer(self._dialect.payload(found))

    async def answer_call(self, request: web.Request) -> web.Response:
        call_id = _call_id(request)
        payload = wire.read_status(await self._bodies.json_object(request))
        with self._payloads.bill(request, len(payload)) as bill:
            if bill.late is not None:
                await bill.late
            await self._relay.answer_call(call_id, payload)
        return bill.declared_on(json_answer(wire.SUCCESS))

    async def status(self, request: web.Request) -> web.Response:
        call_id = _call_id(request)
        wait = wanted_wait(request, self.longest_wait_seconds)
        return self._polled(await self._polling.status(call_id, wait.seconds), wait)

    async def subscribe(self, request: web.Request) -> web.Response:
        topic, webhook = wire.read_subscription(await self._bodies.json_object(request))
        if self._webhook_rule is not None:
            webhook = self._webhook_rule(webhook, "#/webhook")
        with self._subscriptions.bill(request, len(topic.encode()) + len(webhook.encode())) as bill:
            if bill.late is not None:
                await bill.late
            await self._relay.subscribe(topic, webhook)
        return bill.declared_on(json_answer(wire.SUCCESS))

    def _polled(self, found: Found | None, wait: Wait) -> web.Response:
        return polled(None if found is None else self._dialect.payload(found), wait)


def _session_id(request: web.Request) -> SessionId:
    return SessionId(request.match_info["session_id"])


def _call_id(request: web.Request) -> CallId:
    return CallId(request.match_info["call_id"])
