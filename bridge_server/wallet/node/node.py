"""The Ethereum node behind the wallet: its chain, calls to it, and the methods that it may be asked for."""

import re
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from http import HTTPStatus
from typing import Any, Self, TypeVar

import aiohttp
import orjson

from bridge_server.ethereum.address import HexError
from bridge_server.kernel.background import StoppedError, Stopping
from bridge_server.wallet import parameters
from bridge_server.wallet.models import NoChainError, NodeError, NoNodeError, RpcCall, WrongChainError
from bridge_server.wallet.node import connections

Result = TypeVar("Result")

_READERS = 64


class Node:
    """A node at an http or https URL, or none; used as an async context manager. Without a `chain_id` the
    wallet takes the node's when it is first reached, and keeps it. The URL may hold credentials and appears
    in no answer and no log. `require_wallet` is called before anything is asked on the wallet's behalf, which
    it prevents by raising.
    """

    def __init__(
        self,
        url: str | None,
        timeout_seconds: float,
        stopping: Stopping,
        chain_id: int | None = None,
        watch: connections.NodeWatch = connections.UNWATCHED,
        require_wallet: Callable[[], None] | None = None,
    ) -> None:
        self._endpoint = None if url is None else connections.Endpoint(url, timeout_seconds, watch)
        self._stopping = stopping
        self._require_wallet = require_wallet
        self._chain_id = chain_id
        self._readers: aiohttp.ClientSession | None = None
        self._pool = connections.ConnectionPool(self._connected)
        self._on_connected: list[Callable[[], None]] = []
        self._on_set_back: list[Callable[[], Awaitable[None]]] = []
        self._on_mined: list[Callable[[str], None]] = []

    async def __aenter__(self) -> Self:
        if self._endpoint is not None:
            # Behind the address of a new connection there may be another node by now.
            check = connections.CheckedConnection.check_again
            self._readers = self._endpoint.session(_READERS, lambda *_: self._on_connection(check))
        return self

    async def __aexit__(self, *_: object) -> None:
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

    async def chain_id(self, attempt: connections.Attempt | None = None) -> int:
        """The wallet's chain, which the node may have to answer. Raises NoChainError, NoNodeError."""
        if self._chain_id is None:
            if self._endpoint is None:
                raise NoChainError
            await self.ask([connections.CHAIN_ID], attempt)
            assert self._chain_id is not None  # the connection was not opened without it
        return self._chain_id

    async def forward(self, calls: Sequence[RpcCall]) -> list[orjson.Fragment | NodeError]:
        """Ask for a client: one call alone, several as a batch; the answers as the node gave them. Raises
        NoNodeError; WrongChainError, and nothing is asked.
        """
        try:
            answers = await self._unless_stopped(self._forward(calls))
        except NoNodeError as error:
            # Without a connection the node cannot have been asked; with one it may have done it all the same.
            is_unasked = error.__cause__ is None or isinstance(error.__cause__, aiohttp.ClientConnectorError)
            if not is_unasked and any(map(_sets_back, calls)):
                await self._announce_set_back()
            raise
        if any(map(_has_set_back, calls, answers)):
            await self._announce_set_back()
        for transaction_hash in filter(None, map(_mined_hash, calls, answers)):
            for listener in self._on_mined:
                listener(transaction_hash)
        return [each if isinstance(each, NodeError) else orjson.Fragment(each) for each in answers]

    async def ask(self, calls: Sequence[RpcCall], attempt: connections.Attempt | None = None) -> list[Any]:
        """Ask on the wallet's behalf, in one batch, a node that is on the wallet's chain. The answers are
        JSON values or NodeError. The calls must be such that they may be asked twice. Raises NoNodeError, at
        once when the node has failed since the `attempt` began and not answered again; WrongChainError.
        """
        answers = await self._unless_stopped(self._on_connection(lambda each: each.ask(calls), attempt))
        return [each if isinstance(each, NodeError) else orjson.loads(each) for each in answers]

    async def _forward(self, calls: Sequence[RpcCall]) -> list[connections.Answer]:
        status, body = await self._exchange(calls)
        try:
            return connections.read_answers(body, len(calls))
        except NoNodeError as error:
            if status == HTTPStatus.OK:
                raise
            raise NoNodeError(f"The node answers with HTTP status {status}.") from error

    async def _exchange(self, calls: Sequence[RpcCall]) -> tuple[int, bytes]:
        if self._readers is None or self._endpoint is None:
            raise _no_node()
        body = connections.write_calls(calls)
        try:
            return await self._endpoint.exchange(self._readers, body)
        except connections.BrokenOffError:  # as a rule by a node that took the connection for idle
            if not all(call.method in READING_METHODS for call in calls):
                raise
        return await self._endpoint.exchange(self._readers, body)

    async def _on_connection(
        self,
        work: Callable[[connections.CheckedConnection], Awaitable[Result]],
        attempt: connections.Attempt | None = None,
    ) -> Result:
        attempt = attempt or connections.new_attempt()
        if self._readers is None or self._endpoint is None:
            raise _no_node()
        return await self._pool.run(work, attempt)

    def _connected(self) -> connections.CheckedConnection:
        assert self._endpoint is not None
        return connections.CheckedConnection(
            self._endpoint, self._check_chain, self._announce_connected, self._require_wallet
        )

    async def _unless_stopped(self, work: Coroutine[Any, Any, Result]) -> Result:
        try:
            return await self._stopping.finish(work)
        except StoppedError as error:
            raise NoNodeError("This server stops.") from error

    def _check_chain(self, answer: connections.Answer) -> None:
        try:
            chain_id = parameters.chain_id(None if isinstance(answer, NodeError) else orjson.loads(answer))
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


def _no_node() -> NoNodeError:
    return NoNodeError("There is no node: set node_url to the address of an Ethereum node.")


# News of the chain in the calls of clients: it was set back, or a transaction is in a block.

# Methods of development nodes that give them another history, or take back transactions.
_SETS_BACK = re.compile(
    r"(?:anvil|hardhat)_(?:reset|revert|loadState|setNonce|drop(?:All)?Transactions?|removePoolTransactions)"
    r"|(?:anvil|hardhat)_(?:rollback|reorg)|evm_revert|evm_setAccountNonce|debug_setHead"
)

# Methods whose answers name the block of a transaction.
_NAMES_BLOCK = frozenset({"eth_getTransactionReceipt", "eth_getTransactionByHash"})
_BLOCK_NUMBER = re.compile(rb'"blockNumber"\s*:\s*"')


def _sets_back(call: RpcCall) -> bool:
    return _SETS_BACK.fullmatch(call.method) is not None


def _has_set_back(call: RpcCall, answer: connections.Answer) -> bool:
    # evm_revert answers false without such a snapshot
    return not isinstance(answer, NodeError) and answer != b"false" and _sets_back(call)


def _mined_hash(call: RpcCall, answer: connections.Answer) -> str | None:
    """The hash of the call, if the answer names its block."""
    if call.method not in _NAMES_BLOCK or isinstance(answer, NodeError):
        return None
    match call.params:
        case [str(transaction_hash)] if _BLOCK_NUMBER.search(answer):
            return transaction_hash.lower()
    return None


# Methods of nodes that only read: of Ethereum's execution-apis, and additions of common nodes.
#
# Only these are asked again when a connection breaks before the answer. Any other method, known or not, may
# have had its effect already: it sends, mines, makes a filter, or empties one (eth_getFilterChanges).

READING_METHODS = frozenset(
    {
        "eth_accounts", "eth_baseFee", "eth_blobBaseFee", "eth_blockNumber", "eth_call", "eth_callMany",
        "eth_chainId", "eth_coinbase", "eth_config", "eth_createAccessList", "eth_estimateGas",
        "eth_feeHistory", "eth_gasPrice", "eth_hashrate", "eth_maxPriorityFeePerGas", "eth_mining",
        "eth_pendingTransactions", "eth_protocolVersion", "eth_simulateV1", "eth_syncing",
        "eth_getAccount", "eth_getBalance", "eth_getBlockByHash", "eth_getBlockByNumber",
        "eth_getBlockReceipts", "eth_getBlockTransactionCountByHash",
        "eth_getBlockTransactionCountByNumber", "eth_getCode", "eth_getFilterLogs", "eth_getHeaderByHash",
        "eth_getHeaderByNumber", "eth_getLogs", "eth_getProof", "eth_getRawTransactionByBlockHashAndIndex",
        "eth_getRawTransactionByBlockNumberAndIndex", "eth_getRawTransactionByHash", "eth_getStorageAt",
        "eth_getTransactionByBlockHashAndIndex", "eth_getTransactionByBlockNumberAndIndex",
        "eth_getTransactionByHash", "eth_getTransactionBySenderAndNonce", "eth_getTransactionCount",
        "eth_getTransactionReceipt", "eth_getUncleByBlockHashAndIndex", "eth_getUncleByBlockNumberAndIndex",
        "eth_getUncleCountByBlockHash", "eth_getUncleCountByBlockNumber",
        "net_listening", "net_peerCount", "net_version", "web3_clientVersion", "web3_sha3",
    }
)  # fmt: skip


# Methods of nodes that the wallet never forwards, because they sign, send or handle keys.
#
# The node would do that with accounts of its own, past approval, audit log and durable sending. Other chains
# have such methods in other namespaces than eth, and old nodes (geth, parity) had them under other verbs.

_NAMESPACES = "personal|account|wallet|signer|clef|secretstore|shh|quorumPermission|quorumExtension"
"""Every method handles keys, or sends transactions that the node signs."""

_VERBS = (
    r"send|sign|resend|submit\w*transaction|post(?:sign|transaction)|distribute"
    r"|decrypt|encryptMessage|getEncryptionPublicKey"
)
"""The name begins with one of these in any namespace. Proofs of work (eth_submitWork) are no transactions."""

_PARITYS_KEYS = (
    r"compose|(?:new|kill|remove|export|import|change|test|set|derive|open|close|generate)"
    r"\w*(?:account|address|vault|password|secret|phrase|signer)"
)

_REFUSED = re.compile(
    rf"\s*(?:(?:{_NAMESPACES})_|\w*_(?:{_VERBS})|parity_(?:{_PARITYS_KEYS}))", re.IGNORECASE
)


def is_refused(method: str) -> bool:
    """Whether the node must not be asked for the method."""
    return _REFUSED.match(method) is not None
