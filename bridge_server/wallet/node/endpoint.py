"""The address of the node: requests and answers as bytes, and the failures of a connection."""

from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import TypeAlias

import aiohttp
from aiohttp import hdrs

from bridge_server.outgoing.bounded_body import read_bounded
from bridge_server.outgoing.failure_text import failure
from bridge_server.wallet.errors import NodeError, NoNodeError
from bridge_server.wallet.node.ordered_failures import FailureOf, ordered_answer

ANSWER_LIMIT_BYTES = 64 * 2**20

# Less than the 5 seconds after which some servers close an idle connection: a POST that meets the closing
# is lost.
_IDLE_SECONDS = 4.0
_LIMIT_EXCEEDED = -32005
_TOO_LARGE = f"The node's answer is larger than {ANSWER_LIMIT_BYTES // 2**20} MiB: ask for less."

# Failures of an open connection while the request was written or the answer read.
_BROKEN_OFF = (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError, ConnectionResetError, BrokenPipeError)


Witness: TypeAlias = Callable[[bytes, int, float, str], None]
"""Called with each request to the node: its body, the answer's status (0: none), the seconds, the failure."""


class BrokenOffError(NoNodeError):
    """The connection was closed before an answer: the node may or may not have taken the request."""


class NotOpenError(Exception):
    """A request would have opened a connection, and may not."""


class Endpoint:
    """The address of the node, and how it is spoken to."""

    def __init__(
        self,
        url: str,
        timeout_seconds: float,
        user_agent: str,
        failure_of: FailureOf | None = None,
        witness: Witness | None = None,
    ) -> None:
        self._url = url
        self._witness = witness
        self._failure_of = failure_of
        self._timeout_seconds = timeout_seconds
        self._headers = {
            hdrs.CONTENT_TYPE: "application/json",
            hdrs.ACCEPT_ENCODING: "identity",
            hdrs.USER_AGENT: user_agent,
        }

    def session(self, limit: int, on_opening: Callable[[], Awaitable[None]]) -> aiohttp.ClientSession:
        """A pool of at most so many connections; the caller closes it.

        `on_opening` is called before each of them is opened; its exceptions are raised by `exchange`.
        """

        async def before(*_: object) -> None:
            await on_opening()

        tracing = aiohttp.TraceConfig()
        tracing.on_connection_create_start.append(before)
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=limit, keepalive_timeout=_IDLE_SECONDS),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=self._timeout_seconds),
            trace_configs=[tracing],
            trust_env=False,
        )

    async def exchange(self, session: aiohttp.ClientSession, body: bytes) -> tuple[int, bytes]:
        """The status and the body of the node's answer.

        Raises NoNodeError, whose text has no URL; NodeError for an answer that is too large.
        """
        if self._witness is None:
            return await self._exchange(session, body)
        started, status, reason = perf_counter(), 0, ""
        try:
            status, answer = await self._exchange(session, body)
            return status, answer
        except (NoNodeError, NodeError) as error:
            reason = error.detail
            raise
        finally:
            self._witness(body, status, perf_counter() - started, reason)

    async def _exchange(self, session: aiohttp.ClientSession, body: bytes) -> tuple[int, bytes]:
        if self._failure_of is not None:
            ordered = await ordered_answer(body, self._failure_of)
            if ordered is not None:
                return ordered
        try:
            async with session.post(
                self._url, data=body, headers=self._headers, allow_redirects=False
            ) as response:
                return response.status, await _read(response)
        except aiohttp.ClientConnectorError as error:
            raise NoNodeError(f"The node cannot be reached: {failure(error)}.") from error
        except _BROKEN_OFF as error:
            raise BrokenOffError(f"The node cannot be reached: {failure(error)}.") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise NoNodeError(f"The node cannot be reached: {failure(error)}.") from error


async def _read(response: aiohttp.ClientResponse) -> bytes:
    body = bytearray()
    await read_bounded(response, body, ANSWER_LIMIT_BYTES + 1)
    if len(body) > ANSWER_LIMIT_BYTES:
        response.close()
        raise NodeError(_LIMIT_EXCEEDED, _TOO_LARGE)
    return bytes(body)
