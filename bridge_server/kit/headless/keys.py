"""Signers of a headless wallet: keys of its own, perhaps with a node, or another wallet's JSON-RPC."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import aiohttp
import orjson

from bridge_server.ethereum.address import HexError, address_of, checksummed, hex_of, quantity, quantity_of
from bridge_server.ethereum.mnemonic import DEVELOPMENT_MNEMONIC
from bridge_server.ethereum.signing_key import SigningKey, personal_message_hash
from bridge_server.ethereum.transactions import FEE_MARKET_TYPE, TransactionError, sign_transaction
from bridge_server.kernel.background import KeyedLock, Stopping
from bridge_server.kernel.errors import UpstreamError
from bridge_server.kernel.fields import near_words
from bridge_server.kernel.version import USER_AGENT
from bridge_server.kit.client.payloads import read_object
from bridge_server.wallet.accounts import development_keys
from bridge_server.wallet.models import (
    InvalidParamsError,
    MethodNotFoundError,
    NodeError,
    NoNodeError,
    RpcCall,
    UnknownAccountError,
)
from bridge_server.wallet.node.node import READING_METHODS, Node, is_refused
from bridge_server.wallet.parameters import arguments
from bridge_server.wallet.rpc.wire import read_eth_sign, read_personal_sign, read_sign_typed_data
from bridge_server.wallet.transactions.requests import (
    USUAL_GAS,
    Filling,
    TransactionRequest,
    read_signed,
    read_transaction,
)

DEVELOPMENT_CHAIN_ID = 31_337
"""The chain when neither an option nor a node names one: anvil's and hardhat's."""

_NODE_TIMEOUT_SECONDS = 10.0
_PATIENCE_SECONDS = 330.0
"""Longer than a person is given to approve a signature there."""
_USUAL_ACCOUNTS = 10
"""The accounts of a mnemonic that a session can be switched to."""
_USUAL_PRICE_WEI = 10**9
_KEPT = 1_000


@dataclass(frozen=True, slots=True)
class KeySource:
    """One source of accounts; without any, the development mnemonic. Raises ValueError."""

    mnemonic: str | None
    private_keys: Sequence[SigningKey]
    rpc: str | None
    rpc_token: str | None
    node_url: str | None

    def __post_init__(self) -> None:
        if sum((self.mnemonic is not None, bool(self.private_keys), self.rpc is not None)) > 1:
            raise ValueError("accounts come from a mnemonic, from private keys or from rpc: name one of them")
        if self.rpc is not None and self.node_url is not None:
            raise ValueError("the wallet at rpc sends transactions itself: leave out the node")

    def numbers(self, accounts: int | Sequence[int] | None) -> Sequence[int] | None:
        """The numbers of the accounts that dapps are given; None is all."""
        if isinstance(accounts, int):
            return range(accounts)
        if accounts is None and self.rpc is None and not self.private_keys:
            return [0]
        return accounts

    def signer(self, chain_id: int | None, numbers: Sequence[int] | None) -> "Signer":
        """The signer, not opened yet. Raises MnemonicError."""
        if self.rpc is not None:
            return RemoteWallet(self.rpc, self.rpc_token, chain_id)
        return OwnKeys(self.private_keys or self._derived(numbers), chain_id, self.node_url)

    def _derived(self, numbers: Sequence[int] | None) -> list[SigningKey]:
        count = max(_USUAL_ACCOUNTS, *(number + 1 for number in numbers or [0]))
        return development_keys(self.mnemonic or DEVELOPMENT_MNEMONIC, count)


class OwnKeys:
    """A signer with keys in memory. Without a node it keeps transactions, and nonces count up from 0."""

    def __init__(self, keys: Sequence[SigningKey], chain_id: int | None, node_url: str | None) -> None:
        self._keys = {key.address.lower(): key for key in keys}
        self.addresses = [key.address for key in keys]
        self._node = Node(node_url, _NODE_TIMEOUT_SECONDS, Stopping(), chain_id)
        self._filling = Filling(self._node)
        self._turns = KeyedLock()
        self._nonces: dict[tuple[str, int], int] = {}
        self.kept: list[str] = []

    async def open(self) -> None:
        """Ask the node for its chain, if there is one. Raises NoNodeError, WrongChainError."""
        await self._node.__aenter__()
        if self._node.exists:
            await self._node.ask([RpcCall("eth_chainId", [])])

    async def close(self) -> None:
        await self._node.__aexit__(None, None, None)

    def reset(self) -> None:
        """Forget transactions that were kept, and their nonces."""
        self._nonces.clear()
        self.kept.clear()

    @property
    def chain_id(self) -> int:
        """The chosen chain, or the node's, or the chain of development."""
        return self._node.known_chain_id or DEVELOPMENT_CHAIN_ID

    async def sign(self, method: str, params: Any, chain_id: int) -> Any:
        """The signature, or the transaction's hash. Raises BridgeError."""
        if method in TYPED_DATA:
            account, typed_data, _ = read_sign_typed_data(method, params)
            return self._signature(account, typed_data.digest)
        if method == "personal_sign":
            message, account, _ignored = read_personal_sign(params)
            return self._signature(account, personal_message_hash(message))
        if method == "eth_sign":
            message, account = read_eth_sign(params)
            return self._signature(account, personal_message_hash(message))
        if method in RAW_TRANSACTIONS:
            [value] = arguments(method, params, 1, "signed transaction")
            transaction = read_signed(value)
            await self._hand_over(str(value))
            return hex_of(transaction.hash)
        [value] = arguments(method, params, 1, "transaction")
        request = read_transaction(value)
        if method == "eth_signTransaction":
            return (await self._signed(request, chain_id))[0]
        async with self._turns.taken(request.sender):
            raw, transaction_hash, nonce = await self._signed(request, chain_id)
            await self._hand_over(raw)
            self._nonces[request.sender, chain_id] = nonce + 1
        return transaction_hash

    async def read(self, method: str, params: Any) -> Any:
        """The node's answer. Raises NoNodeError, NodeError, MethodNotFoundError."""
        if is_refused(method) or (not self._node.exists and method not in READING_METHODS):
            raise MethodNotFoundError(f"The wallet has no method {method}.")
        if not self._node.exists:
            raise NoNodeError(f"There is no node to ask for {method}: start the wallet with --node-url.")
        return orjson.loads(orjson.dumps(await self._forwarded(method, params)))

    def _signature(self, account: str, digest: bytes) -> str:
        return hex_of(self._key(account).sign(digest))

    def _key(self, account: str) -> SigningKey:
        try:
            return self._keys[account.lower()]
        except KeyError:
            raise UnknownAccountError(account) from None

    async def _signed(self, request: TransactionRequest, chain_id: int) -> tuple[str, str, int]:
        """The signed transaction, its hash and its nonce."""
        if request.chain_id is not None and request.chain_id != chain_id:
            named, own = quantity(request.chain_id), quantity(chain_id)
            fault = f"params[0].chainId is {named}, and the session is on chain {own}"
            raise InvalidParamsError(f"{fault}: switch the chain first.")
        request = request._replace(chain_id=chain_id)
        if self._node.exists:
            request = await self._filling.filled(request)
        else:
            request = _with_usual_prices(request)
        nonce = request.nonce
        if nonce is None and self._node.exists:
            nonce = await self._filling.pending_count(request.sender)
        elif nonce is None:
            nonce = self._nonces.get((request.sender, chain_id), 0)
        key = self._key(request.sender)
        try:
            raw, transaction_hash, _ = sign_transaction(request.transaction(nonce), key)
        except TransactionError as error:
            raise InvalidParamsError(f"params[0]: {error}.") from error
        return hex_of(raw), hex_of(transaction_hash), nonce

    async def _hand_over(self, raw: str) -> None:
        if self._node.exists:
            await self._forwarded("eth_sendRawTransaction", [raw])
        else:
            self.kept.append(raw)
            del self.kept[:-_KEPT]

    async def _forwarded(self, method: str, params: Any) -> Any:
        (answer,) = await self._node.forward([RpcCall(method, params)])
        if isinstance(answer, NodeError):
            raise answer
        return answer


def _with_usual_prices(request: TransactionRequest) -> TransactionRequest:
    filled = request._replace(gas=USUAL_GAS if request.gas is None else request.gas)
    if filled.type != FEE_MARKET_TYPE:
        return filled._replace(gas_price=_USUAL_PRICE_WEI if filled.gas_price is None else filled.gas_price)
    tip, most = filled.max_priority_fee_per_gas, filled.max_fee_per_gas
    if tip is None:
        tip = _USUAL_PRICE_WEI if most is None else min(_USUAL_PRICE_WEI, most)
    most = 2 * _USUAL_PRICE_WEI + tip if most is None else most
    return filled._replace(max_priority_fee_per_gas=tip, max_fee_per_gas=most)


class RemoteWallet:
    """A signer behind a URL. Its errors are passed on as they come."""

    def __init__(self, url: str, token: str | None, chain_id: int | None) -> None:
        self._url = url
        self._token = token
        self._chosen_chain_id = chain_id
        self._ids = count(1)
        self._http: aiohttp.ClientSession | None = None
        self.addresses: list[str] = []
        self.chain_id = chain_id or 1

    async def open(self) -> None:
        """Ask for the accounts and the chain. Raises UpstreamError, NodeError."""
        headers = {"Content-Type": "application/json", "User-Agent": USER_AGENT}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        timeout = aiohttp.ClientTimeout(total=_PATIENCE_SECONDS)
        self._http = aiohttp.ClientSession(timeout=timeout, headers=headers, trust_env=False)
        accounts = await self._call("eth_accounts", [])
        chain = None if self._chosen_chain_id else await self._call("eth_chainId", [])
        try:
            self.addresses = [checksummed(address_of(account)) for account in accounts]
            if chain is not None:
                self.chain_id = quantity_of(chain)
        except (HexError, TypeError) as error:
            raise UpstreamError(f"What answers at {self._url} is no wallet's JSON-RPC.") from error
        if not self.addresses:
            raise UpstreamError(f"The wallet at {self._url} has no accounts.")

    async def close(self) -> None:
        if self._http is not None:
            await self._http.close()

    def reset(self) -> None:
        """Do nothing: the other wallet keeps its own state."""

    async def sign(self, method: str, params: Any, chain_id: int) -> Any:
        """The other wallet's answer; it refuses chains but its own. Raises NodeError, UpstreamError."""
        if method in TRANSACTIONS and isinstance(params, list) and params and isinstance(params[0], dict):
            params = [{"chainId": quantity(chain_id), **params[0]}, *params[1:]]
        return await self._call(method, params)

    async def read(self, method: str, params: Any) -> Any:
        return await self._call(method, params)

    async def _call(self, method: str, params: Any) -> Any:
        assert self._http is not None
        body = orjson.dumps({"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": params})
        try:
            async with self._http.post(self._url, data=body, allow_redirects=False) as response:
                status, content = response.status, await response.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            reason = str(error) or f"no answer within {_PATIENCE_SECONDS:.0f} s"
            raise UpstreamError(f"The wallet at {self._url} cannot be used: {reason}.") from error
        return _result(self._url, status, content)


Signer = OwnKeys | RemoteWallet
"""Signs and sends for calls that were approved. Its methods raise BridgeError."""


def _result(url: str, status: int, content: bytes) -> Any:
    match read_object(content):
        case {"error": {"code": int(code), "message": str(message), **more}}:
            raise NodeError(code, message, more.get("data"), has_data="data" in more)
        case {"result": result}:
            return result
        case {"detail": str(detail)}:
            raise UpstreamError(f"The wallet at {url} answered {status}: {detail}")
        case _:
            raise UpstreamError(f"What answers at {url} is no wallet's JSON-RPC (status {status}).")


# The methods that the wallet knows, by what they do.

MESSAGES = ("personal_sign", "eth_sign")
TYPED_DATA = ("eth_signTypedData", "eth_signTypedData_v3", "eth_signTypedData_v4")
TRANSACTIONS = ("eth_sendTransaction", "eth_signTransaction")
RAW_TRANSACTIONS = ("eth_sendRawTransaction",)
SIGNING = frozenset((*MESSAGES, *TYPED_DATA, *TRANSACTIONS))
"""The methods that need a key, and so a session with the account."""
AUTHENTICATE = "wc_sessionAuthenticate"
"""The sign-in that a dapp of generation 2.x asks for with its session: a call of its own to the rules."""

CONNECTING = frozenset(("eth_requestAccounts", "wallet_requestPermissions", "wallet_revokePermissions"))
CHANGING_CHAIN = frozenset(("wallet_switchEthereumChain", "wallet_addEthereumChain"))
STATE = frozenset(
    ("eth_accounts", "eth_chainId", "net_version", "web3_clientVersion", "wallet_getPermissions")
)
"""The methods by which a dapp learns what it may know already."""
QUIET = STATE | CONNECTING | READING_METHODS
"""The methods that need nobody's consent: only a rule, and never the policy, stands against them."""
KNOWN = QUIET | SIGNING | CHANGING_CHAIN | frozenset((*RAW_TRANSACTIONS, AUTHENTICATE))

_ACCOUNT_PLACES = {"personal_sign": 1, "eth_sign": 0, **dict.fromkeys(TYPED_DATA, 0)}
_SUBJECT_PLACES = {"personal_sign": 0, "eth_sign": 1, **dict.fromkeys(TYPED_DATA, 1)}


class UnknownMethodError(ValueError):
    """No wallet has a method of this name; the message may have a similar one."""


def require_known(method: str, others: Iterable[str] = ()) -> None:
    """Raise UnknownMethodError for a method that neither the wallet nor a rule names."""
    known = KNOWN | set(others)
    if method in known:
        return
    near = near_words(method, known, 2)
    hint = f"did you mean {' or '.join(near)}?" if near else "name one such as personal_sign"
    raise UnknownMethodError(f"{method!r} is no method that the wallet knows: {hint}")


def signed_subject(method: str, params: Any) -> Any:
    """The parameter that holds the data to sign. Raises LookupError, TypeError."""
    return params[_SUBJECT_PLACES.get(method, 0)]


def signing_account(method: str, params: Any) -> object:
    """The parameter that names the account to sign with. Raises LookupError, TypeError."""
    if method in TRANSACTIONS:
        return params[0]["from"]
    return params[_ACCOUNT_PLACES[method]]
