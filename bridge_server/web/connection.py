"""aiohttp's connection, guarded: its number, its silence and its unread bytes are limited.

A connection is "unread" as soon as one byte does not leave at once: with a high-water mark of 0 aiohttp's
flow control says just that, and connections whose clients read cost nothing.
"""

import asyncio
import socket
from contextlib import suppress
from functools import partial
from typing import Any, cast

import orjson
import structlog
from aiohttp import web

from bridge_server.kernel.errors import LimitError, UnavailableError
from bridge_server.web.aiohttp_internals import ObservedHandler
from bridge_server.web.connections import Connections
from bridge_server.web.problem_links import TYPE_PREFIX, help_link
from bridge_server.web.refusals import LIMITS, Refuse, RefusingRunner, refusing
from bridge_server.web.unread import Backlog

_MOST_UNSENT_BYTES = 128 * 1024
"""The bytes that the system may hold for a client that reads nothing; Linux would take megabytes."""

_UNSENT_OPTION = getattr(socket, "TCP_NOTSENT_LOWAT", None)

_RETRY_SECONDS = 10

log = structlog.get_logger()


class StoppedReceivingError(UnavailableError):
    """The server stops before the rest of the body has come."""

    def __init__(self) -> None:
        super().__init__("The server stops, and the body had not arrived. Send it again, soon.")


class Connection(ObservedHandler):
    """One connection of a client."""

    __slots__ = ("_connections", "_is_proxy", "_refusal", "backlog", "client", "peer_key")

    def __init__(self, connections: Connections, refusal: bytes, server: web.Server, **options: Any) -> None:
        super().__init__(server, loop=asyncio.get_running_loop(), **options)
        self._connections = connections
        self._refusal = refusal
        self._is_proxy = False
        self.peer_key: str | None = None
        self.client = ""
        """The address that its requests count to, exempt or not; empty behind a proxy, which names it."""
        self.backlog: Backlog | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        writer = cast(asyncio.Transport, transport)
        peer = _address_of(writer)
        self._is_proxy = self._connections.addresses.trusts(peer)
        self.peer_key = None if self._is_proxy else self._connections.addresses.key_of(peer)
        self.client = "" if self._is_proxy else self.peer_key or peer
        if not self._connections.admit(self):
            writer.write(self._refusal)
            writer.close()
            return
        self.backlog = Backlog(writer, self.peer_key)
        writer.set_write_buffer_limits(high=0)
        _bound_what_the_system_holds(writer)
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        if self.backlog is not None:
            self._connections.unread.settle(self.backlog)
            self._connections.unread.release(self.backlog)
            self._connections.forget(self)
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self.backlog is not None:
            self._connections.unread.wait(self.backlog)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self.backlog is not None:
            self._connections.unread.settle(self.backlog)

    def close(self) -> None:
        """End after the request that is under way, and hear nothing more, unless its body is on its way."""
        if not self.is_receiving:
            super().close()

    def hang_up(self) -> None:
        self.force_close()

    def cut(self) -> None:
        if self.backlog is not None:
            self.backlog.writer.abort()

    def give_up_receiving(self) -> None:
        self.fail_receiving(StoppedReceivingError())

    def serve(self, request: web.BaseRequest) -> None:
        """Behind a proxy, count the bytes written next for the client of this request, not for the peer."""
        if self._is_proxy and self.backlog is not None and isinstance(request, web.Request):
            address = self._connections.addresses.bucket_key(request)
            self._connections.unread.move(self.backlog, address)

    def hold(self, body: bytes) -> None:
        """Note a large body that is on its way, until it is released."""
        if self.backlog is not None:
            self._connections.unread.hold(self.backlog, body)

    def release(self) -> None:
        """The body has been written, or never will be."""
        if self.backlog is not None:
            self._connections.unread.release(self.backlog)

    def wrote(self, written_bytes: int) -> None:
        """Note bytes that were pushed, without waiting for the client to keep up."""
        if self.writing_paused and self.backlog is not None:
            self._connections.unread.grow(self.backlog, written_bytes)


class GuardedRunner(RefusingRunner):
    """Runs an application, and guards its connections if aiohttp lets it."""

    def __init__(
        self,
        application: web.Application,
        refuse: Refuse,
        connections: Connections,
        shutdown_seconds: float,
        has_help: bool,
        **options: Any,
    ) -> None:
        super().__init__(
            application, refuse, handler_cancellation=True, shutdown_timeout=shutdown_seconds, **options
        )
        self._kind = refusing(Connection, refuse)
        self._connections = connections
        self._refusal = _refusal(has_help)
        self._options = LIMITS | options

    @property
    def server(self) -> web.Server | None:
        """The factory that a site calls for each connection."""
        server = super().server
        if server is None:
            return None
        make = partial(self._kind, self._connections, self._refusal, server, **self._options)
        try:
            make()
        except Exception as error:  # a version of aiohttp that was not tested
            log.warning("connections_not_guarded", error=str(error))
            return server
        return cast(web.Server, make)


def connection_of(request: web.BaseRequest) -> Connection | None:
    """The connection that will be written to at length; None when it is not guarded."""
    protocol = request.protocol
    if not isinstance(protocol, Connection):
        return None
    protocol.serve(request)
    return protocol


def _address_of(transport: asyncio.Transport) -> str:
    peer = transport.get_extra_info("peername")
    return str(peer[0]) if isinstance(peer, tuple) else ""


def _bound_what_the_system_holds(transport: asyncio.Transport) -> None:
    raw = transport.get_extra_info("socket")
    if raw is not None and _UNSENT_OPTION is not None:
        with suppress(OSError):
            raw.setsockopt(socket.IPPROTO_TCP, _UNSENT_OPTION, _MOST_UNSENT_BYTES)


def _refusal(has_help: bool) -> bytes:
    """The whole answer to a connection over the limit, before any request is read."""
    body = orjson.dumps(
        {
            "type": f"{TYPE_PREFIX}{LimitError.code}",
            "title": LimitError.title,
            "status": 429,
            "detail": "Your address has too many open connections. Close some, or use them again.",
        }
    )
    link = f"Link: {help_link(LimitError.code)}\r\n" if has_help else ""
    head = (
        "HTTP/1.1 429 Too Many Requests\r\nContent-Type: application/problem+json\r\n"
        f"{link}Content-Length: {len(body)}\r\nRetry-After: {_RETRY_SECONDS}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
