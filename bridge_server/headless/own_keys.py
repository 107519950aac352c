"""Signing with keys of the wallet's own. A node, if there is one, is asked and sent to."""

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import orjson

from bridge_server.ethereum.hex_data import hex_of
from bridge_server.ethereum.messages import personal_message_hash
from bridge_server.ethereum.signing_key import SigningKey
from bridge_server.headless.methods import TYPED_DATA
from bridge_server.headless.transactions import Transactions
from bridge_server.kernel.stopping import Stopping
from bridge_server.version import USER_AGENT
from bridge_server.wallet.errors import MethodNotFoundError, NodeError, NoNodeError, UnknownAccountError
from bridge_server.wallet.models import RpcCall
from bridge_server.wallet.node.node import Node
from bridge_server.wallet.node.reading_methods import READING_METHODS
from bridge_server.wallet.parameters import arguments
from bridge_server.wallet.rpc.refused_methods import is_refused
from bridge_server.wallet.rpc.wire import read_eth_sign, read_personal_sign, read_sign_typed_data

DEVELOPMENT_CHAIN_ID = 31_337
"""The chain when neither an option nor a node names one: anvil's and hardhat's."""

_NODE_TIMEOUT_SECONDS = 10.0


class OwnKeys:
    """A signer with keys in memory."""

    def __init__(self, keys: Sequence[SigningKey], chain_id: int | None, node_url: str | None) -> None:
        self._keys = {key.address.lower(): key for key in keys}
        self.addresses = [key.address for key in keys]
        self._node = Node(node_url, _NODE_TIMEOUT_SECONDS, USER_AGENT, Stopping(), chain_id)
        self._transactions = Transactions(self._node)
        self._methods: dict[str, Callable[[Any, int], Coroutine[Any, Any, str]]] = {
            "personal_sign": self._personal_sign,
            "eth_sign": self._eth_sign,
            "eth_signTransaction": self._sign_transaction,
            "eth_sendTransaction": self._send_transaction,
            "eth_sendRawTransaction": self._send_raw_transaction,
        }

    async def open(self) -> None:
        """Ask the node for its chain, if there is one. Raises NoNodeError, WrongChainError."""
        await self._node.__aenter__()
        if self._node.exists:
            await self._node.ask([RpcCall("eth_chainId", [])])

    async def close(self) -> None:
        """Let go of the node."""
        await self._node.__aexit__(None, None, None)

    def reset(self) -> None:
        """Forget transactions that were kept, and their nonces."""
        self._transactions.reset()

    @property
    def chain_id(self) -> int:
        """The chosen chain, or the node's, or the chain of development."""
        return self._node.known_chain_id or DEVELOPMENT_CHAIN_ID

    @property
    def kept(self) -> list[str]:
        """The signed transactions that were answered by their hashes and not sent, without a node."""
        return self._transactions.kept

    async def sign(self, method: str, params: Any, chain_id: int) -> Any:
        """The signature, or the transaction's hash. Raises BridgeError."""
        if method in TYPED_DATA:
            return await self._sign_typed_data(method, params)
        return await self._methods[method](params, chain_id)

    async def read(self, method: str, params: Any) -> Any:
        """The node's answer. Raises NoNodeError, NodeError, MethodNotFoundError."""
        if is_refused(method) or (not self._node.exists and method not in READING_METHODS):
            raise MethodNotFoundError(f"The wallet has no method {method}.")
        if not self._node.exists:
            raise NoNodeError(f"There is no node to ask for {method}: start the wallet with --node-url.")
        (answer,) = await self._node.forward([RpcCall(method, params)])
        if isinstance(answer, NodeError):
            raise answer
        return orjson.loads(orjson.dumps(answer))

    async def _personal_sign(self, params: Any, _: int) -> str:
        message, account, _ignored = read_personal_sign(params)
        return self._signature(account, personal_message_hash(message))

    async def _eth_sign(self, params: Any, _: int) -> str:
        message, account = read_eth_sign(params)
        return self._signature(account, personal_message_hash(message))

    async def _sign_typed_data(self, method: str, params: Any) -> str:
        account, typed_data, _ = read_sign_typed_data(method, params)
        return self._signature(account, typed_data.digest)

    async def _sign_transaction(self, params: Any, chain_id: int) -> str:
        [value] = arguments("eth_signTransaction", params, 1, "transaction")
        return await self._transactions.sign(value, chain_id, self._key)

    async def _send_transaction(self, params: Any, chain_id: int) -> str:
        [value] = arguments("eth_sendTransaction", params, 1, "transaction")
        return await self._transactions.send(value, chain_id, self._key)

    async def _send_raw_transaction(self, params: Any, _: int) -> str:
        [value] = arguments("eth_sendRawTransaction", params, 1, "signed transaction")
        return await self._transactions.send_signed(value)

    def _signature(self, account: str, digest: bytes) -> str:
        return hex_of(self._key(account).sign(digest))

    def _key(self, account: str) -> SigningKey:
        try:
            return self._keys[account.lower()]
        except KeyError:
            raise UnknownAccountError(account) from None
