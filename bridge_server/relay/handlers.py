"""HTTP to the relay and back: read, one service call, write."""

from contextlib import suppress

from aiohttp import web

from bridge_server.relay import wire
from bridge_server.relay.dialect import Dialect
from bridge_server.relay.models import CallId, Found, SessionId
from bridge_server.relay.polling import Polling
from bridge_server.relay.service import Relay
from bridge_server.web.answers import json_answer, text_answer
from bridge_server.web.opaque_body import OpaqueBodies
from bridge_server.web.prefer import Wait, polled, wanted_wait


class RelayHandlers:
    """One method per endpoint of the contract's section 4, B, answered in one dialect."""

    def __init__(self, relay: Relay, polling: Polling, dialect: Dialect, longest_wait_seconds: int) -> None:
        self._relay = relay
        self._polling = polling
        self._dialect = dialect
        self._longest_wait_seconds = longest_wait_seconds
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
        return json_answer(wire.write_expiry(await self._relay.update_session(session_id, update)))

    async def end_session(self, request: web.Request) -> web.Response:
        with suppress(*self._dialect.forgiven):
            await self._relay.end_session(_session_id(request))
        return json_answer(wire.SUCCESS)

    async def session(self, request: web.Request) -> web.Response:
        session_id = _session_id(request)
        wait = wanted_wait(request, self._longest_wait_seconds)
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
        return json_answer(wire.write_call_id(await self._relay.request_call(session_id, call)))

    async def calls(self, request: web.Request) -> web.Response:
        session_id = _session_id(request)
        wait = wanted_wait(request, self._longest_wait_seconds)
        found = await self._polling.calls(session_id, wait.seconds)
        return polled(self._dialect.calls(wire.NO_CALLS if found is None else found.body), wait)

    async def call(self, request: web.Request) -> web.Response:
        found = await self._polling.call(_session_id(request), _call_id(request))
        return json_answer(self._dialect.payload(found))

    async def answer_call(self, request: web.Request) -> web.Response:
        call_id = _call_id(request)
        await self._relay.answer_call(call_id, wire.read_status(await self._bodies.json_object(request)))
        return json_answer(wire.SUCCESS)

    async def status(self, request: web.Request) -> web.Response:
        call_id = _call_id(request)
        wait = wanted_wait(request, self._longest_wait_seconds)
        return self._polled(await self._polling.status(call_id, wait.seconds), wait)

    async def subscribe(self, request: web.Request) -> web.Response:
        topic, webhook = wire.read_subscription(await self._bodies.json_object(request))
        await self._relay.subscribe(topic, webhook)
        return json_answer(wire.SUCCESS)

    def _polled(self, found: Found | None, wait: Wait) -> web.Response:
        return polled(None if found is None else self._dialect.payload(found), wait)


def _session_id(request: web.Request) -> SessionId:
    return SessionId(request.match_info["session_id"])


def _call_id(request: web.Request) -> CallId:
    return CallId(request.match_info["call_id"])
