"""The methods of accounts, messages, typed data, permissions and the chain (docs/protocol.md, D)."""

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any

from bridge_server.ethereum.hex_data import hex_of, quantity
from bridge_server.ethereum.messages import personal_message_hash
from bridge_server.ethereum.recovery import SignatureError, recover_address
from bridge_server.ethereum.typed_data import TypedData
from bridge_server.ethereum.typed_data_signed import signed_part
from bridge_server.kernel.errors import UnavailableError
from bridge_server.version import USER_AGENT
from bridge_server.wallet import parameters
from bridge_server.wallet.accounts import Accounts
from bridge_server.wallet.errors import InvalidParamsError, UnrecognizedChainError
from bridge_server.wallet.explaining.explaining import WALLET_CHAIN_ID
from bridge_server.wallet.models import Address, Caller
from bridge_server.wallet.node.node import Node
from bridge_server.wallet.parameters import Params
from bridge_server.wallet.rpc import wire
from bridge_server.wallet.rpc.method_table import Method, MethodTable
from bridge_server.wallet.signing import Signing

TYPED_DATA = ("eth_signTypedData", "eth_signTypedData_v3", "eth_signTypedData_v4")
LISTING = ("eth_accounts", "eth_requestAccounts", "personal_listAccounts")
GOING_TO_A_CHAIN = ("wallet_switchEthereumChain", "wallet_addEthereumChain")


class WalletMethods:
    """`tables` has them all. With `signs_for_any_chain`, typed data for another chain is signed too."""

    def __init__(
        self, accounts: Accounts, signing: Signing, node: Node, *, signs_for_any_chain: bool
    ) -> None:
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
        parameters.nothing(method, params)
        return self._accounts.addresses()

    async def _new_account(self, params: Params, _: Caller) -> Address:
        [passphrase] = parameters.arguments("personal_newAccount", params, 1, "passphrase")
        return await self._accounts.create(parameters.text(passphrase, "params[0]"))

    async def _import_raw_key(self, params: Params, _: Caller) -> Address:
        secret, passphrase = wire.read_new_key(params)
        return await self._accounts.import_key(secret, passphrase)

    async def _unlock_account(self, params: Params, _: Caller) -> bool:
        account, passphrase, seconds = wire.read_unlock(params)
        await self._accounts.unlock(account, passphrase, seconds)
        return True

    async def _lock_account(self, params: Params, _: Caller) -> bool:
        [account] = parameters.arguments("personal_lockAccount", params, 1, "account")
        return self._accounts.lock(parameters.address(account, "params[0]"))

    async def _recover(self, params: Params, _: Caller) -> str:
        message, signature = wire.read_recover(params)
        try:
            return recover_address(personal_message_hash(message), signature).lower()
        except SignatureError as error:
            raise InvalidParamsError(f"params[1]: {error}.") from None

    async def _go_to_chain(self, method: str, params: Params, _: Caller) -> None:
        """Accept the wallet's own chain alone. Dapps ask for it when they connect (EIP-3326, EIP-3085)."""
        wanted, own = wire.read_chain(method, params), await self._node.chain_id()
        if wanted != own:
            raise UnrecognizedChainError(wanted, own)

    async def _get_permissions(self, params: Params, caller: Caller) -> list[dict[str, Any]]:
        parameters.nothing("wallet_getPermissions", params)
        return wire.permissions(caller, self._accounts.addresses())

    async def _request_permissions(self, params: Params, caller: Caller) -> list[dict[str, Any]]:
        """Grant what every caller has already: to see the accounts (EIP-2255)."""
        wire.read_permissions("wallet_requestPermissions", params)
        return wire.permissions(caller, self._accounts.addresses())

    async def _revoke_permissions(self, params: Params, _: Caller) -> None:
        """Change nothing: dapps call this when they disconnect, and access is a matter of the settings."""
        wire.read_permissions("wallet_revokePermissions", params)

    async def _chain_id(self, params: Params, _: Caller) -> str:
        parameters.nothing("eth_chainId", params)
        return quantity(await self._node.chain_id())

    async def _net_version(self, params: Params, _: Caller) -> str:
        parameters.nothing("net_version", params)
        return str(await self._node.chain_id())

    async def _client_version(self, params: Params, _: Caller) -> str:
        parameters.nothing("web3_clientVersion", params)
        return USER_AGENT

    async def _require_own_chain(self, typed_data: TypedData) -> None:
        """EIP-712 advises user agents to refuse another chain. Typed data need not name one."""
        meant = typed_data.chain_id
        if meant is None:
            return
        own = await self._node.chain_id()
        if meant != own:
            raise InvalidParamsError(
                f"params[1]: domain.chainId is {meant}, and the wallet is on chain {own}: it signs for no "
                "other while typed_data_chain is own."
            )

    async def _shown(self, document: dict[str, Any]) -> dict[str, Any]:
        """The document for an approval: its signed part, and the wallet's chain if it is known."""
        shown = signed_part(document)
        try:
            return {**shown, WALLET_CHAIN_ID: quantity(await self._node.chain_id())}
        except UnavailableError:
            return shown


def _named(
    method: Callable[[str, Params, Caller], Awaitable[Any]], names: Iterable[str]
) -> dict[str, Method]:
    """One function for several methods; the name of the method is its first argument."""
    return {name: partial(method, name) for name in names}
