"""The client for untrusted servers: address guard, name resolution, limited reading, failures as outcomes."""

import asyncio
import errno
import os
import re
import socket
import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from enum import Enum, auto
from functools import partial
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from traceback import format_tb
from typing import TypeAlias

import aiohttp
import structlog
from aiohttp import AddrInfoType, client_exceptions
from aiohttp.abc import AbstractResolver, ResolveResult

from bridge_server.kernel.background import settle
from bridge_server.kernel.values import dataclass

_KEYS_REMEMBERED = 10_000
_THREADS = 64
_THREADS_KEPT_FOR_QUICK_NAMES = 16
_QUICK_SECONDS = 1.0
_REASON_LIMIT = 200
ANSWER_LIMIT_BYTES = 64 * 1_024
"""The bytes that are read of the answer to a webhook or a push."""

_ANSWERED = re.compile(r"\banswered ([1-5][0-9]{2})\b", re.ASCII)

# Less than the 5 seconds after which common servers close an idle connection: a POST during the close is lost
# and retried only after a delay.
_IDLE_SECONDS = 4.0
CONNECT_SECONDS = 3.0
"""The time limit of a name lookup and a connection, so that unreachable servers are given up early."""

log = structlog.get_logger()


class Verdict(Enum):
    """The meaning of an attempt for its message."""

    DELIVERED = auto()
    FAILED = auto()
    """A retry may succeed."""
    GONE = auto()
    """The receiver is gone: it answered 410, or the provider calls its token dead."""
    REFUSED = auto()
    """No retry can succeed: the guard refuses the address, or the receiver will never accept the message."""
    BLOCKED = auto()
    """The service refuses this server's credentials, so no message of the channel can be delivered."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one attempt. `reason` is a short text for people, without the URL, and empty after a
    success. `status` is the status of the answer, if there was one. `retry_after_seconds` is the receiver's
    Retry-After; with `about_lane` it pauses the whole lane, otherwise only this message. None: the service
    does not say which of them it means.
    """

    verdict: Verdict
    reason: str = ""
    status: int | None = None
    retry_after_seconds: float | None = None
    about_lane: bool | None = False


def answered_status(reason: str) -> int | None:
    """The status in the reason of an outcome, which is stored; None when there was no answer."""
    found = _ANSWERED.search(reason)
    return int(found[1]) if found else None


Rule: TypeAlias = Callable[[str, int], str | None]
"""Returns the reason why an address and port are refused; None if they are allowed."""

LookUp: TypeAlias = Callable[[str], list[str]]
"""Returns the numeric addresses of a name. Blocks. Raises OSError."""


def guarded_client(
    rule: Rule, look_up: LookUp, timeout_seconds: float, connect_seconds: float = CONNECT_SECONDS
) -> aiohttp.ClientSession:
    """A client session whose connections the rule guards. The caller closes it and must not follow redirects.
    `timeout_seconds` covers a request from the name lookup to the last byte of the answer, and
    `connect_seconds` the lookup and the connection. The caller limits the number of concurrent requests.
    """
    connector = aiohttp.TCPConnector(
        resolver=GuardedResolver(rule, look_up),
        socket_factory=guarded_sockets(rule),
        family=socket.AF_UNSPEC,
        keepalive_timeout=_IDLE_SECONDS,
        limit=0,
    )
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=timeout_seconds, connect=connect_seconds),
        trust_env=False,
        auto_decompress=False,
    )


async def read_limited(response: aiohttp.ClientResponse) -> bytes:
    """The first 64 KiB of an answer; a longer answer closes the connection."""
    body = bytearray()
    try:
        await read_bounded(response, body, ANSWER_LIMIT_BYTES)
    except (aiohttp.ClientError, OSError):  # the status has arrived, and only that matters
        response.close()
    return bytes(body)


async def read_bounded(response: aiohttp.ClientResponse, body: bytearray, limit_bytes: int) -> None:
    """Append the response's body to `body`, up to `limit_bytes` in all; a shorter one is read to its end."""
    while len(body) < limit_bytes and (chunk := await response.content.read(limit_bytes - len(body))):
        body += chunk


def judge_error(error: Exception) -> Outcome:
    """The outcome of a request without an answer: REFUSED by the guard, or FAILED."""
    refused = refusal(error)
    if refused is not None:
        return Outcome(Verdict.REFUSED, refused)
    if not isinstance(error, aiohttp.ClientError | OSError):
        # Log the place and not the text, which can quote the URL or a token.
        frame = format_tb(error.__traceback__)[-1]
        log.error("outgoing_request_broke", kind=type(error).__name__, where=frame)
    return Outcome(Verdict.FAILED, failure(error))


def refusal(error: Exception) -> str | None:
    """The reason why this server will never make the request; None if a retry may succeed."""
    if isinstance(error, aiohttp.ClientConnectorError) and isinstance(error.os_error, AddressRefusedError):
        return error.os_error.reason
    if isinstance(error, aiohttp.InvalidURL):
        return "the URL cannot be used"
    return None


def failure(error: Exception) -> str:
    """Why an attempt failed, in at most 200 characters, without the URL, which can hold secrets."""
    return _failure(error)[:_REASON_LIMIT]


def _failure(error: Exception) -> str:
    match error:
        case client_exceptions.ClientConnectorCertificateError(certificate_error=cause):
            return f"the certificate is not valid: {getattr(cause, 'verify_message', cause)}"
        case client_exceptions.ClientConnectorSSLError():
            return f"no TLS connection: {getattr(error.os_error, 'reason', None) or error.strerror}"
        case aiohttp.ClientConnectorDNSError():
            return f"the name does not resolve: {error.strerror or error.os_error}"
        case aiohttp.ClientConnectorError():
            return f"no connection: {error.strerror or error.os_error}"
        case aiohttp.ConnectionTimeoutError():
            return "no connection in time"
        case TimeoutError():
            return "no answer in time"
        case aiohttp.ServerDisconnectedError():
            return "the connection was closed before an answer"
        case aiohttp.ClientResponseError():
            return "the answer is not valid HTTP"
        case OSError():
            return f"the connection broke: {_break(error)}"
        case _:
            return f"the request failed: {type(error).__name__}"


def _break(error: OSError) -> str:
    if isinstance(error, aiohttp.ClientOSError):  # its own text can contain the URL
        return os.strerror(error.errno) if error.errno else type(error).__name__
    return error.strerror or type(error).__name__


# The address guard: outgoing requests may connect to public unicast addresses and to ports of web servers.
#
# The URL of a webhook is untrusted, and must not lead into the server's own network (server-side request
# forgery). The guard checks the address at the moment of the connection, for names, literals and redirects
# alike. The table is explicit, because `ipaddress.is_global` allows translation prefixes and differs
# between Python versions. Source: the IANA special-purpose address registries.

REFUSED_IPV4 = {
    IPv4Network("0.0.0.0/8"): "this host",
    IPv4Network("10.0.0.0/8"): "private",
    IPv4Network("100.64.0.0/10"): "carrier-grade NAT",
    IPv4Network("127.0.0.0/8"): "loopback",
    IPv4Network("168.63.129.16/32"): "a cloud's host agent",
    IPv4Network("169.254.0.0/16"): "link-local",
    IPv4Network("172.16.0.0/12"): "private",
    IPv4Network("192.0.0.0/24"): "reserved for protocols",
    IPv4Network("192.0.2.0/24"): "documentation",
    IPv4Network("192.88.99.0/24"): "6to4 relay",
    IPv4Network("192.168.0.0/16"): "private",
    IPv4Network("198.18.0.0/15"): "benchmarking",
    IPv4Network("198.51.100.0/24"): "documentation",
    IPv4Network("203.0.113.0/24"): "documentation",
    IPv4Network("224.0.0.0/4"): "multicast",
    IPv4Network("240.0.0.0/4"): "reserved",
}

GLOBAL_UNICAST_IPV6 = IPv6Network("2000::/3")
"""The range that IANA assigns as global unicast. Addresses outside of it are refused as well."""

REFUSED_IPV6 = {
    IPv6Network("::/128"): "unspecified",
    IPv6Network("::1/128"): "loopback",
    IPv6Network("::ffff:0:0/96"): "IPv4-mapped",
    IPv6Network("::/96"): "IPv4-compatible",
    IPv6Network("64:ff9b::/96"): "NAT64",
    IPv6Network("64:ff9b:1::/48"): "NAT64",
    IPv6Network("100::/64"): "discard-only",
    IPv6Network("2001::/32"): "Teredo",
    IPv6Network("2001::/23"): "reserved for protocols",
    IPv6Network("2001:db8::/32"): "documentation",
    IPv6Network("2002::/16"): "6to4",
    IPv6Network("3ffe::/16"): "returned by a closed experiment",
    IPv6Network("3fff::/20"): "documentation",
    IPv6Network("5f00::/16"): "segment routing",
    IPv6Network("fc00::/7"): "unique local",
    IPv6Network("fe80::/10"): "link-local",
    IPv6Network("fec0::/10"): "site-local",
    IPv6Network("ff00::/8"): "multicast",
}

_WEB_PORTS = frozenset({80, 443})
_FIRST_UNPRIVILEGED_PORT = 1_024


class AddressRefusedError(OSError):
    """The guard refuses the address or port. The text names the reason."""

    def __init__(self, reason: str) -> None:
        super().__init__(errno.EACCES, reason)
        self.reason = reason


def public_only(address: str, port: int) -> str | None:
    """The rule that allows public addresses only. `address` is numeric; a malformed one is refused."""
    if port not in _WEB_PORTS and port < _FIRST_UNPRIVILEGED_PORT:
        return f"port {port} is not allowed"
    try:
        parsed = ip_address(address)
    except ValueError:
        return "the address cannot be read"
    kind = _refused(parsed)
    return None if kind is None else f"the address {parsed} is not public ({kind})"


def anywhere(address: str, port: int) -> str | None:
    """The rule for development, which allows every address."""
    return None


def guarded_sockets(rule: Rule) -> Callable[[AddrInfoType], socket.socket]:
    """A socket factory for aiohttp's connector that raises AddressRefusedError for refused addresses. The
    connector calls it before every connect, for IP literals and resolved names, with the final address.
    """

    def make(info: AddrInfoType) -> socket.socket:
        family, kind, protocol, _, address = info
        reason = rule(str(address[0]), int(address[1]))
        if reason is not None:
            raise AddressRefusedError(reason)
        return socket.socket(family, kind, protocol)

    return make


def _refused(address: IPv4Address | IPv6Address) -> str | None:
    if isinstance(address, IPv4Address):
        return next((kind for network, kind in REFUSED_IPV4.items() if address in network), None)
    if address.scope_id is not None:
        return "scoped"
    kind = next((kind for network, kind in REFUSED_IPV6.items() if address in network), None)
    if kind is None and address not in GLOBAL_UNICAST_IPV6:
        return "not global unicast"
    return kind


class ReservedSemaphore:
    """A semaphore with `total` places, given in the order of the requests, of which `kept` are only for keys
    whose last use went well. `note` stores that; the most recently used keys are remembered.
    """

    def __init__(self, total: int, kept: int) -> None:
        self._all = asyncio.Semaphore(total)
        self._open = asyncio.Semaphore(total - kept)
        self._went_well: OrderedDict[str, bool] = OrderedDict()

    def note(self, key: str, well: bool) -> None:
        """Remember whether the last use of the key went well."""
        self._went_well[key] = well
        self._went_well.move_to_end(key)
        if len(self._went_well) > _KEYS_REMEMBERED:
            self._went_well.popitem(last=False)

    async def take(self, key: str) -> Callable[[], None]:
        """Wait for a place; returns a function that releases it, to be called once."""
        if self._went_well.get(key):
            await self._all.acquire()
            return self._all.release
        await self._open.acquire()
        try:
            await self._all.acquire()
        except BaseException:
            self._open.release()
            raise
        return self._release_both

    def _release_both(self) -> None:
        self._all.release()
        self._open.release()


def look_up(host: str) -> list[str]:
    """The numeric addresses of a name, from the operating system. Blocks. Raises OSError."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    except UnicodeError as error:
        raise OSError(f"not a host name: {error}") from error
    return [str(address[0]) for *_, address in found]


class GuardedResolver(AbstractResolver):
    """Resolves names for aiohttp's connector, without the addresses that the rule refuses: although sockets
    are guarded, too, a name with allowed and refused addresses is to connect to an allowed one. Each look-up
    has a thread, so that a slow name server delays only the names that it serves.
    """

    def __init__(self, rule: Rule, look_up: LookUp = look_up) -> None:
        self._rule = rule
        self._look_up = look_up
        self._places = ReservedSemaphore(_THREADS, _THREADS_KEPT_FOR_QUICK_NAMES)

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """The allowed addresses. Raises AddressRefusedError if all are refused, OSError if there are none."""
        addresses = await self._addresses(host)
        refusals = {address: self._rule(address, port) for address in addresses}
        allowed = [address for address, reason in refusals.items() if reason is None]
        if allowed:
            return [_result(host, address, port) for address in allowed]
        reason = next(iter(refusals.values()), None)
        raise OSError("the name has no address") if reason is None else AddressRefusedError(reason)

    async def close(self) -> None:
        """Do nothing: a waiting thread ends with its answer, or with the process."""

    async def _addresses(self, host: str) -> list[str]:
        leave = await self._places.take(host)
        loop = asyncio.get_running_loop()
        started = loop.time()
        try:
            return await _in_thread(partial(self._look_up, host))
        finally:
            self._places.note(host, loop.time() - started < _QUICK_SECONDS)
            leave()


def _result(host: str, address: str, port: int) -> ResolveResult:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
    return ResolveResult(hostname=host, host=address, port=port, family=family, proto=0, flags=flags)


async def _in_thread(work: Callable[[], list[str]]) -> list[str]:
    """Run `work` in a daemon thread; a thread of an executor would delay the exit of the process."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[list[str]] = loop.create_future()

    def run() -> None:
        try:
            finish = partial(settle, done, work())
        except Exception as error:  # raised again in _in_thread
            finish = partial(settle, done, None, error)
        with suppress(RuntimeError):  # the event loop is closed: nothing waits for the answer
            loop.call_soon_threadsafe(finish)

    threading.Thread(target=run, daemon=True, name="webhook-name-lookup").start()
    return await done
