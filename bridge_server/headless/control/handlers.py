"""The requests of the control API: read, one call of the wallet, write."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any

import orjson
from aiohttp import web

from bridge_server.client import BadPairingError, BridgeClientError, SessionEndedError
from bridge_server.headless.control import wire
from bridge_server.headless.control.event_stream import stream_events
from bridge_server.headless.scan import NoReaderError, ScanError, uri_in_picture
from bridge_server.headless.sessions import HeadlessSession
from bridge_server.headless.wallet import HeadlessWallet
from bridge_server.kernel.errors import (
    ConflictError,
    Fault,
    InvalidInputError,
    UnsupportedMediaError,
    UpstreamError,
)
from bridge_server.web.answers import json_answer
from bridge_server.web.prefer import wanted_wait

LONGEST_WAIT_SECONDS = 60

_PNG = "image/png"

Handler = Callable[["ControlHandlers", web.Request], Awaitable[web.StreamResponse]]


class BridgeFailedError(UpstreamError):
    """The bridge of a session cannot be used, or its dapp did not answer."""

    code = "bridge-failed"
    title = "The bridge failed"


class SessionOverError(ConflictError):
    """The session of the dapp is over."""

    code = "session-over"
    title = "The session is over"


def _with_client_errors(handler: Handler) -> Handler:
    """Turn failures between wallet and bridge into problems."""

    @wraps(handler)
    async def guarded(self: "ControlHandlers", request: web.Request) -> web.StreamResponse:
        try:
            return await handler(self, request)
        except BadPairingError as error:
            raise InvalidInputError(str(error), [Fault("#/uri", str(error))]) from error
        except SessionEndedError as error:
            raise SessionOverError(str(error)) from error
        except BridgeClientError as error:
            raise BridgeFailedError(str(error)) from error

    return guarded


class ControlHandlers:
    """The control API of one wallet."""

    def __init__(self, wallet: HeadlessWallet, stopping: asyncio.Event) -> None:
        self._wallet = wallet
        self._stopping = stopping

    @_with_client_errors
    async def pair(self, request: web.Request) -> web.StreamResponse:
        """POST /pair."""
        if request.content_type == _PNG:
            return _session_answer(await self._wallet.pair(await _scanned(request)))
        body = await wire.read_body(request, wire.PairBody)
        session = await self._wallet.pair(body.uri, relay_url=body.relay_url, generation=body.generation)
        return _session_answer(session)

    async def list_sessions(self, _: web.Request) -> web.StreamResponse:
        """GET /sessions."""
        return _answer({"sessions": [wire.session_fields(each) for each in self._wallet.sessions]})

    @_with_client_errors
    async def change_session(self, request: web.Request) -> web.StreamResponse:
        """PATCH /sessions/{id}."""
        session = self._session(request)
        body = await wire.read_body(request, wire.ChangeBody)
        await session.change(body.accounts, body.chain_id)
        return _session_answer(session)

    async def approve_session(self, request: web.Request) -> web.StreamResponse:
        """POST /sessions/{id}/approve."""
        session = self._session(request)
        await session.approve()
        return _session_answer(session)

    async def reject_session(self, request: web.Request) -> web.StreamResponse:
        """POST /sessions/{id}/reject."""
        session = self._session(request)
        await session.reject()
        return _session_answer(session)

    @_with_client_errors
    async def end_session(self, request: web.Request) -> web.StreamResponse:
        """DELETE /sessions/{id}."""
        session = self._session(request)
        await session.disconnect()
        return _session_answer(session)

    async def put_rules(self, request: web.Request) -> web.StreamResponse:
        """PUT /rules."""
        rules = await wire.read_rules(request)
        self._wallet.rules.replace(rules)
        return _answer({"rules": wire.rule_texts(rules)})

    async def list_rules(self, _: web.Request) -> web.StreamResponse:
        """GET /rules."""
        return _answer({"rules": wire.rule_texts(list(self._wallet.rules))})

    async def list_calls(self, request: web.Request) -> web.StreamResponse:
        """GET /calls: with `wait`, the first that match."""
        state, method = wire.read_state(request), request.query.get("method")
        seconds = wanted_wait(request, LONGEST_WAIT_SECONDS).seconds
        log = self._wallet.call_log
        found = log.matching(state, method)
        if not found and seconds:
            found = await self._unless_stopping(log.wait_for(state, method, seconds)) or []
        return _answer({"calls": [wire.call_fields(call) for call in found]})

    async def approve_call(self, request: web.Request) -> web.StreamResponse:
        """POST /calls/{id}/approve."""
        call = self._wallet.call_log.get(request.match_info["id"])
        await call.approve()
        return _answer({"call": wire.call_fields(call)})

    async def reject_call(self, request: web.Request) -> web.StreamResponse:
        """POST /calls/{id}/reject."""
        call = self._wallet.call_log.get(request.match_info["id"])
        body = await wire.read_body(request, wire.RejectBody)
        await call.reject(body.code, body.message)
        return _answer({"call": wire.call_fields(call)})

    async def answer_call(self, request: web.Request) -> web.StreamResponse:
        """POST /calls/{id}/answer."""
        call = self._wallet.call_log.get(request.match_info["id"])
        body = await wire.read_body(request, wire.AnswerBody)
        await call.answer(body.result)
        return _answer({"call": wire.call_fields(call)})

    async def call_provider(self, request: web.Request) -> web.StreamResponse:
        """POST /request: answered when the rules have decided."""
        body = await wire.read_body(request, wire.RequestBody)
        outcome = self._wallet.request(
            body.method, body.params, origin=body.origin or "", name=body.name or ""
        )
        decided = await self._unless_stopping(outcome)
        if decided is None:
            raise BridgeFailedError("The wallet stops.")
        return _answer(wire.outcome_fields(decided))

    async def events(self, request: web.Request) -> web.StreamResponse:
        """GET /events."""
        return await stream_events(request, self._wallet.feed, self._stopping)

    async def reset(self, _: web.Request) -> web.StreamResponse:
        """POST /reset."""
        await self._wallet.reset()
        return _answer({})

    def _session(self, request: web.Request) -> HeadlessSession:
        return self._wallet.session(request.match_info["id"])

    async def _unless_stopping(self, work: Awaitable[Any]) -> Any:
        """The result of the work; None when the wallet stops before it."""
        task, stopping = asyncio.ensure_future(work), asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait([task, stopping], return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() else None
        finally:
            task.cancel()
            stopping.cancel()


async def _scanned(request: web.Request) -> str:
    content = await request.read()
    try:
        return await asyncio.to_thread(uri_in_picture, content)
    except NoReaderError as error:
        raise UnsupportedMediaError(_sentence(error)) from error
    except ScanError as error:
        raise InvalidInputError(_sentence(error)) from error


def _sentence(error: ScanError) -> str:
    text = str(error)
    return f"{text[:1].upper()}{text[1:]}."


def _session_answer(session: HeadlessSession) -> web.Response:
    return _answer({"session": wire.session_fields(session)})


def _answer(fields: dict[str, Any]) -> web.Response:
    return json_answer(orjson.dumps(fields))
