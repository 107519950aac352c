"""The wallet's endpoints: who may call, when a call has its turn, what answers it, and their rows."""

import asyncio
import re
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import lru_cache, partial
from importlib import import_module
from time import perf_counter
from typing import Any, NoReturn

import aiohttp
import orjson
import structlog
from aiohttp import hdrs, web
from multidict import CIMultiDict

from bridge_server.kernel import fields, token_bucket
from bridge_server.kernel.errors import BridgeError, ForbiddenError, UnavailableError
from bridge_server.outbox.guarded_client import read_bounded
from bridge_server.wallet import parameters
from bridge_server.wallet.models import Caller, MethodNotFoundError, RpcCall
from bridge_server.wallet.node.node import Node, is_refused
from bridge_server.wallet.parameters import Params
from bridge_server.wallet.rpc.methods import Method, MethodTable
from bridge_server.wallet.rpc.wire import RpcAnswer, RpcBody, rpc_error_of
from bridge_server.web import routes
from bridge_server.web.addresses import ClientAddresses, Hosts, host_of
from bridge_server.web.answers import DocumentPage, json_answer, no_content
from bridge_server.web.bodies import require_json
from bridge_server.web.json_rpc import (
    MethodCall,
    Request,
    Unreadable,
    read_requests,
    write_batch,
    write_error,
    write_result,
)
from bridge_server.web.problems import REQUEST_ID
from bridge_server.web.routes import About, Access, AllowedOrigins, DescribedAnswer, Handler, Route

# Access to the wallet, decided by the head of a request.
#
# A web page can have its visitor's browser send requests anywhere. Requests with an Origin must come from an
# allowed page. A page whose own host name leads to this machine (DNS rebinding) is recognised by that name,
# in Host. A request without a token must come from this machine.

REFUSED_PAGES = "Web pages of"
"""The beginning of the refusal of a web page by its origin."""

# Only proxies add these headers.
_FORWARDING_HEADERS = frozenset(("forwarded", "via", "x-real-ip", "cf-connecting-ip", "true-client-ip"))
_FORWARDING_PREFIX = "x-forwarded-"
_HEADERS_OF_CLIENTS = ("X-Forwarded-For", "X-Real-IP", "CF-Connecting-IP", "True-Client-IP")


class WalletGuard:
    """Checks a request before its body is read. `hosts` are names or addresses, without ports."""

    def __init__(
        self, addresses: ClientAddresses, hosts: Iterable[str], origins: AllowedOrigins, *, has_token: bool
    ) -> None:
        self._addresses = addresses
        self._hosts = Hosts(hosts)
        self._origins = origins
        self._has_token = has_token

    def check(self, request: web.Request) -> None:
        """Raise ForbiddenError for a request that must not reach any method of the wallet."""
        headers = request.headers
        if not self._hosts.admit(request):
            raise ForbiddenError(
                f"The wallet does not answer to the host {host_of(request)[:255]!r}: reach it as localhost "
                "or by its address, or name the host in rpc_hosts."
            )
        origin = headers.get(hdrs.ORIGIN)
        if origin is not None and origin not in self._origins:
            raise ForbiddenError(
                f"{REFUSED_PAGES} {origin[:255]!r} may not call the wallet. Allow them with the setting "
                "rpc_origins."
            )
        if not self._has_token and not self._is_local(request):
            raise ForbiddenError(
                "Without a token the wallet answers only callers on its own machine: set rpc_token, and send "
                "it as 'Authorization: Bearer TOKEN'."
            )

    def _is_local(self, request: web.Request) -> bool:
        """Whether the client is on this machine, not only the proxy that forwards for it."""
        peer = request.remote or ""
        if not fields.is_loopback_address(peer):
            return False
        headers = request.headers
        if not any(map(_is_forwarding, headers)):
            return True
        hops = ",".join(hop for name in _HEADERS_OF_CLIENTS for hop in headers.getall(name, ())).split(",")
        return (
            self._addresses.trusts(peer)
            and "X-Forwarded-For" in headers
            and "Forwarded" not in headers
            and all(fields.is_loopback_address(hop.strip()) for hop in hops)
        )


@lru_cache(maxsize=1_024)
def _is_forwarding(header: str) -> bool:
    """Whether only proxies send a header of this name."""
    name = header.lower()
    return name in _FORWARDING_HEADERS or name.startswith(_FORWARDING_PREFIX)


# Signing shares the event loop with other requests: one signature in each of its turns.
#
# A signature keeps the processor busy for as long as a whole request does. Were all pending signatures made
# at once, a long poll that is woken would wait for all of them, at each of its steps. So while other requests
# wait, each turn of the event loop serves one call of the wallet; further calls wait for the next turns,
# first come, first served.
#
# A thread, such as the database's, gets the processor only when the event loop leaves it. So while a thread
# works, there are pauses between the turns.

_SECONDS_PER_CALL = 0.000_1
"""The time that a batch may take before it must wait for its next turn."""
_SECONDS_APART = 0.001
"""The pause between two turns, for threads that need the processor."""


class SigningTurns:
    """Lets one call pass at each turn of the event loop, while other requests wait or threads work."""

    def __init__(self, others_wait: Callable[[], bool], others_work: Callable[[], bool]) -> None:
        self._others_wait = others_wait
        self._others_work = others_work
        self._is_taken = False
        self._waiting: deque[asyncio.Future[None]] = deque()

    def take(self) -> asyncio.Future[None] | None:
        """The future that a call has to await for its turn; None when it may pass at once."""
        if not self._waiting and not self._others_wait() and not self._others_work():
            return None
        loop = asyncio.get_running_loop()
        if self._is_taken:
            turn = loop.create_future()
            self._waiting.append(turn)
            return turn
        self._is_taken = True
        loop.call_soon(self._end)
        return None

    def _end(self) -> None:
        if self._others_work():
            asyncio.get_running_loop().call_later(_SECONDS_APART, self._begin_next)
        else:
            self._begin_next()

    def _begin_next(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():  # its client may have left
                turn.set_result(None)
                asyncio.get_running_loop().call_soon(self._end)
                return
        self._is_taken = False


class BatchTurns:
    """The turns of one batch: as long as one lasts, its calls follow one another."""

    def __init__(self, turns: SigningTurns) -> None:
        self._turns = turns
        self._ends_at = 0.0

    async def next(self) -> None:
        """Return when the batch's next call may be served."""
        if perf_counter() < self._ends_at:
            return
        turn = self._turns.take()
        await (asyncio.sleep(0) if turn is None else turn)
        self._ends_at = perf_counter() + _SECONDS_PER_CALL


# The endpoint where this process holds the wallet.

_SHOWN_CHARACTERS = 100
_METHOD_OF_THE_RELAY = re.compile(r"\s*(?:irn|iridium|wc)_", re.IGNORECASE)
"""Methods of generation 2.x. The node must not see them: they carry the messages of other programs."""


class WalletHandlers:
    """The endpoint of the protocol's section D. The wallet answers its own methods, the node all others."""

    def __init__(
        self,
        tables: Iterable[MethodTable],
        node: Node,
        turns: SigningTurns,
        addresses: ClientAddresses,
        relay_url: Callable[[web.Request], str],
    ) -> None:
        """`relay_url` is the address of the relay, for a client that sends its methods here."""
        self._methods: dict[str, Method] = {}
        self._waiting: set[str] = set()
        for table in tables:
            self._methods.update(table.by_name)
            self._waiting.update(table.by_name if table.wait else ())
        self._node = node
        self._turns = turns
        self._addresses = addresses
        self._relay_url = relay_url

    async def rpc(self, request: web.Request) -> web.Response:
        """JSON-RPC 2.0, one call or a batch of at most 100, whose order is kept. Methods that the wallet does
        not have go to the Ethereum node. Failures are JSON-RPC errors with status 200: -32700 and -32600 to
        -32603, -32000 to -32005 (EIP-1474), 4001 rejected, 4100 locked, 4900 no node, 4901 another chain,
        4902 unknown chain. A call may take as long as a person needs to approve it.
        """
        require_json(request, is_declared=True)
        requests = read_requests(await request.read())
        caller = Caller(self._addresses.client(request), request.headers.get("Origin"), request[REQUEST_ID])
        relay_url = partial(self._relay_url, request)
        if isinstance(requests, list):
            answer = await self._answer_batch(requests, caller, relay_url)
        else:
            answer = await self._answer(requests, caller, relay_url)
        return no_content() if answer is None else json_answer(answer)

    async def _answer(self, request: Request, caller: Caller, relay_url: Callable[[], str]) -> bytes | None:
        """The response object; None for a notification."""
        if isinstance(request, Unreadable):
            return write_error(request.id_text, request.error)
        method = self._method(request.method, relay_url)
        if method is None:
            [response] = await self._ask_node([request], caller)
            return response
        turn = self._turns.take()
        if turn is not None:
            await turn
        return await _run(method, request, caller)

    async def _answer_batch(
        self, requests: Sequence[Request], caller: Caller, relay_url: Callable[[], str]
    ) -> bytes | None:
        """Answer a batch. Calls that wait run beside the others; the node gets its calls in one request."""
        responses: dict[int, bytes | None] = {}
        for_node: dict[int, MethodCall] = {}
        turns = BatchTurns(self._turns)

        async def run_beside(place: int, method: Method, call: MethodCall) -> None:
            responses[place] = await _run(method, call, caller)

        async with asyncio.TaskGroup() as group:
            for place, request in enumerate(requests):
                if isinstance(request, Unreadable):
                    responses[place] = write_error(request.id_text, request.error)
                elif (method := self._method(request.method, relay_url)) is None:
                    for_node[place] = request
                elif request.method in self._waiting:
                    group.create_task(run_beside(place, method, request))
                else:
                    await turns.next()
                    responses[place] = await _run(method, request, caller)
            if for_node:
                from_node = await self._ask_node(list(for_node.values()), caller)
                responses.update(zip(for_node, from_node, strict=True))
        said = [response for _, response in sorted(responses.items()) if response is not None]
        return write_batch(said) if said else None

    def _method(self, name: str, relay_url: Callable[[], str]) -> Method | None:
        """The function that answers the method; None when the node answers it."""
        method = self._methods.get(name)
        if method is not None:
            return method
        if _METHOD_OF_THE_RELAY.match(name):
            return partial(_method_of_relay, name, relay_url)
        return partial(_no_such_method, name) if is_refused(name) else None

    async def _ask_node(self, calls: Sequence[MethodCall], caller: Caller) -> list[bytes | None]:
        """Have the node answer all these calls in one request."""
        answers: Sequence[Any]
        try:
            answers = await self._node.forward([RpcCall(call.method, call.params) for call in calls])
        except BridgeError as error:
            answers = [error] * len(calls)
        return [_response(call, each, caller.request_id) for each, call in zip(answers, calls, strict=True)]


def _response(request: Request, outcome: Any, request_id: str) -> bytes | None:
    """The response to a request, whose outcome is a BridgeError or a result; None for a notification."""
    if isinstance(request, Unreadable):
        return write_error(request.id_text, request.error)
    if request.id_text is None:
        return None
    if isinstance(outcome, BridgeError):
        return write_error(request.id_text, rpc_error_of(outcome, request.method, request_id))
    return write_result(request.id_text, outcome)


async def _run(method: Method, call: MethodCall, caller: Caller) -> bytes | None:
    id_text = call.id_text
    try:
        result = await method(call.params, caller)
        return None if id_text is None else write_result(id_text, result)
    except Exception as failure:
        error = rpc_error_of(failure, call.method, caller.request_id)
        return None if id_text is None else write_error(id_text, error)


async def _no_such_method(name: str, _params: Params, _caller: Caller) -> NoReturn:
    raise MethodNotFoundError(
        f"The wallet has no method {name[:_SHOWN_CHARACTERS]}, and the node is asked for none that signs, "
        "sends or handles keys."
    )


async def _method_of_relay(name: str, url: Callable[[], str], _params: Params, _caller: Caller) -> NoReturn:
    raise MethodNotFoundError(
        f"{name[:_SHOWN_CHARACTERS]} is a method of the relay, not of the wallet, and the node is not asked "
        f"for it. The relay is the WebSocket at {url()}"
    )


# Calls of the wallet at a process that does not hold it: they are forwarded to the holder.

_VIA = "1.1 bridge-server"
"""The mark of a forwarded call, which is not forwarded again."""
_ANSWER_LIMIT_BYTES = 128 * 2**20
_CONNECT_SECONDS = 5.0
_IDLE_SECONDS = 4.0
_TRY_AGAIN_SECONDS = 2
_CHECK_SECONDS = 3.0
"""How often a call that waits for its answer checks whether the wallet has moved."""

# These are about one connection (RFC 9110, section 7.6.1), or are written anew.
_NOT_PASSED_ON = frozenset(
    name.lower() for name in (
        hdrs.CONNECTION, hdrs.KEEP_ALIVE, hdrs.PROXY_AUTHENTICATE, hdrs.PROXY_AUTHORIZATION, hdrs.TE,
        hdrs.TRAILER, hdrs.TRANSFER_ENCODING, hdrs.UPGRADE, hdrs.CONTENT_LENGTH, hdrs.EXPECT,
        hdrs.ACCEPT_ENCODING, hdrs.X_FORWARDED_FOR, hdrs.VIA, "Proxy-Connection",
    )
)  # fmt: skip
_PASSED_BACK = (hdrs.CONTENT_TYPE, hdrs.RETRY_AFTER, hdrs.WWW_AUTHENTICATE)

log = structlog.get_logger()


class WalletElsewhere:
    """Answers calls while another process has the wallet, as that process does. `holder_url` gives the URL of
    that process. A call without an answer within `timeout_seconds` has failed.
    """

    def __init__(self, holder_url: Callable[[], Awaitable[str | None]], timeout_seconds: float) -> None:
        self._holder_url = holder_url
        self._timeout_seconds = timeout_seconds
        self._session: aiohttp.ClientSession | None = None

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Keep the connections to other processes while inside."""
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_IDLE_SECONDS),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=self._timeout_seconds, sock_connect=_CONNECT_SECONDS),
            trust_env=False,
            auto_decompress=False,
            skip_auto_headers=(hdrs.USER_AGENT, hdrs.ACCEPT_ENCODING),
        ) as self._session:
            yield
        self._session = None

    async def rpc(self, request: web.Request) -> web.Response:
        """The answer of the process that has the wallet; errors of JSON-RPC when there is none to ask."""
        require_json(request, is_declared=True)
        body = await request.read()
        requests = read_requests(body)
        try:
            return await self._forwarded(request, body)
        except UnavailableError as error:
            many = requests if isinstance(requests, list) else [requests]
            answers = [_response(each, error, request[REQUEST_ID]) for each in many]
            said = [each for each in answers if each is not None]
            if not said:
                return no_content()
            return json_answer(write_batch(said) if isinstance(requests, list) else said[0])

    async def _forwarded(self, request: web.Request, body: bytes) -> web.Response:
        url = None
        if not any(_VIA in each for each in request.headers.getall(hdrs.VIA, ())):
            url = await self._holder_url()
        if url is None or self._session is None:
            raise UnavailableError("No process holds the wallet at this moment.", _TRY_AGAIN_SECONDS)
        try:
            return await self._unless_moved(url, self._exchanged(self._session, url, request, body))
        except aiohttp.ClientConnectorError as error:
            log.warning("wallet_not_reached", url=url, reason=str(error))
            raise UnavailableError(
                "The process that holds the wallet cannot be reached.", _TRY_AGAIN_SECONDS
            ) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            log.warning("wallet_did_not_answer", url=url, reason=str(error) or type(error).__name__)
            raise UnavailableError(
                "The process that holds the wallet has not answered: it may have done what was asked. "
                "Check before you ask again.",
                _TRY_AGAIN_SECONDS,
            ) from error

    async def _exchanged(
        self, session: aiohttp.ClientSession, url: str, request: web.Request, body: bytes
    ) -> web.Response:
        content = bytearray()
        async with session.post(
            f"{url.rstrip('/')}{request.path_qs}", data=body, headers=_forwarded_headers(request),
            allow_redirects=False,
        ) as answer:  # fmt: skip
            await read_bounded(answer, content, _ANSWER_LIMIT_BYTES)
        headers = {name: answer.headers[name] for name in _PASSED_BACK if name in answer.headers}
        return web.Response(status=answer.status, body=bytes(content), headers=headers)

    async def _unless_moved(self, url: str, exchange: Coroutine[None, None, web.Response]) -> web.Response:
        """The answer of a process, which may be frozen. Raises TimeoutError once another has the wallet."""
        task = asyncio.create_task(exchange)
        try:
            while not (await asyncio.wait([task], timeout=_CHECK_SECONDS))[0]:
                with suppress(UnavailableError):
                    if await self._holder_url() != url:
                        raise TimeoutError("another process has taken over the wallet")
            return task.result()
        finally:
            task.cancel()


def moving_rpc(here: WalletHandlers, there: WalletElsewhere, is_here: Callable[[], bool]) -> Handler:
    """The endpoint of a wallet that is in one of several processes: the one that has it answers the call."""

    async def rpc(request: web.Request) -> web.StreamResponse:
        return await (here if is_here() else there).rpc(request)

    return rpc


def _forwarded_headers(request: web.Request) -> CIMultiDict[str]:
    """The headers as they came; the client's address follows the addresses that other proxies have named."""
    headers = CIMultiDict(
        (name, value) for name, value in request.headers.items() if name.lower() not in _NOT_PASSED_ON
    )
    clients = [*request.headers.getall(hdrs.X_FORWARDED_FOR, ()), request.remote or "unknown"]
    headers[hdrs.X_FORWARDED_FOR] = ", ".join(clients)
    headers[hdrs.VIA] = ", ".join((*request.headers.getall(hdrs.VIA, ()), _VIA))
    headers[hdrs.ACCEPT_ENCODING] = "identity"
    return headers


# The OpenRPC document at `GET /openrpc.json`, and as the answer of `rpc.discover`.
#
# It is made when it is asked for: most wallets never are.

DISCOVER = "rpc.discover"
_TAG = "Wallet"
_CALL = {"jsonrpc": "2.0", "id": 1, "method": "eth_accounts", "params": []}


@lru_cache(maxsize=1)
def openrpc_json() -> bytes:
    """The document as JSON."""
    document: dict[str, Any] = import_module("bridge_server.wallet.rpc.openrpc").openrpc_document()
    return orjson.dumps(document)


def written_openrpc() -> orjson.Fragment:
    """The OpenRPC document: each method with its parameters, result, errors and an example. The method
    `rpc.discover` answers it, too.
    """
    return orjson.Fragment(openrpc_json())


async def _discover(params: Params, _: Caller) -> orjson.Fragment:
    parameters.nothing(DISCOVER, params)
    return written_openrpc()


DISCOVERY = MethodTable({DISCOVER: _discover})
"""The method `rpc.discover` (https://spec.open-rpc.org/#service-discovery-method)."""


def wallet_routes(rpc: Handler, access: Access, body_limit_bytes: int) -> tuple[Route, ...]:
    """`POST /rpc`."""
    return (
        Route(
            method="POST", path="/rpc", name="rpc", handler=rpc, access=access, waits=True,
            body_limit_bytes=body_limit_bytes, reads_id=True, who="rpc",
            about=About(
                work=WalletHandlers.rpc, tag=_TAG, summary="Call methods of the wallet",
                answers=(
                    DescribedAnswer(200, "The responses; an error is one, too.", RpcAnswer),
                    DescribedAnswer(204, "There were only notifications."),
                ),
                body=RpcBody, body_example=_CALL,
                needs_database=False,
            ),
        ),
    )  # fmt: skip


def description_routes(every_request: token_bucket.Limit) -> tuple[Route, ...]:
    """`GET /openrpc.json`, for everyone: it says what the wallet can do, and nothing of its accounts."""
    document = DocumentPage(written_openrpc)
    return (
        Route(
            method="GET", path="/openrpc.json", name="openrpc", handler=document.answer,
            access=routes.ANY_PAGE, limits=(every_request,),
            about=About(
                work=written_openrpc, tag=_TAG, summary="The wallet's methods", needs_database=False,
                answers=(DescribedAnswer(200, "The document.", dict[str, Any]), routes.UNCHANGED),
            ),
        ),
    )  # fmt: skip
