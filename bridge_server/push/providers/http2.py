"""An HTTP/2 client for one server: one connection at a time, many requests on it.

It is written here because a cancelled request must not affect other requests on its connection, and answers
that a server sends after a GOAWAY must arrive. Common HTTP/2 clients close the connection in both cases.
"""

import asyncio
import ssl
from typing import Self

from bridge_server.push.providers.http2_connection import Headers, Http2Connection
from bridge_server.push.providers.http2_exchange import (
    ConnectionLostError,
    Http2Answer,
    Http2Error,
    NotTakenError,
)

_ATTEMPTS = 3
# NATs and firewalls drop a connection that is idle for long, without a notice.
_IDLE_SECONDS = 600.0


class Http2Client:
    """A client for `https://host:port`. Use it as an async context manager.

    A request that the server has not processed, or whose connection broke, is retried on a new connection, up
    to three attempts. So use it for idempotent requests only.
    """

    def __init__(self, host: str, port: int, tls: ssl.SSLContext, connect_seconds: float) -> None:
        self._host = host
        self._port = port
        self._tls = tls
        self._connect_seconds = connect_seconds
        self._current: Http2Connection | None = None
        self._opening: asyncio.Task[Http2Connection] | None = None
        self._connections: set[Http2Connection] = set()
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Cancel the requests in flight and close every connection."""
        self._closed = True
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.wait([self._opening])
        await asyncio.gather(*(connection.close() for connection in list(self._connections)))
        self._current = None

    async def request(self, headers: Headers, body: bytes) -> Http2Answer:
        """Send a request; returns its answer. Cancelling it affects no other request. Raises Http2Error."""
        for _ in range(_ATTEMPTS - 1):
            connection = await self._connection()
            try:
                return await connection.request(headers, body)
            except (NotTakenError, ConnectionLostError):
                continue
        return await (await self._connection()).request(headers, body)

    async def _connection(self) -> Http2Connection:
        """The connection in use, or a new one; concurrent callers wait for the same new connection."""
        if self._closed:
            raise Http2Error("the client was closed")
        current = self._current
        if current is not None and current.usable:
            if current.idle_seconds < _IDLE_SECONDS:
                return current
            current.retire()
        if self._opening is None or self._opening.done():
            self._opening = asyncio.create_task(self._open(), name="HTTP/2 connection")
            self._opening.add_done_callback(lambda task: task.cancelled() or task.exception())
        opening = self._opening
        await asyncio.wait([opening])
        if opening.cancelled():
            raise Http2Error("the client was closed")
        return opening.result()

    async def _open(self) -> Http2Connection:
        try:
            async with asyncio.timeout(self._connect_seconds):
                connection = await self._connect()
        except TimeoutError:
            raise Http2Error("no connection in time") from None
        except ssl.SSLCertVerificationError as error:
            raise Http2Error(f"the certificate is not valid: {error.verify_message}") from None
        except ssl.SSLError as error:
            raise Http2Error(f"no TLS connection: {error.reason}") from None
        except OSError as error:
            raise Http2Error(f"no connection: {error.strerror or type(error).__name__}") from None
        self._current = connection
        return connection

    async def _connect(self) -> Http2Connection:
        transport, connection = await asyncio.get_running_loop().create_connection(
            Http2Connection, self._host, self._port, ssl=self._tls
        )
        self._connections.add(connection)
        connection.lost.add_done_callback(lambda _: self._connections.discard(connection))
        try:
            if transport.get_extra_info("ssl_object").selected_alpn_protocol() != "h2":
                raise Http2Error("the server does not speak HTTP/2")
            await connection.opened()
        except BaseException:
            transport.abort()
            raise
        return connection


def client_tls(ca_file: str | None) -> ssl.SSLContext:
    """A TLS context for HTTP/2 that verifies the server with the certificates of the system or of a file."""
    context = ssl.create_default_context(cafile=ca_file)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["h2"])
    return context
