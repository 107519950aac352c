"""The control API of a headless wallet: for test programs in any language, with a bearer token."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from os import urandom
from typing import Annotated, Any, TypeVar
from urllib.parse import urlsplit

import orjson
from aiohttp import web
from aiohttp.typedefs import Handler
from pydantic import Field

from bridge_server.kernel.errors import (
    ConflictError,
    Fault,
    ForbiddenError,
    InvalidInputError,
    UnsupportedMediaError,
    UpstreamError,
)
from bridge_server.kernel.fields import is_loopback
from bridge_server.kernel.secrets import ChangingToken
from bridge_server.kit.client import BadPairingError, BridgeClientError, Generation, SessionEndedError
from bridge_server.kit.client.payloads import REJECTION, USER_REJECTED
from bridge_server.kit.headless.rules import Rule, RuleError, read_rule
from bridge_server.kit.headless.scan import NoReaderError, ScanError, uri_in_picture
from bridge_server.kit.headless.sessions import (
    CallHappening,
    CallState,
    Failure,
    Feed,
    Happening,
    HeadlessCall,
    HeadlessSession,
    PairingFailed,
    ProviderEvent,
    Result,
    SessionHappening,
)
from bridge_server.kit.headless.terminal import explanation_of
from bridge_server.kit.headless.wallet import HeadlessWallet
from bridge_server.web.answers import KEEP_ALIVE, json_answer, name_on
from bridge_server.web.bodies import (
    AnyShape,
    JsonObject,
    Shape,
    check,
    json_object,
    parse_value,
    require_json,
)
from bridge_server.web.middleware import Layer, Passage, bearer, behind, body, plain_chunks
from bridge_server.web.prefer import wanted_wait
from bridge_server.web.problems import RequestIds
from bridge_server.web.routes import Access, Route

_BODY_LIMIT_BYTES = 32 * 2**20
"""A screenshot of a large page."""
_SHUTDOWN_SECONDS = 1.0
_KEEP_ALIVE_SECONDS = 15.0
_MOST_WAITING = 10_000
"""The number of events that wait for a client that does not read; then its stream ends."""
LONGEST_WAIT_SECONDS = 60
_MOST_VALUES = 65_536
_MOST_RULES = 1_000
_PNG = "image/png"

_Fields = dict[str, Any]
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class ControlFacts:
    """The address of the control API, and the token that it asks for."""

    url: str
    token: str


class ListeningError(OSError):
    """The control API cannot listen there; the text says why."""


class BridgeFailedError(UpstreamError, code="bridge-failed", title="The bridge failed"):
    """The bridge of a session cannot be used, or its dapp did not answer."""


class SessionOverError(ConflictError, code="session-over", title="The session is over"):
    """The session of the dapp is over."""


class ControlHandlers:
    """The control API of one wallet: what answers the requests, as JSON objects."""

    def __init__(self, wallet: HeadlessWallet, stopping: asyncio.Event) -> None:
        self._wallet = wallet
        self._stopping = stopping

    async def pair(self, request: web.Request) -> _Fields:
        if request.content_type == _PNG:
            return {"session": session_fields(await self._wallet.pair(await _scanned(request)))}
        body = await read_body(request, PairBody)
        session = await self._wallet.pair(body.uri, relay_url=body.relay_url, generation=body.generation)
        return {"session": session_fields(session)}

    async def list_sessions(self, _: web.Request) -> _Fields:
        return {"sessions": [session_fields(each) for each in self._wallet.sessions]}

    async def change_session(self, request: web.Request) -> _Fields:
        session = self._session(request)
        body = await read_body(request, ChangeBody)
        await session.change(body.accounts, body.chain_id)
        return {"session": session_fields(session)}

    async def approve_session(self, request: web.Request) -> _Fields:
        session = self._session(request)
        await session.approve()
        return {"session": session_fields(session)}

    async def reject_session(self, request: web.Request) -> _Fields:
        session = self._session(request)
        await session.reject()
        return {"session": session_fields(session)}

    async def end_session(self, request: web.Request) -> _Fields:
        session = self._session(request)
        await session.disconnect()
        return {"session": session_fields(session)}

    async def put_rules(self, request: web.Request) -> _Fields:
        self._wallet.rules.replace(await read_rules(request))
        return await self.list_rules(request)

    async def list_rules(self, _: web.Request) -> _Fields:
        """The rules as they were spelled. A rule made in Python is spelled by its method."""
        return {"rules": [rule.text or rule.method for rule in self._wallet.rules]}

    async def list_calls(self, request: web.Request) -> _Fields:
        """The calls that match; with `wait`, the first that do."""
        state, method = read_state(request), request.query.get("method")
        seconds = wanted_wait(request, LONGEST_WAIT_SECONDS).seconds
        log = self._wallet.call_log
        found = log.matching(state, method)
        if not found and seconds:
            found = await _unless_stopping(self._stopping, log.wait_for(state, method, seconds)) or []
        return {"calls": [call_fields(call) for call in found]}

    async def approve_call(self, request: web.Request) -> _Fields:
        call = self._call(request)
        await call.approve()
        return {"call": call_fields(call)}

    async def reject_call(self, request: web.Request) -> _Fields:
        call = self._call(request)
        body = await read_body(request, RejectBody)
        await call.reject(body.code, body.message)
        return {"call": call_fields(call)}

    async def answer_call(self, request: web.Request) -> _Fields:
        call = self._call(request)
        await call.answer((await read_body(request, AnswerBody)).result)
        return {"call": call_fields(call)}

    async def call_provider(self, request: web.Request) -> _Fields:
        """The outcome of a web page's call, once the rules have decided."""
        body = await read_body(request, RequestBody)
        origin, name = body.origin or "", body.name or ""
        outcome = await _unless_stopping(
            self._stopping, self._wallet.request(body.method, body.params, origin=origin, name=name)
        )
        if outcome is None:
            raise BridgeFailedError("The wallet stops.")
        return {"result": outcome.value} if isinstance(outcome, Result) else {"error": error_fields(outcome)}

    async def reset(self, _: web.Request) -> _Fields:
        await self._wallet.reset()
        return {}

    def _session(self, request: web.Request) -> HeadlessSession:
        return self._wallet.session(request.match_info["id"])

    def _call(self, request: web.Request) -> HeadlessCall:
        return self._wallet.call_log.get(request.match_info["id"])


async def _unless_stopping(
    stopping: asyncio.Event, work: Awaitable[Found], seconds: float | None = None
) -> Found | None:
    """The result of the work; None when the wallet stops before it, or after so many seconds."""
    task, ending = asyncio.ensure_future(work), asyncio.ensure_future(stopping.wait())
    try:
        await asyncio.wait([task, ending], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        task.cancel()
        ending.cancel()


def _answering(handler: Callable[[web.Request], Awaitable[_Fields]]) -> Handler:
    """Write the answer, and turn failures between wallet and bridge into problems."""

    async def answered(request: web.Request) -> web.StreamResponse:
        try:
            return json_answer(orjson.dumps(await handler(request)))
        except BadPairingError as error:
            raise InvalidInputError(str(error), [Fault("#/uri", str(error))]) from error
        except SessionEndedError as error:
            raise SessionOverError(str(error)) from error
        except BridgeClientError as error:
            raise BridgeFailedError(str(error)) from error

    return answered


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


@asynccontextmanager
async def control_api(wallet: HeadlessWallet, host: str, port: int) -> AsyncIterator[ControlFacts]:
    """Answer requests that carry the token, until the block is left. Raises ListeningError."""
    if not is_loopback(host):
        raise ListeningError(f"{host} is not an address of this machine alone: listen on 127.0.0.1")
    token, stopping = secrets.token_urlsafe(32), asyncio.Event()
    application = build_control(wallet, token, stopping)
    runner = web.AppRunner(
        application, access_log=None, handler_cancellation=True, shutdown_timeout=_SHUTDOWN_SECONDS
    )
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError as error:
            reason = error.strerror or str(error)
            raise ListeningError(f"cannot listen on {host} port {port} ({reason}): name another") from error
        shown = f"[{host}]" if ":" in host else host
        yield ControlFacts(f"http://{shown}:{runner.addresses[0][1]}", token)
    finally:
        stopping.set()
        await runner.cleanup()


def build_control(wallet: HeadlessWallet, token: str, stopping: asyncio.Event) -> web.Application:
    """The application, every request of which must carry the token and come to a name of this machine."""

    async def events(request: web.Request) -> web.StreamResponse:
        return await stream_events(request, wallet.feed, stopping)

    access = Access(guard=_guard, bearer=ChangingToken(token))
    entry = Route(method="*", path="", name="control", handler=events, access=access)
    layers = (_named(RequestIds(urandom)), plain_chunks(), bearer(entry), body(_BODY_LIMIT_BYTES))

    @web.middleware
    async def layered(request: web.Request, handler: Handler) -> web.StreamResponse:
        return await behind(layers, handler, entry)(request)

    application = web.Application(client_max_size=_BODY_LIMIT_BYTES + 1, middlewares=[layered])
    handlers = ControlHandlers(wallet, stopping)
    for method, path, answer in (
        ("POST", "/pair", handlers.pair),
        ("GET", "/sessions", handlers.list_sessions),
        ("PATCH", "/sessions/{id}", handlers.change_session),
        ("DELETE", "/sessions/{id}", handlers.end_session),
        ("POST", "/sessions/{id}/approve", handlers.approve_session),
        ("POST", "/sessions/{id}/reject", handlers.reject_session),
        ("GET", "/rules", handlers.list_rules),
        ("PUT", "/rules", handlers.put_rules),
        ("GET", "/calls", handlers.list_calls),
        ("POST", "/calls/{id}/approve", handlers.approve_call),
        ("POST", "/calls/{id}/reject", handlers.reject_call),
        ("POST", "/calls/{id}/answer", handlers.answer_call),
        ("POST", "/request", handlers.call_provider),
        ("POST", "/reset", handlers.reset),
    ):
        application.router.add_route(method, path, _answering(answer))
    application.router.add_route("GET", "/events", events)
    return application


def _guard(request: web.Request) -> None:
    """Refuse a page whose host name leads to this machine (DNS rebinding). Raises ForbiddenError."""
    host = request.headers.get("Host", "")
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        name = ""
    if not is_loopback(name):
        raise ForbiddenError(f"The wallet's control API does not answer to the host {host[:255]!r}.")


def _named(request_ids: RequestIds) -> Layer:
    """Give every request an id, which its problem has."""

    def enter(passage: Passage) -> None:
        passage.request_id = request_ids.name(passage.request)

    def leave(passage: Passage, response: web.StreamResponse) -> None:
        if not response.prepared:
            name_on(response, passage.request_id)

    return Layer(enter, leave)


# The bodies of requests, and the fields of answers.


class PairBody(Shape):
    """A pairing URI; the relay, which generation 2.x does not name; a generation if two are possible."""

    uri: Annotated[str, Field(min_length=1, max_length=4_096)]
    relay_url: str | None = None
    generation: Generation | None = None


class ChangeBody(Shape):
    """The new accounts of a session, the new chain, or both."""

    accounts: Annotated[list[int | str], Field(min_length=1)] | None = None
    chain_id: Annotated[int, Field(ge=1, le=2**53)] | None = None


class RejectBody(Shape):
    """The error that answers a call."""

    code: int = USER_REJECTED
    message: str = REJECTION


class AnswerBody(Shape):
    """The result that answers a call."""

    result: Any


class RequestBody(Shape):
    """A call of a web page's provider."""

    method: Annotated[str, Field(min_length=1, max_length=100)]
    params: list[Any] | dict[str, Any] | None = None
    origin: str | None = None
    name: str | None = None


async def read_body(request: web.Request, shape: type[AnyShape]) -> AnyShape:
    """The body in this shape; an empty body is an empty object. Raises InvalidInputError."""
    body = await json_object(request) if await request.read() else JsonObject({}, None)
    return check(shape, body.values, may_misspell=True)


async def read_rules(request: web.Request) -> list[Rule]:
    """The rules of a body, an array of their texts. Raises InvalidInputError that names every fault."""
    require_json(request)
    texts = parse_value(await request.read(), "The body", _MOST_VALUES)
    if not isinstance(texts, list) or len(texts) > _MOST_RULES:
        raise InvalidInputError(f"The body must be an array of at most {_MOST_RULES} rules.")
    rules, faults = [], []
    for place, text in enumerate(texts):
        try:
            rules.append(read_rule(text if isinstance(text, str) else repr(text)))
        except RuleError as error:
            faults.append(Fault(f"#/{place}", f"{error}."))
    if faults:
        raise InvalidInputError(f"{faults[0].detail}", faults)
    return rules


def read_state(request: web.Request) -> CallState | None:
    """The state that a list of calls is limited to. Raises InvalidInputError."""
    text = request.query.get("state")
    if text is None:
        return None
    try:
        return CallState(text)
    except ValueError:
        known = ", ".join(CallState)
        raise InvalidInputError(f"The query parameter state must be one of {known}.") from None


def session_fields(session: HeadlessSession) -> dict[str, Any]:
    """A session."""
    return {
        "id": session.id,
        "generation": session.generation,
        "state": session.state,
        "dapp": {"name": session.dapp.name, "url": session.dapp.url},
        "accounts": list(session.accounts),
        "chain_id": session.chain_id,
        **({"ended_by": session.ended_by, "reason": session.reason} if session.is_over else {}),
    }


def call_fields(call: HeadlessCall) -> dict[str, Any]:
    """A call. `explanation` is what a person would be shown."""
    fields: dict[str, Any] = {
        "id": call.id,
        "session": call.session.id,
        "origin": call.origin,
        "method": call.method,
        "params": call.params,
        "chain_id": call.chain_id,
        "text": call.text,
        "explanation": [list(line) for line in explanation_of(call.method, call.params, call.chain_id)],
        "state": call.state,
        "rule": call.because,
        "milliseconds": call.milliseconds,
    }
    if call.state is CallState.ANSWERED:
        fields["result"] = call.result
    if call.error is not None:
        fields["error"] = error_fields(call.error)
    return fields


def error_fields(failure: Failure) -> dict[str, Any]:
    """An error as JSON-RPC has it."""
    error = {"code": failure.code, "message": failure.message}
    return error if failure.data is None else {**error, "data": failure.data}


# The wallet's events as server-sent events (the HTML standard, section 9.2).


async def stream_events(request: web.Request, feed: Feed, stopping: asyncio.Event) -> web.StreamResponse:
    """Write each event as `data:` and one JSON object, until the client leaves or the wallet stops."""
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
    waiting: asyncio.Queue[Happening] = asyncio.Queue(_MOST_WAITING)
    has_lost_one = asyncio.Event()

    def watch(happening: Happening) -> None:
        try:
            waiting.put_nowait(happening)
        except asyncio.QueueFull:
            has_lost_one.set()

    with feed.watched_by(watch):
        await response.prepare(request)
        await response.write(b"retry: 1000\n\n")
        with suppress(ConnectionError):
            while not (stopping.is_set() or has_lost_one.is_set()):
                happening = await _unless_stopping(stopping, waiting.get(), _KEEP_ALIVE_SECONDS)
                if happening is not None:
                    await response.write(b"data: %b\n\n" % orjson.dumps(event_fields(happening)))
                elif not stopping.is_set():
                    await response.write(KEEP_ALIVE)
    return response


def event_fields(happening: Happening) -> dict[str, Any]:
    """An event: its name and its subject."""
    match happening:
        case SessionHappening(event, session):
            return {"event": event, "session": session_fields(session)}
        case CallHappening(event, call):
            return {"event": event, "call": call_fields(call)}
        case PairingFailed(reason):
            return {"event": "failed", "reason": reason}
        case ProviderEvent(name, value, session):
            return {"event": name, "value": value, "origin": session.origin, "session": session.id}
