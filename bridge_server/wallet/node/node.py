"""The Ethereum node behind the wallet: its chain, calls of clients, and calls of the wallet itself."""

from collections.abc import Awaitable, Callable, Coroutine, Sequence
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
from bridge_server.wallet.node.chain_news import has_set_back, mined_hash, sets_back
from bridge_server.wallet.node.connections import CHAIN_ID, CheckedConnection
from bridge_server.wallet.node.endpoint import BrokenOffError, Endpoint, Witness
from bridge_server.wallet.node.ordered_failures import FailureOf
from bridge_server.wallet.node.pool import Attempt, ConnectionPool, new_attempt
from bridge_server.wallet.node.reading_methods import READING_METHODS

Result = TypeVar("Result")

_READERS = 64


class Node:
    """A node at an http or https URL, or none; used as an async context manager.

    `chain_id` is the chain that the wallet is on; None takes the node's when it is first reached, and keeps
    it. The URL may hold credentials and appears in no answer and no log. `failure_of` orders test failures.
    `require_wallet` is called before anything is asked on the wallet's behalf, which it prevents by raising.
    """

    def __init__(
        self,
        url: str | None,
        timeout_seconds: float,
        user_agent: str,
        stopping: Stopping,
        chain_id: int | None = None,
        failure_of: FailureOf | None = None,
        witness: Witness | None = None,
        require_wallet: Callable[[], None] | None = None,
    ) -> None:
        self._endpoint = (
            None if url is None else Endpoint(url, timeout_seconds, user_agent, failure_of, witness)
        )
        self._stopping = stopping
        self._require_wallet = require_wallet
        self._chain_id = chain_id
        self._readers: aiohttp.ClientSession | None = None
        self._pool = ConnectionPool(self._connected)
        self._on_connected: list[Callable[[], None]] = []
        self._on_set_back: list[Callable[[], Awaitable[None]]] = []
        self._on_mined: list[Callable[[str], None]] = []

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
        await self._pool.close()
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

    async def chain_id(self, attempt: Attempt | None = None) -> int:
        """The wallet's chain; `attempt` as for `ask`.

        Raises NoChainError, NoNodeError when only the node could answer.
        """
        if self._chain_id is None:
            if self._endpoint is None:
                raise NoChainError
            await self.ask([CHAIN_ID], attempt)
            assert self._chain_id is not None  # the connection was not opened without it
        return self._chain_id

    async def forward(self, calls: Sequence[RpcCall]) -> list[orjson.Fragment | NodeError]:
        """Ask for a client: one call alone, several as a batch; the answers as the node gave them.

        Raises NoNodeError; WrongChainError, and nothing is asked.
        """
        try:
            answers = await self._unless_stopped(self._forward(calls))
        except NoNodeError as error:
            if not _never_arrived(error) and any(map(sets_back, calls)):
                await self._announce_set_back()  # it may have been done all the same
            raise
        if any(map(has_set_back, calls, answers)):
            await self._announce_set_back()
        self._announce_mined(calls, answers)
        return [each if isinstance(each, NodeError) else orjson.Fragment(each) for each in answers]

    async def ask(self, calls: Sequence[RpcCall], attempt: Attempt | None = None) -> list[Any]:
        """Ask on the wallet's behalf, in one batch, a node that is on the wallet's chain.

        The answers are JSON values or NodeError. The calls must be such that they may be asked twice.
        Raises NoNodeError, at once when the node has failed since the `attempt` began and not answered again;
        WrongChainError.
        """
        answers = await self._unless_stopped(
            self._on_connection(lambda connection: connection.ask(calls), attempt)
        )
        return [each if isinstance(each, NodeError) else orjson.loads(each) for each in answers]

    def attempt(self) -> Attempt:
        """Begin an attempt now, of which several calls may be part."""
        return new_attempt()

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
        await self._on_connection(CheckedConnection.check_again)

    async def _on_connection(
        self, work: Callable[[CheckedConnection], Awaitable[Result]], attempt: Attempt | None = None
    ) -> Result:
        attempt = attempt or new_attempt()
        if self._readers is None or self._endpoint is None:
            raise _no_node()
        return await self._pool.run(work, attempt)

    def _connected(self) -> CheckedConnection:
        assert self._endpoint is not None
        return CheckedConnection(
            self._endpoint, self._check_chain, self._announce_connected, self._require_wallet
        )

    async def _unless_stopped(self, work: Coroutine[Any, Any, Result]) -> Result:
        try:
            return await self._stopping.finish(work)
        except StoppedError as error:
            raise NoNodeError("This server stops.") from error

    def _check_chain(self, answer: Answer) -> None:
        try:
            chain_id = request_fields.chain_id(
                None if isinstance(answer, NodeError) else orjson.loads(answer)
            )
        except HexError as error:
            raise NoNodeError("The server at node_url does not report its chain (eth_chainId).") from error
        if self._chain_id is None:
            self._chain_id = chain_id
        elif chain_id != self._chain_id:
            raise WrongChainError(
                f"The node is on chain {chain_id} and the wallet on chain {self._chain_id}: set chain_id or "
                "node_url, and start again."
            )

    def _announce_connected(self) -> None:
        for listener in self._on_connected:
            listener()

    async def _announce_set_back(self) -> None:
        for listener in self._on_set_back:
            await listener()

    def _announce_mined(self, calls: Sequence[RpcCall], answers: Sequence[Answer]) -> None:
        for call, answer in zip(calls, answers, strict=True):
            if (transaction_hash := mined_hash(call, answer)) is not None:
                for listener in self._on_mined:
                    listener(transaction_hash)


def _never_arrived(error: NoNodeError) -> bool:
    """Whether there was no connection on which the node could have been asked."""
    return error.__cause__ is None or isinstance(error.__cause__, aiohttp.ClientConnectorError)


def _no_node() -> NoNodeError:
    return NoNodeError("There is no node: set node_url to the address of an Ethereum node.")
