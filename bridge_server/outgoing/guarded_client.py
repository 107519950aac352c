"""Parts of every request to an untrusted server: guarded client, limited reading, failures as outcomes."""

import socket
from traceback import format_tb

import aiohttp
import structlog

from bridge_server.outgoing.bounded_body import ANSWER_LIMIT_BYTES, read_bounded
from bridge_server.outgoing.failure_text import failure, refusal
from bridge_server.outgoing.guard import Rule, guarded_sockets
from bridge_server.outgoing.outcome import Outcome, Verdict
from bridge_server.outgoing.resolver import GuardedResolver, LookUp

# Less than the 5 seconds after which common servers close an idle connection: a POST during the close is lost
# and retried only after a delay.
_IDLE_SECONDS = 4.0
CONNECT_SECONDS = 3.0
"""The time limit of a name lookup and a connection, so that unreachable servers are given up early."""

log = structlog.get_logger()


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
    """The first 64 KiB of an answer.

    The connection of a shorter answer can be reused; a longer answer closes it.
    """
    body = bytearray()
    try:
        await read_bounded(response, body, ANSWER_LIMIT_BYTES)
    except (aiohttp.ClientError, OSError):  # the status has arrived, and only that matters
        response.close()
    return bytes(body)


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
