"""The server as clients reach it: through its public URL, and so through the proxy."""

import asyncio
from time import perf_counter

import aiohttp
import orjson

from bridge_server.cli.doctor.arrival import check_arrival
from bridge_server.cli.doctor.examination import Examination
from bridge_server.cli.doctor.findings import Finding, fail, ok, warn
from bridge_server.outgoing.failure_text import failure

_PROXY, _POLL, _SOCKET = "proxy", "long poll", "websocket"
_EARLY_SECONDS = 0.5
"""A held request may end so much sooner than it asked for."""
_GRACE_SECONDS = 10.0
_POLL_CURE = "let the proxy wait 30 s for an answer (nginx: proxy_read_timeout)"
_SOCKET_CURE = "have the proxy pass Upgrade and Connection on (nginx: proxy_http_version 1.1)"
_OK = 200
_MET = frozenset({200, 204})
_GATEWAY = frozenset({502, 503, 504})
_NOT_UPGRADED = "it was not upgraded"
_OF_THE_WALLET = orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": "eth_accounts", "params": []})


async def check_public_url(seen: Examination, session: aiohttp.ClientSession) -> list[Finding]:
    """The proxy and its headers; a long poll and a WebSocket, both held as long as clients hold them."""
    public = seen.settings.public_url
    if public is None:
        return [ok(_PROXY, "public_url is not set: answers to clients name the server's own address")]
    reached = await _reached(public, session)
    if reached is not None:
        return [reached]
    behind_it = asyncio.gather(_held_poll(seen, public, session), _held_socket(seen, public, session))
    if public.rstrip("/") == seen.url:
        return [ok(_PROXY, f"{public} is the server's own address: there is none"), *await behind_it]
    held, arrival, wallet = await asyncio.gather(
        behind_it, check_arrival(seen, public), _open_wallet(seen, public, session)
    )
    return [ok(_PROXY, f"{public} answers"), *arrival, *held, *wallet]


async def _reached(public: str, session: aiohttp.ClientSession) -> Finding | None:
    """The reason why the server is not reached; None if it is."""
    try:
        async with session.get(f"{public}/hello", allow_redirects=False) as response:
            status, is_own = response.status, "X-Request-ID" in response.headers
    except (aiohttp.ClientError, TimeoutError, ValueError) as error:
        cure = "see the DNS entry, the certificate and the proxy"
        return fail(_PROXY, f"{public} is not reached ({failure(error)})", cure)
    if status in _GATEWAY:
        cure = "see that the server runs, and that the proxy names its address and port"
        return fail(_PROXY, f"{public}/hello answers {status}: the proxy does not reach the server", cure)
    if status != _OK or not is_own:
        cure = "have the proxy pass every path on, or correct public_url"
        return fail(_PROXY, f"{public}/hello answers {status}, and not this server", cure)
    return None


async def _held_poll(seen: Examination, public: str, session: aiohttp.ClientSession) -> Finding:
    """A session is opened, polled for as long as clients wait, and ended."""
    wait = seen.settings.max_wait
    try:
        async with session.post(f"{public}/session/new", allow_redirects=False) as response:
            status, content = response.status, await response.read()
        if status != _OK:
            return warn(_POLL, f"not tried: {public}/session/new answers {status}")
        path = f"{public}/session/{orjson.loads(content)['sessionId']}"
        try:
            return await _polled(path, wait, session)
        finally:
            async with session.delete(path, allow_redirects=False):
                pass
    except (aiohttp.ClientError, TimeoutError, ValueError, KeyError, TypeError) as error:
        return fail(_POLL, f"broken off ({failure(error)})", _POLL_CURE)


async def _polled(path: str, wait: int, session: aiohttp.ClientSession) -> Finding:
    started = perf_counter()
    timeout = aiohttp.ClientTimeout(total=wait + _GRACE_SECONDS)
    async with session.get(f"{path}/calls?wait={wait}", allow_redirects=False, timeout=timeout) as response:
        await response.read()
    seconds = perf_counter() - started
    if response.status not in _MET:
        return fail(_POLL, f"answered {response.status} after {seconds:.0f} s of {wait}", _POLL_CURE)
    if seconds < wait - _EARLY_SECONDS:
        return warn(_POLL, f"held {seconds:.0f} s of {wait} through public_url", _POLL_CURE)
    return ok(_POLL, f"held {seconds:.0f} s through public_url")


async def _held_socket(seen: Examination, public: str, session: aiohttp.ClientSession) -> Finding:
    """A WebSocket that says nothing for as long as a long poll waits."""
    wait = seen.settings.max_wait
    try:
        async with session.ws_connect(f"{public}/", timeout=aiohttp.ClientWSTimeout(ws_close=1)) as socket:
            try:
                message = await socket.receive(timeout=wait)
            except TimeoutError:
                return ok(_SOCKET, f"upgraded, {wait} s")
            return fail(_SOCKET, f"ended by {message.type.name.lower()}", _SOCKET_CURE)
    except aiohttp.WSServerHandshakeError as error:
        return fail(_SOCKET, f"{_NOT_UPGRADED} (status {error.status})", _SOCKET_CURE)
    except (aiohttp.ClientError, TimeoutError) as error:
        return fail(_SOCKET, f"{_NOT_UPGRADED} ({failure(error)})", _SOCKET_CURE)


async def _open_wallet(seen: Examination, public: str, session: aiohttp.ClientSession) -> list[Finding]:
    """Whether the wallet, if it can do anything, answers strangers that come through the proxy."""
    if not seen.settings.has_wallet:
        return []
    headers = {"Content-Type": "application/json"}
    try:
        async with session.post(
            f"{public}/rpc", data=_OF_THE_WALLET, headers=headers, allow_redirects=False
        ) as response:
            document = orjson.loads(await response.read())
    except (aiohttp.ClientError, TimeoutError, ValueError):
        return []
    if response.status != _OK or not isinstance(document, dict) or "result" not in document:
        return []
    return [fail("wallet", "it answers everybody who comes through the proxy", "set rpc_token")]
