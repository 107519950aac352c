"""A node on a real port that answers JSON-RPC as a test says, and keeps the requests."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import orjson
from aiohttp import web

from bridge_server.ethereum.keccak import keccak256


@dataclass(frozen=True, slots=True)
class NodeRequest:
    """An HTTP request: its calls, its connection and its headers."""

    connection: object
    calls: list[dict[str, Any]]
    headers: dict[str, str]
    path: str
    is_batch: bool

    @property
    def methods(self) -> list[str]:
        """The calls' methods."""
        return [call["method"] for call in self.calls]


_PATIENCE_SECONDS = 60.0

Answer: TypeAlias = Callable[["FakeNode", web.BaseRequest], Awaitable[web.StreamResponse]]


@dataclass(slots=True)
class RpcFailure:
    """An error that a method answers with."""

    code: int
    message: str
    data: Any = None


@dataclass(slots=True)
class FakeNode:
    """Answers each method from `results`: a value, an RpcFailure, or a function of the params. By default it
    takes every transaction, and knows it by its hash; with the methods of a `Chain` it also mines.

    The answers in `script` come first, each once, for any request but eth_chainId; the answers in `scripts`
    for requests with a certain method; a `disturbance` answers every request while it is set. With
    `closes_connections` each connection gets one answer.
    """

    port: int = 0
    requests: list[NodeRequest] = field(default_factory=list)
    results: dict[str, Any] = field(default_factory=dict)
    script: deque[Answer] = field(default_factory=deque)
    scripts: dict[str, deque[Answer]] = field(default_factory=dict)
    released: asyncio.Event = field(default_factory=asyncio.Event)
    closes_connections: bool = False
    disturbance: Answer | None = None
    taken: set[str] = field(default_factory=set)
    _arrived: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.results = self.results or {
            "eth_chainId": "0x7a69",
            "eth_getTransactionCount": "0x0",
            "eth_gasPrice": "0x3b9aca00",
            "eth_maxPriorityFeePerGas": "0x3b9aca00",
            "eth_getBlockByNumber": {"baseFeePerGas": "0x64"},
            "eth_sendRawTransaction": self._take,
            "eth_getTransactionByHash": lambda sent: {"hash": sent} if sent in self.taken else None,
        }

    @property
    def url(self) -> str:
        """The URL of the node."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def methods(self) -> list[str]:
        """The methods of all calls, as they came."""
        return [method for request in self.requests for method in request.methods]

    def sent(self) -> list[str]:
        """The transactions that were sent, as they came."""
        calls = [call for request in self.requests for call in request.calls]
        return [call["params"][0] for call in calls if call["method"] == "eth_sendRawTransaction"]

    def at(self, method: str, *answers: Answer) -> None:
        """Answer the next requests that name the method so."""
        self.scripts.setdefault(method, deque()).extend(answers)

    async def asked(self, method: str, times: int = 1) -> None:
        """Return once the method has been asked for so often. Raises TimeoutError."""
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while self.methods.count(method) < times:
                self._arrived.clear()
                await self._arrived.wait()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Keep the request and answer it."""
        kept = await _read(request)
        self.requests.append(kept)
        self._arrived.set()
        if self.disturbance is not None:
            return await self.disturbance(self, request)
        if self.script and kept.methods != ["eth_chainId"]:
            return await self.script.popleft()(self, request)
        for method in kept.methods:
            if self.scripts.get(method):
                return await self.scripts[method].popleft()(self, request)
        return self.answer_calls(kept)

    def answer_calls(self, kept: NodeRequest) -> web.StreamResponse:
        """Answer the request from `results`."""
        answers = [self._answer(call) for call in kept.calls]
        response = web.json_response(answers if kept.is_batch else answers[0])
        if self.closes_connections:
            response.force_close()
        return response

    def _take(self, raw: str) -> str:
        transaction_hash = "0x" + keccak256(bytes.fromhex(raw[2:])).hex()
        self.taken.add(transaction_hash)
        return transaction_hash

    def _answer(self, call: dict[str, Any]) -> dict[str, Any]:
        missing = RpcFailure(-32601, f"the method {call['method']} does not exist")
        result = self.results.get(call["method"], missing)
        if callable(result):
            result = result(*call.get("params", []))
        answer = {"jsonrpc": "2.0", "id": call["id"]}
        if isinstance(result, RpcFailure):
            error = {"code": result.code, "message": result.message}
            return answer | {"error": error if result.data is None else error | {"data": result.data}}
        return answer | {"result": result}


async def _read(request: web.BaseRequest) -> NodeRequest:
    document = orjson.loads(await request.read())
    is_batch = isinstance(document, list)
    calls = document if is_batch else [document]
    return NodeRequest(request.transport, calls, dict(request.headers), request.path_qs, is_batch)


def says(code: int, message: str, data: Any = None) -> Answer:
    """Answer a call, or each of a batch, with an error."""

    async def answer(node: FakeNode, _: web.BaseRequest) -> web.Response:
        error = {"code": code, "message": message} | ({} if data is None else {"data": data})
        last = node.requests[-1]
        answers = [{"jsonrpc": "2.0", "id": call["id"], "error": error} for call in last.calls]
        return web.json_response(answers if last.is_batch else answers[0])

    return answer


def body(text: bytes | str, status: int = 200) -> Answer:
    """Answer with these bytes, whatever was asked."""

    async def answer(_: FakeNode, __: web.BaseRequest) -> web.Response:
        content = text.encode() if isinstance(text, str) else text
        return web.Response(body=content, status=status, content_type="application/json")

    return answer


async def hang(node: FakeNode, _: web.BaseRequest) -> web.Response:
    """Say nothing until the node is released or closed."""
    await node.released.wait()
    return web.Response()


async def drop(_: FakeNode, request: web.BaseRequest) -> web.Response:
    """Break the connection off without an answer."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


@asynccontextmanager
async def open_fake_node(port: int = 0, results: dict[str, Any] | None = None) -> AsyncIterator[FakeNode]:
    """A node that listens on loopback until the block is left. `results` replace the default ones."""
    node = FakeNode(results=results or {})
    runner = web.ServerRunner(web.Server(node.handle, access_log=None), shutdown_timeout=1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    node.port = runner.addresses[0][1]
    try:
        yield node
    finally:
        node.released.set()
        await runner.cleanup()
