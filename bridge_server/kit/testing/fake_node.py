"""A node on a real port that answers JSON-RPC as a test says, and keeps the requests; and a chain for it."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import orjson
from aiohttp import web

from bridge_server.ethereum import rlp
from bridge_server.ethereum.address import hex_of
from bridge_server.ethereum.keccak import keccak256
from bridge_server.ethereum.transactions import RawTransaction, RawTransactionError, read_raw_transaction

ETHER = 10**18
DEVELOPMENT_CHAIN_ID = 31_337

_PATIENCE_SECONDS = 60.0
_BASE_FEE = 10**9
_TIP = 10**9
_GAS_USED = 21_000
_BLOCK_GAS = 30_000_000
_FIRST_TIMESTAMP = 1_700_000_000
_SECONDS_BETWEEN_BLOCKS = 12
_NO_HASH = "0x" + "00" * 32
_REFUSED = -32_000

Answer: TypeAlias = Callable[["FakeNode", web.BaseRequest], Awaitable[web.StreamResponse]]


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
        document = orjson.loads(await request.read())
        is_batch = isinstance(document, list)
        calls = document if is_batch else [document]
        kept = NodeRequest(request.transport, calls, dict(request.headers), request.path_qs, is_batch)
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
        transaction_hash = _hash_of(bytes.fromhex(raw[2:]))
        self.taken.add(transaction_hash)
        return transaction_hash

    def _answer(self, call: dict[str, Any]) -> dict[str, Any]:
        missing = RpcFailure(-32601, f"the method {call['method']} does not exist")
        result = self.results.get(call["method"], missing)
        if callable(result):
            result = result(*call.get("params", []))
        answer = {"jsonrpc": "2.0", "id": call["id"]}
        if isinstance(result, RpcFailure):
            return answer | {"error": _error(result.code, result.message, result.data)}
        return answer | {"result": result}


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


def _error(code: int, message: str, data: Any) -> dict[str, Any]:
    return {"code": code, "message": message} | ({} if data is None else {"data": data})


def says(code: int, message: str, data: Any = None) -> Answer:
    """Answer a call, or each of a batch, with an error."""

    async def answer(node: FakeNode, _: web.BaseRequest) -> web.Response:
        error = _error(code, message, data)
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


# A chain in memory for the fake node: accounts with money, transactions, blocks and receipts.


@dataclass(frozen=True, slots=True)
class Block:
    """A block with its transactions, in their order."""

    number: int
    hash: str
    transactions: tuple[RawTransaction, ...]


class Chain:
    """Every account begins with `balance` wei. A transaction is mined at once, unless `mines` is off.

    No code runs: a call of a contract costs what a transfer costs, and returns nothing.
    """

    def __init__(self, chain_id: int = DEVELOPMENT_CHAIN_ID, balance: int = 10_000 * ETHER) -> None:
        self.chain_id = chain_id
        self.mines = True
        self.blocks = [Block(0, _hash_of(b"block 0"), ())]
        self.pending: list[RawTransaction] = []
        self._first_balance = balance
        self._balances: dict[str, int] = {}
        self._mined: dict[str, tuple[Block, int]] = {}

    @property
    def transactions(self) -> list[RawTransaction]:
        """The transactions in blocks, oldest first."""
        return [transaction for block in self.blocks for transaction in block.transactions]

    def balance(self, address: str) -> int:
        """The account's money, in wei."""
        return self._balances.get(address.lower(), self._first_balance)

    def set_balance(self, address: str, wei: int) -> None:
        """Give the account so much money."""
        self._balances[address.lower()] = wei

    def mine(self, blocks: int = 1) -> None:
        """Put the pending transactions into a block, and add empty blocks up to so many."""
        for _ in range(blocks):
            number, chosen = len(self.blocks), self._next_transactions()
            block = Block(number, _hash_of(b"block %d" % number), chosen)
            self.blocks.append(block)
            for place, transaction in enumerate(chosen):
                self._mined[hex_of(transaction.hash)] = block, place
                cost = transaction.value + _GAS_USED * _price(transaction)
                self.set_balance(transaction.sender, self.balance(transaction.sender) - cost)
                if transaction.to is not None:
                    self.set_balance(transaction.to, self.balance(transaction.to) + transaction.value)

    def methods(self) -> dict[str, Any]:
        """The methods of JSON-RPC that the chain answers: values, and functions of the params."""
        return {
            "eth_chainId": hex(self.chain_id),
            "net_version": str(self.chain_id),
            "web3_clientVersion": "bridge-server/fake-node",
            "eth_blockNumber": lambda: hex(self.blocks[-1].number),
            "eth_gasPrice": hex(_BASE_FEE + _TIP),
            "eth_maxPriorityFeePerGas": hex(_TIP),
            "eth_estimateGas": lambda *_: hex(_GAS_USED),
            "eth_call": lambda *_: "0x",
            "eth_getCode": lambda *_: "0x",
            "eth_getBalance": lambda address, *_: hex(self.balance(address)),
            "eth_getTransactionCount": self._count,
            "eth_getBlockByNumber": self._block_by_number,
            "eth_getBlockByHash": self._block_by_hash,
            "eth_sendRawTransaction": self._send,
            "eth_getTransactionByHash": self._transaction,
            "eth_getTransactionReceipt": self._receipt,
        }

    def _send(self, raw: str) -> str | RpcFailure:
        try:
            transaction = read_raw_transaction(bytes.fromhex(raw.removeprefix("0x")))
        except (RawTransactionError, ValueError) as error:
            return RpcFailure(_REFUSED, f"the transaction cannot be read: {error}")
        refusal = self._refusal(transaction)
        if refusal is not None:
            return RpcFailure(_REFUSED, refusal)
        slot = (transaction.sender, transaction.nonce)  # a second transaction there replaces the first
        self.pending = [each for each in self.pending if (each.sender, each.nonce) != slot]
        self.pending.append(transaction)
        if self.mines:
            self.mine()
        return hex_of(transaction.hash)

    def _refusal(self, transaction: RawTransaction) -> str | None:
        """The text with which nodes refuse the transaction, or None."""
        if transaction.chain_id not in (None, self.chain_id):
            return f"invalid sender: wrong chain id {transaction.chain_id}, expected {self.chain_id}"
        if hex_of(transaction.hash) in self._mined or transaction in self.pending:
            return "already known"
        if transaction.nonce < self._mined_count(transaction.sender):
            return "nonce too low"
        greatest_cost = transaction.value + transaction.gas * transaction.max_fee_per_gas
        if greatest_cost > self.balance(transaction.sender):
            return "insufficient funds for gas * price + value"
        return None

    def _next_transactions(self) -> tuple[RawTransaction, ...]:
        """Take the pending transactions whose nonces follow on what is mined."""
        chosen: list[RawTransaction] = []
        counts: dict[str, int] = {}
        for transaction in sorted(self.pending, key=lambda each: each.nonce):
            expected = counts.get(transaction.sender, self._mined_count(transaction.sender))
            if transaction.nonce == expected:
                counts[transaction.sender] = expected + 1
                chosen.append(transaction)
        self.pending = [transaction for transaction in self.pending if transaction not in chosen]
        return tuple(chosen)

    def _mined_count(self, address: str) -> int:
        return sum(transaction.sender == address.lower() for transaction in self.transactions)

    def _count(self, address: str, tag: str = "latest") -> str:
        waiting = sum(each.sender == address.lower() for each in self.pending)
        return hex(self._mined_count(address) + (waiting if tag == "pending" else 0))

    def _block_by_number(self, tag: str, full: bool = False) -> dict[str, Any] | None:
        names = {"earliest": 0, "latest": -1, "pending": -1, "safe": -1, "finalized": -1}
        number = names[tag] if tag in names else int(tag, 16)
        return _block_object(self.blocks[number], full) if number < len(self.blocks) else None

    def _block_by_hash(self, wanted: str, full: bool = False) -> dict[str, Any] | None:
        found = [block for block in self.blocks if block.hash == wanted]
        return _block_object(found[0], full) if found else None

    def _transaction(self, wanted: str) -> dict[str, Any] | None:
        if wanted in self._mined:
            block, place = self._mined[wanted]
            return _transaction_object(block.transactions[place], block, place)
        waiting = [each for each in self.pending if hex_of(each.hash) == wanted]
        return _transaction_object(waiting[0]) if waiting else None

    def _receipt(self, wanted: str) -> dict[str, Any] | None:
        return _receipt_object(*self._mined[wanted]) if wanted in self._mined else None


def _price(transaction: RawTransaction) -> int:
    tip = transaction.max_priority_fee_per_gas
    return transaction.max_fee_per_gas if tip is None else min(transaction.max_fee_per_gas, _BASE_FEE + tip)


def _contract_address(transaction: RawTransaction) -> str | None:
    if transaction.to is not None:
        return None
    creator = bytes.fromhex(transaction.sender[2:])
    return hex_of(keccak256(rlp.encode([creator, rlp.number(transaction.nonce)]))[-20:])


# Blocks, transactions and receipts as a node spells them in JSON.


def _block_object(block: Block, full: bool) -> dict[str, Any]:
    """The block with its transactions, or with their hashes unless `full`."""
    transactions: list[Any] = [
        _transaction_object(each, block, place) if full else hex_of(each.hash)
        for place, each in enumerate(block.transactions)
    ]
    return {
        "number": hex(block.number),
        "hash": block.hash,
        "parentHash": _hash_of(b"block %d" % (block.number - 1)) if block.number else _NO_HASH,
        "timestamp": hex(_FIRST_TIMESTAMP + block.number * _SECONDS_BETWEEN_BLOCKS),
        "baseFeePerGas": hex(_BASE_FEE),
        "gasLimit": hex(_BLOCK_GAS),
        "gasUsed": hex(_GAS_USED * len(transactions)),
        "miner": "0x" + "00" * 20,
        "extraData": "0x",
        "transactions": transactions,
    }


def _transaction_object(
    transaction: RawTransaction, block: Block | None = None, place: int | None = None
) -> dict[str, Any]:
    """The transaction at this place of a block; one without a block is pending."""
    tip = transaction.max_priority_fee_per_gas
    fees = {"maxFeePerGas": hex(transaction.max_fee_per_gas), "maxPriorityFeePerGas": hex(tip or 0)}
    return {
        "hash": hex_of(transaction.hash),
        "type": hex(transaction.type),
        "from": transaction.sender,
        "to": transaction.to,
        "nonce": hex(transaction.nonce),
        "value": hex(transaction.value),
        "gas": hex(transaction.gas),
        "gasPrice": hex(_price(transaction)),
        **({} if tip is None else fees),
        "input": hex_of(transaction.data),
        "chainId": None if transaction.chain_id is None else hex(transaction.chain_id),
        "blockHash": None if block is None else block.hash,
        "blockNumber": None if block is None else hex(block.number),
        "transactionIndex": None if place is None else hex(place),
    }


def _receipt_object(block: Block, place: int) -> dict[str, Any]:
    transaction = block.transactions[place]
    return {
        "transactionHash": hex_of(transaction.hash),
        "transactionIndex": hex(place),
        "blockHash": block.hash,
        "blockNumber": hex(block.number),
        "from": transaction.sender,
        "to": transaction.to,
        "contractAddress": _contract_address(transaction),
        "type": hex(transaction.type),
        "status": "0x1",
        "gasUsed": hex(_GAS_USED),
        "cumulativeGasUsed": hex(_GAS_USED * (place + 1)),
        "effectiveGasPrice": hex(_price(transaction)),
        "logs": [],
        "logsBloom": "0x" + "00" * 256,
    }


def _hash_of(content: bytes) -> str:
    return hex_of(keccak256(content))
