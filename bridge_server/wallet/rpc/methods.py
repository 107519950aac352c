"""The wallet's methods (docs/protocol.md, D): tables from their names to the functions that answer them."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import orjson

from bridge_server.ethereum import signing_key
from bridge_server.ethereum.address import hex_of, quantity
from bridge_server.ethereum.typed_data import TypedData, signed_part
from bridge_server.kernel import errors, secrets, version
from bridge_server.kernel.clock import Clock
from bridge_server.wallet import explaining, models
from bridge_server.wallet.accounts import Accounts
from bridge_server.wallet.models import Address, Caller, InvalidParamsError
from bridge_server.wallet.node.node import Node
from bridge_server.wallet.parameters import Params, address, arguments, data, nothing, text
from bridge_server.wallet.rpc import wire
from bridge_server.wallet.signing import Signing
from bridge_server.wallet.transactions.requests import MAX_NONCE, params_text, read_signed, read_transaction
from bridge_server.wallet.transactions.service import SEND, SIGN, TransactionService
from bridge_server.wallet.transactions.store import TransactionStore

Method: TypeAlias = Callable[[Params, Caller], Awaitable[Any]]
"""Answers one call with a JSON value. Raises BridgeError."""


class MethodTable(NamedTuple):
    """Methods that belong together. Methods that `wait` ask the node, or a person, before they answer."""

    by_name: Mapping[str, Method]
    wait: bool = False


TYPED_DATA = ("eth_signTypedData", "eth_signTypedData_v3", "eth_signTypedData_v4")
LISTING = ("eth_accounts", "eth_requestAccounts", "personal_listAccounts")
GOING_TO_A_CHAIN = ("wallet_switchEthereumChain", "wallet_addEthereumChain")

_SIGNATURE_BYTES = 65


class WalletMethods:
    """The methods of accounts, messages, typed data, permissions and the chain; `tables` has them all."""

    def __init__(self, accounts: Accounts, signing: Signing, node: Node, signs_for_any_chain: bool) -> None:
        self._accounts = accounts
        self._signing = signing
        self._node = node
        self._signs_for_any_chain = signs_for_any_chain
        signs: dict[str, Method] = {
            "personal_sign": self._personal_sign,
            "eth_sign": self._eth_sign,
            **_named(self._sign_typed_data, TYPED_DATA),
        }
        others: dict[str, Method] = {
            **_named(self._list_accounts, LISTING),
            "personal_newAccount": self._new_account,
            "personal_importRawKey": self._import_raw_key,
            "personal_unlockAccount": self._unlock_account,
            "personal_lockAccount": self._lock_account,
            "personal_ecRecover": self._recover,
            **_named(self._go_to_chain, GOING_TO_A_CHAIN),
            "wallet_getPermissions": self._get_permissions,
            "wallet_requestPermissions": self._request_permissions,
            "wallet_revokePermissions": self._revoke_permissions,
            "eth_chainId": self._chain_id,
            "net_version": self._net_version,
            "web3_clientVersion": self._client_version,
        }
        self.tables = (MethodTable(signs, wait=signing.asks_for_approval), MethodTable(others))

    async def _personal_sign(self, params: Params, caller: Caller) -> str:
        message, account, passphrase = wire.read_personal_sign(params)
        return hex_of(await self._signing.sign_message("personal_sign", account, message, caller, passphrase))

    async def _eth_sign(self, params: Params, caller: Caller) -> str:
        message, account = wire.read_eth_sign(params)
        return hex_of(await self._signing.sign_message("eth_sign", account, message, caller))

    async def _sign_typed_data(self, method: str, params: Params, caller: Caller) -> str:
        account, typed_data, document = wire.read_sign_typed_data(method, params)
        if not self._signs_for_any_chain:
            await self._require_own_chain(typed_data)
        if self._signing.asks_for_approval:
            document = await self._shown(document)
        return hex_of(await self._signing.sign_typed_data(method, account, typed_data, document, caller))

    async def _list_accounts(self, method: str, params: Params, _: Caller) -> list[Address]:
        nothing(method, params)
        return self._accounts.addresses()

    async def _new_account(self, params: Params, _: Caller) -> Address:
        [passphrase] = arguments("personal_newAccount", params, 1, "passphrase")
        return await self._accounts.create(text(passphrase, "params[0]"))

    async def _import_raw_key(self, params: Params, _: Caller) -> Address:
        key, passphrase = arguments("personal_importRawKey", params, 2, "private key", "passphrase")
        digits = text(key, "params[0]").removeprefix("0x")
        secret = data(f"0x{digits}", "params[0]", signing_key.SECRET_BYTES)
        return await self._accounts.import_key(secret, text(passphrase, "params[1]"))

    async def _unlock_account(self, params: Params, _: Caller) -> bool:
        names = ("account", "passphrase", "seconds?")
        account, passphrase, seconds = arguments("personal_unlockAccount", params, 2, *names)
        if seconds is not None and type(seconds) is not int:
            raise InvalidParamsError("params[2] must be a whole number of seconds; 0 unlocks without an end.")
        account, passphrase = address(account, "params[0]"), text(passphrase, "params[1]")
        await self._accounts.unlock(account, passphrase, seconds)
        return True

    async def _lock_account(self, params: Params, _: Caller) -> bool:
        [account] = arguments("personal_lockAccount", params, 1, "account")
        return self._accounts.lock(address(account, "params[0]"))

    async def _recover(self, params: Params, _: Caller) -> str:
        message, signature = arguments("personal_ecRecover", params, 2, "message", "signature")
        digest = signing_key.personal_message_hash(wire.message_of(message, "params[0]"))
        try:
            return signing_key.recover_address(digest, data(signature, "params[1]", _SIGNATURE_BYTES)).lower()
        except signing_key.SignatureError as error:
            raise InvalidParamsError(f"params[1]: {error}.") from None

    async def _go_to_chain(self, method: str, params: Params, _: Caller) -> None:
        """Accept the wallet's own chain alone. Dapps ask for it when they connect (EIP-3326, EIP-3085)."""
        wanted, own = wire.read_chain(method, params), await self._node.chain_id()
        if wanted != own:
            raise models.UnrecognizedChainError(wanted, own)

    async def _get_permissions(self, params: Params, caller: Caller) -> list[dict[str, Any]]:
        nothing("wallet_getPermissions", params)
        return wire.permissions(caller, self._accounts.addresses())

    async def _request_permissions(self, params: Params, caller: Caller) -> list[dict[str, Any]]:
        """Grant what every caller has already: to see the accounts (EIP-2255)."""
        wire.read_permissions("wallet_requestPermissions", params)
        return wire.permissions(caller, self._accounts.addresses())

    async def _revoke_permissions(self, params: Params, _: Caller) -> None:
        """Change nothing: dapps call this when they disconnect, and access is a matter of the settings."""
        wire.read_permissions("wallet_revokePermissions", params)

    async def _chain_id(self, params: Params, _: Caller) -> str:
        nothing("eth_chainId", params)
        return quantity(await self._node.chain_id())

    async def _net_version(self, params: Params, _: Caller) -> str:
        nothing("net_version", params)
        return str(await self._node.chain_id())

    async def _client_version(self, params: Params, _: Caller) -> str:
        nothing("web3_clientVersion", params)
        return version.USER_AGENT

    async def _require_own_chain(self, typed_data: TypedData) -> None:
        """EIP-712 advises user agents to refuse another chain. Typed data need not name one."""
        wanted = typed_data.chain_id
        if wanted is None:
            return
        own = await self._node.chain_id()
        if wanted != own:
            raise InvalidParamsError(
                f"params[1]: domain.chainId is {wanted}, and the wallet is on chain {own}: it signs for no "
                "other while typed_data_chain is own."
            )

    async def _shown(self, document: dict[str, Any]) -> dict[str, Any]:
        """The document for an approval: its signed part, and the wallet's chain if it is known."""
        shown = signed_part(document)
        try:
            return {**shown, explaining.WALLET_CHAIN_ID: quantity(await self._node.chain_id())}
        except errors.UnavailableError:
            return shown


def _named(work: Callable[[str, Params, Caller], Awaitable[Any]], names: Iterable[str]) -> dict[str, Method]:
    """One function for several methods; the name of the method is its first argument."""
    return {name: partial(work, name) for name in names}


# The methods that send and sign transactions: parameters to requests, and on to the service.

_SEND_RAW = "eth_sendRawTransaction"


class TransactionMethods:
    """eth_sendTransaction, eth_sendRawTransaction and eth_signTransaction."""

    def __init__(self, service: TransactionService, clock: Clock, ids: secrets.IdMaker) -> None:
        self._service = service
        self._clock = clock
        self._ids = ids
        self.table = MethodTable({SEND: self.send, SIGN: self.sign, _SEND_RAW: self.send_raw}, wait=True)

    async def send(self, params: Params, caller: Caller) -> str:
        """The hash, or the zero hash when the node cannot be reached. Raises what the service raises."""
        [value] = arguments(SEND, params, 1, "transaction")
        request = read_transaction(value)
        return await self._service.send(self._asked(request.sender, value, caller), request)

    async def send_raw(self, params: Params, caller: Caller) -> str:
        """The hash, or the zero hash when the node does not take it now. Raises what the service raises."""
        [value] = arguments(_SEND_RAW, params, 1, "signed transaction")
        transaction = read_signed(value)
        if transaction.nonce > MAX_NONCE:
            raise InvalidParamsError(f"params[0] has a nonce above {MAX_NONCE:#x}, which is not stored.")
        asked = self._asked(Address(transaction.sender), value, caller)
        return await self._service.send_signed(asked, transaction, value)

    async def sign(self, params: Params, caller: Caller) -> str:
        """The signed transaction as DATA. Raises what the service raises."""
        [value] = arguments(SIGN, params, 1, "transaction")
        return await self._service.sign(read_transaction(value), caller)

    def _asked(self, sender: Address, value: Any, caller: Caller) -> models.SendRequest:
        now_ms = self._clock.now_ms()
        transaction_id = models.TransactionId(self._ids.ordered_uuid(now_ms))
        return models.SendRequest(transaction_id, sender, params_text(value), now_ms, caller)


# wallet_getQueuedTransaction and wallet_getQueuedTransactions: the states of requests.

_NEWEST = "wallet_getQueuedTransaction"
_WAITING = "wallet_getQueuedTransactions"

_LISTED = 1_000

_ADDRESS_LENGTH = 42
_HASH_LENGTH = 66


class QueuedTransactions:
    """Looks up transactions by account, id, hash or the parameter of the request."""

    def __init__(self, store: TransactionStore) -> None:
        self._store = store
        self.table = MethodTable({_NEWEST: self.newest, _WAITING: self.waiting})

    async def newest(self, params: Params, _: Caller) -> dict[str, Any] | None:
        """wallet_getQueuedTransaction [which?]: the newest transaction that matches, or None. `which` is an
        account, the id or the hash of a transaction, or the parameter of the send. Raises InvalidParamsError.
        """
        [which] = arguments(_NEWEST, params, 0, "which?")
        if _names_account(which):
            found = await self._store.newest(_account(which))
        else:
            found = next(iter(await self._matching(which, 1)), None)
        return None if found is None else write_queued(found)

    async def waiting(self, params: Params, _: Caller) -> list[dict[str, Any]]:
        """wallet_getQueuedTransactions [which?]: all that match, in the order of the requests. For an
        account, or None for all, what the node does not have yet. Raises InvalidParamsError.
        """
        [which] = arguments(_WAITING, params, 0, "which?")
        if _names_account(which):
            found = await self._store.waiting(_account(which), _LISTED)
        else:
            found = (await self._matching(which, _LISTED))[::-1]
        return [write_queued(each) for each in found]

    async def _matching(self, which: Any, limit: int) -> Sequence[models.StoredTransaction]:
        """The transactions with the id, the hash or the parameter, newest first."""
        if isinstance(which, dict):
            return await self._store.with_params(read_transaction(which).sender, params_text(which), limit)
        if not isinstance(which, str):
            raise InvalidParamsError(
                "params[0] must be an account, the id or hash of a transaction, or the parameter of its send."
            )
        if not which.startswith("0x"):
            found = await self._store.get(models.TransactionId(which))
            return [] if found is None else [found]
        is_hash = len(which) == _HASH_LENGTH
        transaction_hash = which.lower() if is_hash else hex_of(read_signed(which).hash)
        return await self._store.with_hash(transaction_hash, limit)


def _names_account(which: Any) -> bool:
    """Whether this is an account, or None, which stands for all accounts."""
    return which is None or (isinstance(which, str) and which[:2] == "0x" and len(which) == _ADDRESS_LENGTH)


def _account(which: Any) -> Address | None:
    return None if which is None else address(which, "params[0]")


def write_queued(stored: models.StoredTransaction) -> dict[str, Any]:
    """A stored transaction as JSON."""
    signed = stored.signed
    return {
        "id": stored.request.transaction_id,
        "state": stored.state,
        "from": stored.request.sender,
        "hash": None if signed is None else signed.transaction_hash,
        "nonce": None if signed is None else quantity(signed.nonce),
        "chainId": None if stored.chain_id is None else quantity(stored.chain_id),
        "transaction": orjson.Fragment(stored.request.params),
        "error": stored.error,
        "attempts": stored.attempts,
    }
