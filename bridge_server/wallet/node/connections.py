"""Connections to the node that ask for its chain.

Calls that sign or send use a checked connection: a single one at a time, and the first call on it asks for
the chain. Calls that only read use a pool; before it opens a connection, a checked one asks for the chain.

Where every connection is closed after one answer, as by a proxy that speaks HTTP/1.0, the chain is asked for
on one connection, and again on the next in the same batch as the calls.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from time import perf_counter
from typing import Any, NamedTuple, NewType, TypeAlias, TypeVar

import aiohttp
import orjson
from aiohttp import hdrs

from bridge_server.kernel.json_texts import element_texts, member_texts
from bridge_server.kernel.version import USER_AGENT
from bridge_server.outbox.guarded_client import failure, read_bounded
from bridge_server.wallet.models import NodeError, NoNodeError, RpcCall, WrongChainError

CHAIN_ID = RpcCall("eth_chainId", [])
ANSWER_LIMIT_BYTES = 64 * 2**20

_CONNECTIONS = 16
_ATTEMPTS = 3

# Less than the 5 seconds after which some servers close an idle connection: a POST that meets the closing
# is lost.
_IDLE_SECONDS = 4.0
_INTERNAL_ERROR = -32603
_SERVER_ERROR = -32_000
_LIMIT_EXCEEDED = -32005
_TOO_LARGE = f"The node's answer is larger than {ANSWER_LIMIT_BYTES // 2**20} MiB: ask for less."

# Failures of an open connection while the request was written or the answer read.
_BROKEN_OFF = (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError, ConnectionResetError, BrokenPipeError)

# As most nodes begin the answer to one call, whose id is always 1.
_USUAL_BEGINNING = re.compile(rb'\{"jsonrpc":"2\.0","id":1,"result":')

Asked = TypeVar("Asked")

Answer: TypeAlias = bytes | NodeError
"""The JSON text of a result, or the error that the node answered with."""

Witness: TypeAlias = Callable[[bytes, int, float, str], None]
"""Called with each request to the node: its body, the answer's status (0: none), the seconds, the failure."""


class NodeFailure(NamedTuple):
    """A failure of one request: it is delayed, and then fails with a JSON-RPC error of the message `answer`,
    with an HTTP status, or, with `drop`, without an answer. A mere delay lets it reach the node.
    """

    delay_ms: int = 0
    drop: bool = False
    status: int | None = None
    answer: str | None = None


FailureOf: TypeAlias = Callable[[Sequence[str]], NodeFailure | None]
"""The failure that strikes the next request, which calls these methods."""


class NodeWatch(NamedTuple):
    """A watcher of requests to the node, which may have them fail, and sees each."""

    failure_of: FailureOf | None = None
    witness: Witness | None = None


UNWATCHED = NodeWatch()


class BrokenOffError(NoNodeError):
    """The connection was closed before an answer: the node may or may not have taken the request."""


class NotOpenError(Exception):
    """A request would have opened a connection, and may not."""


class Endpoint:
    """The address of the node: requests and answers as bytes, and the failures of a connection."""

    def __init__(self, url: str, timeout_seconds: float, watch: NodeWatch) -> None:
        self._url = url
        self._failure_of, self._witness = watch
        self._timeout_seconds = timeout_seconds
        self._headers = {
            hdrs.CONTENT_TYPE: "application/json",
            hdrs.ACCEPT_ENCODING: "identity",
            hdrs.USER_AGENT: USER_AGENT,
        }

    def session(self, limit: int, on_opening: Callable[..., Awaitable[None]]) -> aiohttp.ClientSession:
        """A pool, for the caller to close. `on_opening` is called before each connection; it may raise."""
        tracing = aiohttp.TraceConfig()
        tracing.on_connection_create_start.append(on_opening)
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=limit, keepalive_timeout=_IDLE_SECONDS),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=self._timeout_seconds),
            trace_configs=[tracing],
            trust_env=False,
        )

    async def exchange(self, session: aiohttp.ClientSession, body: bytes) -> tuple[int, bytes]:
        """The answer's status and body. Raises NoNodeError, without the URL; NodeError if it is too large."""
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
            ordered = await _ordered_answer(body, self._failure_of)
            if ordered is not None:
                return ordered
        try:
            async with session.post(
                self._url, data=body, headers=self._headers, allow_redirects=False
            ) as response:
                answer = bytearray()
                await read_bounded(response, answer, ANSWER_LIMIT_BYTES + 1)
                if len(answer) > ANSWER_LIMIT_BYTES:
                    response.close()
                    raise NodeError(_LIMIT_EXCEEDED, _TOO_LARGE)
                return response.status, bytes(answer)
        except aiohttp.ClientConnectorError as error:
            raise NoNodeError(f"The node cannot be reached: {failure(error)}.") from error
        except _BROKEN_OFF as error:
            raise BrokenOffError(f"The node cannot be reached: {failure(error)}.") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise NoNodeError(f"The node cannot be reached: {failure(error)}.") from error


async def _ordered_answer(body: bytes, failure_of: FailureOf) -> tuple[int, bytes] | None:
    """The status and the body in place of the node's; None: the node is to be asked. Raises NoNodeError."""
    document = orjson.loads(body)
    calls = document if isinstance(document, list) else [document]
    ordered = failure_of([call["method"] for call in calls])
    if ordered is None:
        return None
    if ordered.delay_ms:
        await asyncio.sleep(ordered.delay_ms / 1_000)
    if ordered.drop:
        raise NoNodeError("The node cannot be reached: a test has ordered it.")
    if ordered.answer is not None:
        error = {"code": _SERVER_ERROR, "message": ordered.answer}
        answers = [{"jsonrpc": "2.0", "id": call["id"], "error": error} for call in calls]
        answer = answers if isinstance(document, list) else answers[0]
        return ordered.status or HTTPStatus.OK, orjson.dumps(answer)
    return None if ordered.status is None else (ordered.status, b"")


# JSON-RPC with the node: calls out, answers in. Results and error data stay as the node wrote them.


def write_calls(calls: Sequence[RpcCall]) -> bytes:
    """One call as an object, several as a batch; their ids are their positions, from 1 on."""
    requests = [_request(number, call) for number, call in enumerate(calls, 1)]
    return requests[0] if len(requests) == 1 else b"[%b]" % b",".join(requests)


def read_answers(body: bytes, count: int) -> list[Answer]:
    """The answers to so many calls, in their order. Raises NoNodeError when the body is no JSON-RPC."""
    try:
        if count == 1:
            return [_single(body.strip())]
        return _several(body.decode().strip(), count)
    except (ValueError, RecursionError) as error:
        raise NoNodeError(
            "What answers at node_url is no Ethereum node: it does not speak JSON-RPC."
        ) from error


def _request(number: int, call: RpcCall) -> bytes:
    params = b"" if call.params is None else b',"params":%b' % _json(call.params)
    return b'{"jsonrpc":"2.0","id":%d,"method":%b%b}' % (number, orjson.dumps(call.method), params)


def _json(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:  # an integer of more than 64 bits
        return json.dumps(value, ensure_ascii=False).encode()


def _single(body: bytes) -> Answer:
    beginning = _USUAL_BEGINNING.match(body)
    if beginning is not None and body.endswith(b"}"):
        result = body[beginning.end() : -1]
        try:
            orjson.loads(result)
            return result  # it is JSON, and so ends where the object ends
        except orjson.JSONDecodeError:
            pass
    return _answer(member_texts(body.decode()))


def _several(text: str, count: int) -> list[Answer]:
    if text.startswith("{"):  # one error for the whole batch
        answer = _answer(member_texts(text))
        if not isinstance(answer, NodeError):
            raise ValueError("one result for a batch")
        return [answer] * count
    answers = {}
    for element in element_texts(text):
        members = member_texts(element)
        answers[members.get("id", "")] = _answer(members)
    left_out = NodeError(_INTERNAL_ERROR, "The node's answer leaves this call of the batch out.")
    return [answers.get(str(number), left_out) for number in range(1, count + 1)]


def _answer(members: dict[str, str]) -> Answer:
    if members.get("error", "null") != "null":
        return _error(members["error"])
    if "result" not in members:
        raise ValueError("neither a result nor an error")
    return members["result"].encode()


def _error(text: str) -> NodeError:
    members = member_texts(text)
    error = orjson.loads(text)
    code, message = error.get("code"), error.get("message")
    return NodeError(
        code if type(code) is int else _INTERNAL_ERROR,
        message if isinstance(message, str) else "The node gave no reason.",
        orjson.Fragment(members["data"].encode()) if "data" in members else None,
        has_data="data" in members,
    )


class _ClosedAtOnceError(BrokenOffError):
    """The connection was closed after its first answer."""


class CheckedConnection:
    """One connection at a time, for one user at a time. `check_chain` gets the node's answer to eth_chainId
    before anything else is asked on a new connection, which it prevents by raising. Then `on_opened` is
    called, but not for each connection to a node that closes every one. `require_wallet` is called before
    each question, which it prevents by raising.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        check_chain: Callable[[Answer], None],
        on_opened: Callable[[], None],
        require_wallet: Callable[[], None] | None,
    ) -> None:
        self._require_wallet = require_wallet
        self._endpoint = endpoint
        self._check_chain = check_chain
        self._on_opened = on_opened
        self._session = endpoint.session(1, self._on_opening)
        self._may_open = False
        self._closes_all = False  # the node, each connection after one answer

    async def close(self) -> None:
        """Close the connection."""
        await self._session.close()

    async def ask(self, calls: Sequence[RpcCall]) -> list[Answer]:
        """The answers, in order. Asks again when a connection breaks: the calls must allow it. Raises
        NoNodeError; what `check_chain` raises, and no node has seen the calls.
        """
        broken_off: BrokenOffError | None = None
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                if isinstance(broken_off, _ClosedAtOnceError):
                    await self._open()
                    await self._leave_connection()  # it may be closed already, and that not seen yet
                    return await self._ask_anew(calls)
                return await self._ask_once(calls)
            except WrongChainError:
                if broken_off is None:
                    raise
                raise broken_off from None  # the node that was asked then may have taken the calls
            except BrokenOffError as error:  # as a rule by a node that took the connection for idle
                if attempt == _ATTEMPTS:
                    raise
                broken_off = error
        raise AssertionError("unreachable")

    async def check_again(self) -> None:
        """Ask for the chain, on the connection that is open if there is one."""
        try:
            await self._check()
        except (NotOpenError, BrokenOffError):
            await self._open()
        else:
            self._closes_all = False

    async def _on_opening(self, *_: object) -> None:
        if not self._may_open:
            raise NotOpenError

    async def _open(self) -> None:
        closes_all, self._closes_all = self._closes_all, False
        self._may_open = True
        try:
            await self._check()
        finally:
            self._may_open = False
        self._closes_all = closes_all
        if not closes_all:
            self._on_opened()

    async def _ask_once(self, calls: Sequence[RpcCall]) -> list[Answer]:
        body = write_calls(calls)
        with suppress(NotOpenError):
            answers = await self._ask(body, len(calls))
            self._closes_all = False
            return answers
        await self._open()
        try:
            return await self._ask(body, len(calls))
        except NotOpenError:
            return await self._ask_anew(calls)
        except BrokenOffError as error:
            raise _ClosedAtOnceError(error.detail) from error

    async def _ask_anew(self, calls: Sequence[RpcCall]) -> list[Answer]:
        """Ask on a new connection, after a former one, which is closed now, has named the chain. Another node
        may answer: the batch asks for the chain again. Where batches are refused, the calls go without.
        """
        self._closes_all, self._may_open = False, True
        try:
            answers = await self._ask_with_chain(calls)
            if answers is None:
                answers = await self._ask(write_calls(calls), len(calls))
        finally:
            self._may_open = False
        self._closes_all = True
        return answers

    async def _ask_with_chain(self, calls: Sequence[RpcCall]) -> list[Answer] | None:
        """None when no batch is answered."""
        try:
            chain, *answers = await self._ask(write_calls([CHAIN_ID, *calls]), 1 + len(calls))
        except NoNodeError as error:
            if isinstance(error.__cause__, aiohttp.ClientError | OSError):
                raise
            return None
        if isinstance(chain, NodeError):
            return None
        try:
            self._check_chain(chain)
        except WrongChainError as error:
            raise BrokenOffError(f"It may have been taken on another chain: {error.detail}") from error
        return answers

    async def _check(self) -> None:
        """Ask for the chain. A connection with another chain, or without an answer, is not used again."""
        try:
            (answer,) = await self._ask(write_calls([CHAIN_ID]), 1)
            self._check_chain(answer)
        except (NotOpenError, BrokenOffError):
            raise  # there is no connection
        except BaseException:
            await self._leave_connection()
            raise

    async def _leave_connection(self) -> None:
        before, self._session = self._session, self._endpoint.session(1, self._on_opening)
        await before.close()

    async def _ask(self, body: bytes, count: int) -> list[Answer]:
        if self._require_wallet is not None:
            self._require_wallet()
        try:
            status, answer = await self._endpoint.exchange(self._session, body)
        except NodeError as error:
            raise NoNodeError(error.detail) from error
        if status != HTTPStatus.OK:
            raise NoNodeError(f"The node answers with HTTP status {status}.")
        return read_answers(answer, count)


Attempt = NewType("Attempt", float)
"""A send, or another piece of work with several calls: when it began, in seconds of the event loop."""


def new_attempt() -> Attempt:
    """An attempt that begins now, of which several calls may be part."""
    return Attempt(asyncio.get_running_loop().time())


class ConnectionPool:
    """Lends checked connections, each to one user at a time, and knows the node's last failure."""

    def __init__(self, connect: Callable[[], CheckedConnection]) -> None:
        self._connect = connect
        self._connections: list[CheckedConnection] = []
        self._idle: list[CheckedConnection] = []
        self._places = asyncio.Semaphore(_CONNECTIONS)
        self._failed_at: float | None = None
        self._failure = ""

    async def close(self) -> None:
        """Close the connections."""
        for connection in self._connections:
            await connection.close()
        self._connections.clear()
        self._idle.clear()

    async def run(self, work: Callable[[CheckedConnection], Awaitable[Asked]], attempt: Attempt) -> Asked:
        """Do the work with a connection. Raises NoNodeError at once if the node has failed since the attempt
        began, and has not answered since.
        """
        async with self._lent(attempt) as connection:
            try:
                result = await work(connection)
            except NoNodeError as error:
                self._failed_at, self._failure = new_attempt(), error.detail
                raise
            self._failed_at = None
            return result

    @asynccontextmanager
    async def _lent(self, attempt: Attempt) -> AsyncIterator[CheckedConnection]:
        async with self._places:
            if self._failed_at is not None and self._failed_at >= attempt:
                raise NoNodeError(self._failure)
            if not self._idle:
                connection = self._connect()
                self._connections.append(connection)
                self._idle.append(connection)
            connection = self._idle.pop()
            try:
                yield connection
            finally:
                self._idle.append(connection)
