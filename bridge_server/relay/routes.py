"""The bridge's endpoints (docs/protocol.md, B): what answers them, and their rows."""

from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from aiohttp import web

from bridge_server.kernel.cache import Cached
from bridge_server.kernel.token_bucket import Limit
from bridge_server.outbox.topics import TooManyWebhooksError
from bridge_server.relay import models, wire
from bridge_server.relay.service import Relay, RelayReads, WebhookRule
from bridge_server.relay.wire import Dialect
from bridge_server.web.answers import json_answer, text_answer
from bridge_server.web.bodies import OpaqueBodies
from bridge_server.web.limits import StoredBytes
from bridge_server.web.prefer import polled, wanted_wait
from bridge_server.web.routes import ANY_PAGE, TEXT, About, DescribedAnswer, Handler, Route
from bridge_server.web.shapes import done

# A path segment without the form of an id matches no route: 404 without a look-up.
_ID = "[A-Za-z0-9_-]{1,128}"
_SESSION = f"/session/{{session_id:{_ID}}}"
_CALL_STATUS = f"/call-status/{{call_id:{_ID}}}"

_OF_WALLETS = frozenset({"update-session", "end-session", "calls", "call", "answer-call"})
_OF_EVERYBODY = frozenset({"hello", "info", "subscribe"})

_STATUS = {"encryptionPayload": wire.PAYLOAD_EXAMPLE}
_WEBHOOK = "https://push.example.org/push"
_UPDATE = {**_STATUS, "push": {"type": "fcm", "token": "d7Zt3k", "webhook": _WEBHOOK}}
_SUBSCRIPTION = {"topic": "0192f7c8-7e6a-7d2b-b0a5-0f7f3c1d2e4f", "webhook": _WEBHOOK}


class RelayCharges(NamedTuple):
    """The bytes that clients may store."""

    payloads: StoredBytes
    subscriptions: StoredBytes


class RelayHandlers:
    """One method per endpoint of the protocol's section B, answered in one dialect. `webhook_rule` judges the
    webhooks that clients register; without one the settings alone decide where messages may go.
    """

    def __init__(
        self,
        relay: Relay,
        polling: RelayReads,
        dialect: Dialect,
        longest_wait_seconds: int,
        charges: RelayCharges,
        webhook_rule: WebhookRule | None = None,
    ) -> None:
        self._relay = relay
        self._polling = polling
        self._dialect = dialect
        self.longest_wait_seconds = longest_wait_seconds
        self._payloads, self._subscriptions = charges
        self._webhook_rule = webhook_rule
        self._bodies = OpaqueBodies()

    async def hello(self, _: web.Request) -> web.Response:
        """A line of text for a look in the browser."""
        return text_answer(wire.GREETING)

    async def info(self, _: web.Request) -> web.Response:
        """The name, the repository and the version of the server."""
        return json_answer(wire.INFO)

    async def open_session(self, _: web.Request) -> web.Response:
        """The dapp opens a session and hands its id to the wallet, with a key of which the server knows
        nothing. Any body is accepted and ignored. A session lives 24 hours from the wallet's last update or
        the dapp's last call.
        """
        return json_answer(self._dialect.opened(await self._relay.open_session()))

    async def update_session(self, request: web.Request) -> web.Response:
        """The wallet stores a payload for the dapp, and prolongs the session. `push` registers a webhook for
        new calls; left out it keeps the earlier one, null removes it.
        """
        session_id = _session_id(request)
        document = self._bodies.at_once(request) or await self._bodies.json_object(request)
        update = wire.read_session_update(document)
        rule = self._webhook_rule
        if rule is not None:
            update = update.with_webhook(lambda webhook: rule(webhook, "#/push/webhook"))
        with self._payloads.bill(request, update.size_bytes) as bill:
            if bill.late is not None:
                await bill.late
            expires_at_ms = await self._relay.update_session(session_id, update)
        return bill.declared_on(json_answer(wire.write_expiry(expires_at_ms)))

    async def end_session(self, request: web.Request) -> web.Response:
        """Either side ends the session; its calls go with it."""
        with suppress(*self._dialect.forgiven):
            await self._relay.end_session(_session_id(request))
        return json_answer(wire.SUCCESS)

    async def session(self, request: web.Request) -> web.Response:
        """The payload of the wallet's last update. The dapp asks until the wallet has approved the
        session.
        """
        session_id = _session_id(request)
        wait = wanted_wait(request, self.longest_wait_seconds)
        try:
            found = await self._polling.session(session_id, wait.seconds)
        except self._dialect.forgiven:
            if wait.seconds:
                raise
            found = None
        return polled(self._payload(found), wait)

    async def request_call(self, request: web.Request) -> web.Response:
        """The dapp adds a call. The session's webhook and the webhooks of `/subscribe` are notified. A
        session has at most 100 calls without a status.
        """
        session_id = _session_id(request)
        document = self._bodies.at_once(request) or await self._bodies.json_object(request)
        call = wire.read_new_call(document)
        with self._payloads.bill(request, len(call.payload)) as bill:
            if bill.late is not None:
                await bill.late
            call_id = await self._relay.request_call(session_id, call, bill.address, bill.afford)
        return bill.declared_on(json_answer(wire.write_call_id(call_id)))

    async def calls(self, request: web.Request) -> web.Response:
        """The wallet reads the calls without a status, oldest first, by their ids. Reading deletes
        nothing.
        """
        session_id = _session_id(request)
        wait = wanted_wait(request, self.longest_wait_seconds)
        found = await self._polling.calls(session_id, wait.seconds)
        answer = polled((found.value if found else None) or wire.NO_CALLS, wait)
        if self._dialect.calls_envelope is not None:
            answer.put_into(*self._dialect.calls_envelope)
        return answer

    async def call(self, request: web.Request) -> web.Response:
        """The payload of a call, however often it is asked for, until it expires."""
        found = await self._polling.call(_session_id(request), _call_id(request))
        return json_answer(self._dialect.payload(*found))

    async def answer_call(self, request: web.Request) -> web.Response:
        """The wallet stores the status of a call for the dapp. A later status replaces an earlier one."""
        call_id = _call_id(request)
        document = self._bodies.at_once(request) or await self._bodies.json_object(request)
        payload = wire.read_status(document)
        with self._payloads.bill(request, len(payload)) as bill:
            if bill.late is not None:
                await bill.late
            await self._relay.answer_call(call_id, payload)
        return bill.declared_on(json_answer(wire.SUCCESS))

    async def status(self, request: web.Request) -> web.Response:
        """The dapp reads the wallet's answer, however often, until it expires."""
        call_id = _call_id(request)
        wait = wanted_wait(request, self.longest_wait_seconds)
        return polled(self._payload(await self._polling.status(call_id, wait.seconds)), wait)

    async def subscribe(self, request: web.Request) -> web.Response:
        """Registers a webhook for a topic, which is a session's id. It is notified of each new call, and
        forgotten after 30 days unless it is registered again. A topic has at most 16 webhooks.
        """
        document = self._bodies.at_once(request) or await self._bodies.json_object(request)
        topic, webhook = wire.read_subscription(document)
        if self._webhook_rule is not None:
            webhook = self._webhook_rule(webhook, "#/webhook")
        with self._subscriptions.bill(request, len(topic.encode()) + len(webhook.encode())) as bill:
            if bill.late is not None:
                await bill.late
            await self._relay.subscribe(topic, webhook)
        return bill.declared_on(json_answer(wire.SUCCESS))

    def _payload(self, found: Cached | None) -> bytes | None:
        if found is None or found.value is None:
            return None
        return self._dialect.payload(found.value, found.expires_at_ms)


def relay_routes(
    handlers: RelayHandlers,
    dialect: Dialect,
    *,
    body_limit_bytes: int,
    every_request: Limit,
    new_sessions: Limit,
) -> tuple[Route, ...]:
    """Every endpoint of the bridge, where the dialect's clients look for it. Web pages of any origin may call
    them: dapps live in browsers. Clients put the paths behind a URL that they are given, so that slashes too
    many are forgiven.
    """

    row = partial(_row, dialect, body_limit_bytes, every_request)
    return (
        row("GET", "/hello", "hello", handlers.hello, "Greeting",
            DescribedAnswer(200, "The greeting, with the version.", str, TEXT), needs_database=False),
        row("GET", "/info", "info", handlers.info, "Name and version",
            DescribedAnswer(200, "The program that answers.", wire.ServerInfoAnswer), needs_database=False),
        row("POST", "/session/new", "open-session", handlers.open_session, "Open a session",
            limits=(new_sessions,)),
        row("GET", _SESSION, "session", handlers.session, "What the wallet has said",
            waits=True, problems=(models.SessionNotFoundError,)),
        row("PUT", _SESSION, "update-session", handlers.update_session, "Approve or update a session",
            DescribedAnswer(200, "Until when the session lives.", wire.SessionExpiryAnswer),
            body=wire.SessionUpdateShape, body_example=_UPDATE, problems=(models.SessionNotFoundError,)),
        row("DELETE", _SESSION, "end-session", handlers.end_session, "End a session",
            *done("It has ended."), problems=(models.SessionNotFoundError,)),
        row("GET", f"{_SESSION}/calls", "calls", handlers.calls, "Calls that wait for an answer",
            waits=True, problems=(models.SessionNotFoundError,)),
        row("POST", f"{_SESSION}/call/new", "request-call", handlers.request_call,
            "Ask the wallet for something", DescribedAnswer(200, "The call's id.", wire.MadeCallAnswer),
            body=wire.NewCallShape, body_example={**_STATUS, "dappName": "Example Shop"},
            problems=(models.SessionNotFoundError, models.TooManyPendingCallsError)),
        row("GET", f"{_SESSION}/call/{{call_id:{_ID}}}", "call", handlers.call, "One call",
            problems=(models.CallNotFoundError,)),
        row("POST", f"{_CALL_STATUS}/new", "answer-call", handlers.answer_call, "Answer a call",
            *done("The status is stored."), body=wire.StatusShape, body_example=_STATUS,
            problems=(models.CallNotFoundError,)),
        row("GET", _CALL_STATUS, "call-status", handlers.status, "The answer to a call",
            waits=True, problems=(models.CallNotFoundError,)),
        row("POST", "/subscribe", "subscribe", handlers.subscribe, "Have a webhook called for new calls",
            *done("It is registered."), body=wire.TopicSubscriptionShape, body_example=_SUBSCRIPTION,
            problems=(TooManyWebhooksError,)),
    )  # fmt: skip


def _row(
    dialect: Dialect, body_limit_bytes: int, every_request: Limit,
    method: str, path: str, name: str, handler: Handler, summary: str, *answers: DescribedAnswer,
    limits: tuple[Limit, ...] = (), waits: bool = False, **about: Any,
) -> Route:  # fmt: skip
    who = "client" if name in _OF_EVERYBODY else "wallet" if name in _OF_WALLETS else "dapp"
    return Route(
        method=method, path=dialect.path + path, name=dialect.route_prefix + name, handler=handler,
        access=ANY_PAGE, body_limit_bytes=0 if method == "GET" else body_limit_bytes,
        limits=(every_request, *limits), waits=waits, forgives_slashes=True, who=who,
        about=About(
            work=handler, tag=dialect.tag, summary=summary + dialect.mark,
            answers=dialect.answers.get(name, answers), polls=waits, **about,
        ),
    )  # fmt: skip


def _session_id(request: web.Request) -> models.SessionId:
    return models.SessionId(request.match_info["session_id"])


def _call_id(request: web.Request) -> models.CallId:
    return models.CallId(request.match_info["call_id"])
