"""Calls of the wallet at a process that does not hold it: they are forwarded to the holder."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress

import aiohttp
import structlog
from aiohttp import hdrs, web
from multidict import CIMultiDict

from bridge_server.kernel.errors import UnavailableError
from bridge_server.outgoing.bounded_body import read_bounded
from bridge_server.wallet.rpc.handlers import WalletHandlers
from bridge_server.wallet.rpc.rpc_errors import rpc_error_of
from bridge_server.web.answers import json_answer, no_content
from bridge_server.web.json_body import require_json
from bridge_server.web.json_rpc import Request, Unreadable, read_requests, write_batch, write_error
from bridge_server.web.request_id import REQUEST_ID

_VIA = "1.1 bridge-server"
"""The mark of a forwarded call, which is not forwarded again."""
_ANSWER_LIMIT_BYTES = 128 * 2**20
_CONNECT_SECONDS = 5.0
_IDLE_SECONDS = 4.0
_TRY_AGAIN_SECONDS = 2
_LOOK_SECONDS = 3.0
"""How often a call that waits for its answer looks whether the wallet has moved."""

# These are about one connection (RFC 9110, section 7.6.1), or are written anew.
_NOT_PASSED_ON = frozenset(
    map(
        str.lower,
        (
            hdrs.CONNECTION, hdrs.KEEP_ALIVE, hdrs.PROXY_AUTHENTICATE, hdrs.PROXY_AUTHORIZATION, hdrs.TE,
            hdrs.TRAILER, hdrs.TRANSFER_ENCODING, hdrs.UPGRADE, hdrs.CONTENT_LENGTH, hdrs.EXPECT,
            hdrs.ACCEPT_ENCODING, hdrs.X_FORWARDED_FOR, hdrs.VIA, "Proxy-Connection",
        ),
    )
)  # fmt: skip
_PASSED_BACK = (hdrs.CONTENT_TYPE, hdrs.RETRY_AFTER, hdrs.WWW_AUTHENTICATE)

log = structlog.get_logger()


class WalletElsewhere:
    """Answers calls while another process has the wallet, as that process does.

    `holder_url` gives the URL of that process. A call without an answer within `timeout_seconds` has failed.
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
            return _refused(requests, error, request[REQUEST_ID])

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
                "The process that holds the wallet has not answered: it may have done what was asked. Look "
                "before you ask again.",
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
        """The answer of the process at the URL. Raises TimeoutError once another one has the wallet: a frozen
        process does not answer.
        """
        task = asyncio.create_task(exchange)
        try:
            while not (await asyncio.wait([task], timeout=_LOOK_SECONDS))[0]:
                with suppress(UnavailableError):
                    if await self._holder_url() != url:
                        raise TimeoutError("another process has taken over the wallet")
            return task.result()
        finally:
            task.cancel()


class MovingWalletHandlers:
    """The endpoint of a wallet that is in one of several processes."""

    def __init__(self, here: WalletHandlers, elsewhere: WalletElsewhere, is_here: Callable[[], bool]) -> None:
        self._here = here
        self._elsewhere = elsewhere
        self._is_here = is_here

    async def rpc(self, request: web.Request) -> web.Response:
        """Have the call answered by the process that has the wallet."""
        return await (self._here if self._is_here() else self._elsewhere).rpc(request)


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


def _refused(requests: Request | Sequence[Request], error: UnavailableError, request_id: str) -> web.Response:
    if isinstance(requests, Sequence):
        answers = [_error(each, error, request_id) for each in requests]
        said = [each for each in answers if each is not None]
        return json_answer(write_batch(said)) if said else no_content()
    answer = _error(requests, error, request_id)
    return no_content() if answer is None else json_answer(answer)


def _error(request: Request, error: UnavailableError, request_id: str) -> bytes | None:
    if isinstance(request, Unreadable):
        return write_error(request.id_text, request.error)
    if request.id_text is None:
        return None
    return write_error(request.id_text, rpc_error_of(error, request.method, request_id))
