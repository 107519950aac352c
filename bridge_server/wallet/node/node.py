"""The Ethereum node behind the wallet: its chain, calls of clients, and calls of the wallet itself."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus
from types import TracebackType
from typing import Any, Self, TypeVar

import aiohttp
import orjson

from bridge_server.ethereum.hex_data import HexError
from bridge_server.kernel.stopping import StoppedError, Stopping
from bridge_server.wallet import request_fields
from bridge_server.wallet.errors import NoChainError, NodeError, NoNodeError, WrongChainError
from bridge_server.wallet.models import RpcCall
from bridge_server.wallet.node.answers import Answer, read_answers, write_calls
from bridge_server.wallet.node.line import CHAIN_ID, BrokenOffError, CheckedConnection, Endpoint
from bridge_server.wallet.node.reading_methods import READING_METHODS

Result = TypeVar("Result")
Asked = TypeVar("Asked")

_READERS = 64
_LINES = 16

# Methods of development nodes that give them another history, or take back transactions.
_SETS_BACK = re.compile(
    r"(?:anvil|hardhat)_(?:reset|revert|loadState|setNonce|drop(?:All)?Transactions?|removePoolTransactions)"
    r"|(?:anvil|hardhat)_(?:rollback|reorg)|evm_revert|evm_setAccountNonce|debug_setHead"
)

# Methods whose answers name the block of a transaction.
_TELLS_BLOCK = frozenset({"eth_getTransactionReceipt", "eth_getTransactionByHash"})
_BLOCK_NUMBER = re.compile(rb'"blockNumber"\s*:\s*"')


class Node:
    """A node at an http or https URL, or none; used as an async context manager.

    `chain_id` is the chain that the wallet is on; None takes the node's when it is first reached, and keeps
    it. The URL may hold credentials and appears in no answer and no log.
    """

    def __init__(
        self,
        url: str | None,
        timeout_seconds: float,
        user_agent: str,
        stopping: Stopping,
        chain_id: int | None = None,
    ) -> None:
        self._endpoint = Endpoint(url, timeout_seconds, user_agent) if url is not None else None
        self._stopping = stopping
        self._chain_id = chain_id
        self._readers: aiohttp.ClientSession | None = None
        self._lines: list[CheckedConnection] = []
        self._idle: list[CheckedConnection] = []
        self._places = asyncio.Semaphore(_LINES)
        self._on_connected: list[Callable[[], None]] = []
        self._on_set_back: list[Callable[[], Awaitable[None]]] = []
        self._on_mined: list[Callable[[str], None]] = []
        self._failed_at: float | None = None
        self._failure = ""

    async def __aenter__(self) -> Self:
        if self._endpoint is not None:
            self._readers = self._endpoint.session(_READERS, self._check_again)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for line in self._lines:
            await line.close()
        self._lines.clear()
        self._idle.clear()
        if self._readers is not None:
            await self._readers.close()
            self._readers = None

    @property
    def exists(self) -> bool:
        """Whether there is a node at all."""
        return self._endpoint is not None

    @property
    def known_chain_id(self) -> int | None:
        """The wallet's chain, as far as it is known without asking."""
        return self._chain_id

    def on_connected(self, listener: Callable[[], None]) -> None:
        """Call `listener` whenever a new connection leads to a node on the wallet's chain."""
        self._on_connected.append(listener)

    def on_set_back(self, listener: Callable[[], Awaitable[None]]) -> None:
        """Call `listener` when a client has set the node back, or may have, before the client is answered."""
        self._on_set_back.append(listener)

    def on_mined(self, listener: Callable[[str], None]) -> None:
        """Call `listener` with the hash when an answer to a client names the block of a transaction."""
        self._on_mined.append(listener)

    async def chain_id(self, since: float | None = None) -> int:
        """The wallet's chain; `since` is that of `ask`. Raises NoChainError, NoNodeError when only the node
        could tell.
        """
        if self._chain_id is None:
            if self._endpoint is None:
                raise NoChainError
            await self.ask([CHAIN_ID], since)
            assert self._chain_id is not None  # the connection was not opened without it
        return self._chain_id

    async def forward(self, calls: Sequence[RpcCall]) -> list[orjson.Fragment | NodeError]:
        """Ask for a client: one call alone, several as a batch; the answers as the node gave them.

        Raises NoNodeError; WrongChainError, and nothing is asked.
        """
        try:
            answers = await self._unless_stopped(self._forward(calls))
        except NoNodeError as error:
            if not _never_arrived(error) and any(_SETS_BACK.fullmatch(call.method) for call in calls):
                await self._tell_set_back()  # it may have been done all the same
            raise
        if any(map(_has_set_back, calls, answers)):
            await self._tell_set_back()
        self._tell_mined(calls, answers)
        return [each if isinstance(each, NodeError) else orjson.Fragment(each) for each in answers]

    async def ask(self, calls: Sequence[RpcCall], since: float | None = None) -> list[Any]:
        """Ask on the wallet's behalf, in one batch, a node that is on the wallet's chain.

        The answers are JSON values or NodeError. The calls must be such that they may be asked twice.
        Raises NoNodeError, at once when the node has failed after the moment `since` (see `now`) and not
        answered again; WrongChainError.
        """
        answers = await self._unless_stopped(self._on_line(lambda line: line.ask(calls), since))
        return [each if isinstance(each, NodeError) else orjson.loads(each) for each in answers]

    def now(self) -> float:
        """A moment for `ask`, in seconds of the event loop's clock."""
        return asyncio.get_running_loop().time()

    async def _forward(self, calls: Sequence[RpcCall]) -> list[Answer]:
        status, body = await self._exchange(calls)
        try:
            return read_answers(body, len(calls))
        except NoNodeError as error:
            if status == HTTPStatus.OK:
                raise
            raise NoNodeError(f"The node answers with HTTP status {status}.") from error

    async def _exchange(self, calls: Sequence[RpcCall]) -> tuple[int, bytes]:
        if self._readers is None or self._endpoint is None:
            raise _no_node()
        body = write_calls(calls)
        try:
            return await self._endpoint.exchange(self._readers, body)
        except BrokenOffError:  # as a rule by a node that took the connection for idle
            if not all(call.method in READING_METHODS for call in calls):
                raise
        return await self._endpoint.exchange(self._readers, body)

    async def _check_again(self) -> None:
        """Check the chain again: behind the address there may be another node by now."""
        await self._on_line(CheckedConnection.check_again)

    async def _on_line(
        self, work: Callable[[CheckedConnection], Awaitable[Asked]], since: float | None = None
    ) -> Asked:
        async with self._line(since) as line:
            try:
                result = await work(line)
            except NoNodeError as error:
                self._failed_at, self._failure = self.now(), error.detail
                raise
            self._failed_at = None
            return result

    async def _unless_stopped(self, work: Coroutine[Any, Any, Result]) -> Result:
        try:
            return await self._stopping.finish(work)
        except StoppedError as error:
            raise NoNodeError("This server stops.") from error

    @asynccontextmanager
    async def _line(self, since: float | None) -> AsyncIterator[CheckedConnection]:
        since = self.now() if since is None else since
        if self._readers is None or self._endpoint is None:
            raise _no_node()
        async with self._places:
            if self._failed_at is not None and self._failed_at >= since:
                raise NoNodeError(self._failure)
            if not self._idle:
                self._lines.append(CheckedConnection(self._endpoint, self._check_chain, self._tell_connected))
                self._idle.append(self._lines[-1])
            line = self._idle.pop()
            try:
                yield line
            finally:
                self._idle.append(line)

    def _check_chain(self, answer: Answer) -> None:
        try:
            chain_id = request_fields.chain_id(
                None if isinstance(answer, NodeError) else orjson.loads(answer)
            )
        except HexError as error:
            raise NoNodeError("What answers at node_url does not tell its chain (eth_chainId).") from error
        if self._chain_id is None:
            self._chain_id = chain_id
        elif chain_id != self._chain_id:
            raise WrongChainError(
                f"The node is on chain {chain_id} and the wallet on chain {self._chain_id}: set chain_id or "
                "node_url, and start again."
            )

    def _tell_connected(self) -> None:
        for listener in self._on_connected:
            listener()

    async def _tell_set_back(self) -> None:
        for listener in self._on_set_back:
            await listener()

    def _tell_mined(self, calls: Sequence[RpcCall], answers: Sequence[Answer]) -> None:
        for call, answer in zip(calls, answers, strict=True):
            if call.method in _TELLS_BLOCK and (transaction_hash := _mined(call, answer)) is not None:
                for listener in self._on_mined:
                    listener(transaction_hash)


def _has_set_back(call: RpcCall, answer: Answer) -> bool:
    """Whether the call has set the chain back; evm_revert answers false without such a snapshot."""
    is_done = not isinstance(answer, NodeError) and answer != b"false"
    return is_done and _SETS_BACK.fullmatch(call.method) is not None


def _never_arrived(error: NoNodeError) -> bool:
    """Whether there was no connection on which the node could have been asked."""
    return error.__cause__ is None or isinstance(error.__cause__, aiohttp.ClientConnectorError)


def _mined(call: RpcCall, answer: Answer) -> str | None:
    """The hash of the call, if the answer names its block."""
    if isinstance(answer, NodeError) or not isinstance(call.params, list) or len(call.params) != 1:
        return None
    (transaction_hash,) = call.params
    is_mined = _BLOCK_NUMBER.search(answer) is not None
    return transaction_hash.lower() if is_mined and isinstance(transaction_hash, str) else None


def _no_node() -> NoNodeError:
    return NoNodeError("There is no node: set node_url to the address of an Ethereum node.")
