"""What all requests to strangers' servers share: guarded connections, short answers, failures as outcomes."""

import socket
from traceback import format_tb

import aiohttp
import structlog

from bridge_server.outgoing.bounded_body import ANSWER_LIMIT_BYTES, read_bounded
from bridge_server.outgoing.failure_text import failure, refusal
from bridge_server.outgoing.guard import Rule, guarded_sockets
from bridge_server.outgoing.outcome import Outcome, Verdict
from bridge_server.outgoing.resolver import GuardedResolver, LookUp

# Less than the 5 seconds after which common servers close an idle connection: a POST that meets the
# closing is lost, and repeated only after a delay.
_IDLE_SECONDS = 4.0
CONNECT_SECONDS = 3.0
"""How long a name lookup and a connection may take: what cannot be reached occupies no place longer."""

log = structlog.get_logger()


def guarded_client(
    rule: Rule, look_up: LookUp, timeout_seconds: float, connect_seconds: float = CONNECT_SECONDS
) -> aiohttp.ClientSession:
    """A pool of connections to what the rule allows; the caller closes it, and follows no redirects.

    The time covers a request from the name lookup to the last byte of the answer; a part of it is for the
    connection. The caller limits how
    many requests there are.
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
    """The beginning of an answer, up to 64 KiB.

    A short one is read to its end, so that its connection can be used again; what is longer closes it.
    """
    body = bytearray()
    try:
        await read_bounded(response, body, ANSWER_LIMIT_BYTES)
    except (aiohttp.ClientError, OSError):  # the status has come already, and it decides
        response.close()
    return bytes(body)


def judge_error(error: Exception) -> Outcome:
    """What it means that no answer came: REFUSED by the guard, or FAILED."""
    refused = refusal(error)
    if refused is not None:
        return Outcome(Verdict.REFUSED, refused)
    if not isinstance(error, aiohttp.ClientError | OSError):
        # Where, and not what it says: that may quote the URL.
        frame = format_tb(error.__traceback__)[-1]
        log.error("outgoing_request_broke", kind=type(error).__name__, where=frame)
    return Outcome(Verdict.FAILED, failure(error))
