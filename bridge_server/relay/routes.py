"""The bridge's endpoints (docs/protocol.md, B): what answers them, and their rows."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Literal

from aiohttp import web

from bridge_server.kernel.cache import Cached
from bridge_server.kernel.token_bucket import Limit
from bridge_server.relay import wire
from bridge_server.relay.models import CallId, SessionId
from bridge_server.relay.service import Activities, Relay, RelayReads, WebhookRule
from bridge_server.relay.wire import Dialect
from bridge_server.web.answers import json_answer, text_answer
from bridge_server.web.bodies import OpaqueBodies
from bridge_server.web.limits import StoredBytes
from bridge_server.web.prefer import polled, wanted_wait
from bridge_server.web.routes import Handler, Route

# A path segment without the form of an id matches no route: 404 without a look-up.
_ID = "[A-Za-z0-9_-]{1,128}"
_SESSION = f"/session/{{session_id:{_ID}}}"
_CALL_STATUS = f"/call-status/{{call_id:{_ID}}}"

_OF_WALLETS = frozenset({"update-session", "end-session", "calls", "call", "answer-call"})
_OF_EVERYBODY = frozenset({"hello", "info", "subscribe"})

_DAPP_NAME = web.RequestKey("dapp_name", str)
"""The dapp's own name, in a request that asks for a call."""


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
        update = wire.read_session_update(
            self._bodies.at_once(request) or await self._bodies.json_object(request)
        )
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
        return polled(self._payload(found), wait)

    async def request_call(self, request: web.Request) -> web.Response:
        session_id = _session_id(request)
        document = self._bodies.at_once(request) or await self._bodies.json_object(request)
        call = wire.read_new_call(document)
        request[_DAPP_NAME] = call.dapp_name
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
        answer = polled((found.value if found else None) or wire.NO_CALLS, wait)
        if self._dialect.calls_envelope is not None:
            answer.put_into(*self._dialect.calls_envelope)
        return answer

    async def call(self, request: web.Request) -> web.Response:
        found = await self._polling.call(_session_id(request), _call_id(request))
        return json_answer(self._dialect.payload(*found))

    async def answer_call(self, request: web.Request) -> web.Response:
        call_id = _call_id(request)
        document = self._bodies.at_once(request) or await self._bodies.json_object(request)
        payload = wire.read_status(document)
        with self._payloads.bill(request, len(payload)) as bill:
            if bill.late is not None:
                await bill.late
            await self._relay.answer_call(call_id, payload)
        return bill.declared_on(json_answer(wire.SUCCESS))

    async def status(self, request: web.Request) -> web.Response:
        call_id = _call_id(request)
        wait = wanted_wait(request, self.longest_wait_seconds)
        return polled(self._payload(await self._polling.status(call_id, wait.seconds)), wait)

    async def subscribe(self, request: web.Request) -> web.Response:
        topic, webhook = wire.read_subscription(
            self._bodies.at_once(request) or await self._bodies.json_object(request)
        )
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
    activities: Activities | None = None,
) -> tuple[Route, ...]:
    """Every endpoint of the bridge, where the dialect's clients look for it.

    Web pages of any origin may call them: dapps live in browsers. Clients put the paths behind a URL that
    they are given, so that slashes too many are forgiven.
    """

    def read(path: str, name: str, handler: Handler, waits: bool = False) -> Route:
        return Route(
            method="GET", path=dialect.path + path, name=dialect.route_prefix + name, handler=handler,
            limits=(every_request,), any_origin=True, waits=waits, forgives_slashes=True, who=_who(name),
            id_name=_id_in(path), on_answers=_watcher(activities, dialect, path, name),
        )  # fmt: skip

    def write(
        method: str, path: str, name: str, handler: Handler, *limits: Limit,
        makes: Literal["", "session", "call"] = "",
    ) -> Route:  # fmt: skip
        return Route(
            method=method, path=dialect.path + path, name=dialect.route_prefix + name, handler=handler,
            body_limit_bytes=body_limit_bytes, limits=(every_request, *limits), any_origin=True,
            forgives_slashes=True, who=_who(name), summary=wire.summary,
            makes=makes, id_name=_id_in(path), on_answers=_watcher(activities, dialect, path, name),
            on_made=_maker(activities, dialect, makes),
        )  # fmt: skip

    return (
        read("/hello", "hello", handlers.hello),
        read("/info", "info", handlers.info),
        write("POST", "/session/new", "open-session", handlers.open_session, new_sessions, makes="session"),
        read(_SESSION, "session", handlers.session, waits=True),
        write("PUT", _SESSION, "update-session", handlers.update_session),
        write("DELETE", _SESSION, "end-session", handlers.end_session),
        read(f"{_SESSION}/calls", "calls", handlers.calls, waits=True),
        write("POST", f"{_SESSION}/call/new", "request-call", handlers.request_call, makes="call"),
        read(f"{_SESSION}/call/{{call_id:{_ID}}}", "call", handlers.call),
        write("POST", f"{_CALL_STATUS}/new", "answer-call", handlers.answer_call),
        read(_CALL_STATUS, "call-status", handlers.status, waits=True),
        write("POST", "/subscribe", "subscribe", handlers.subscribe),
    )


def with_lan_handlers(rows: tuple[Route, ...], on_lan: tuple[Route, ...]) -> tuple[Route, ...]:
    """The rows, each with the handler that answers it for clients of the LAN listener."""
    return tuple(replace(row, lan_handler=other.handler) for row, other in zip(rows, on_lan, strict=True))


def _watcher(
    activities: Activities | None, dialect: Dialect, path: str, name: str
) -> Callable[[Sequence[str], int], None] | None:
    """Notes which side of sessions has called; None for routes that name no session."""
    side = _who(name)
    if activities is None or side == "client" or not _id_in(path):
        return None
    return activities.watcher(dialect, side)


def _id_in(path: str) -> str:
    """The name of the id of a session, or of a call if the path has none of a session."""
    return next((name for name in ("session_id", "call_id") if f"{{{name}:" in path), "")


def _maker(
    activities: Activities | None, dialect: Dialect, makes: str
) -> Callable[[web.Request, bytes], None] | None:
    """Notes the session or the call that an answer has made; None for routes that make nothing."""
    if activities is None or not makes:
        return None

    def note_session(_: web.Request, answer: bytes) -> None:
        activities.note_session(dialect, answer)

    def note_call(request: web.Request, answer: bytes) -> None:
        activities.note_call(_session_id(request), answer, request.get(_DAPP_NAME))

    return note_session if makes == "session" else note_call


def _who(name: str) -> Literal["client", "dapp", "wallet"]:
    """The side that usually calls the route."""
    return "client" if name in _OF_EVERYBODY else "wallet" if name in _OF_WALLETS else "dapp"


def _session_id(request: web.Request) -> SessionId:
    return SessionId(request.match_info["session_id"])


def _call_id(request: web.Request) -> CallId:
    return CallId(request.match_info["call_id"])
