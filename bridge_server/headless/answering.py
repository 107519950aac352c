"""The results of approved calls: a signature, a hash, or a fact that the wallet or its node knows."""

from collections.abc import Awaitable, Callable
from typing import Any

from bridge_server.client.session.authentication import read_authentication
from bridge_server.ethereum.hex_data import hex_of, quantity
from bridge_server.headless.calls import HeadlessCall
from bridge_server.headless.methods import (
    AUTHENTICATE,
    CHANGING_CHAIN,
    RAW_TRANSACTIONS,
    SIGNING,
    signing_account,
)
from bridge_server.headless.sessions import SessionState
from bridge_server.headless.signer import Signer
from bridge_server.kernel.errors import ForbiddenError
from bridge_server.version import USER_AGENT
from bridge_server.wallet.errors import InvalidParamsError, MethodNotFoundError, UnknownAccountError
from bridge_server.wallet.models import Address, Caller
from bridge_server.wallet.rpc.wire import permissions, read_chain


class NotConnectedError(ForbiddenError):
    """The wallet has not approved a session with the dapp."""

    code = "not-connected"
    title = "Not connected"

    def __init__(self) -> None:
        super().__init__("The wallet has no approved session with this dapp: call eth_requestAccounts first.")


class Answering:
    """Does what calls ask, and signs for approved sessions alone, with the accounts that they were given."""

    def __init__(self, signer: Signer) -> None:
        self._signer = signer
        self._methods: dict[str, Callable[[HeadlessCall], Awaitable[Any]]] = {
            "eth_accounts": self._accounts,
            "eth_requestAccounts": self._connect,
            "eth_chainId": self._chain_id,
            "net_version": self._net_version,
            "web3_clientVersion": self._client_version,
            "wallet_getPermissions": self._permissions,
            "wallet_requestPermissions": self._request_permissions,
            "wallet_revokePermissions": self._revoke_permissions,
            AUTHENTICATE: self._authenticate,
            **dict.fromkeys(CHANGING_CHAIN, self._go_to_chain),
            **dict.fromkeys((*SIGNING, *RAW_TRANSACTIONS), self._sign),
        }

    async def answer(self, call: HeadlessCall) -> Any:
        """The result. Raises BridgeError, BridgeClientError."""
        method = self._methods.get(call.method)
        return await self._signer.read(call.method, call.params) if method is None else await method(call)

    async def _accounts(self, call: HeadlessCall) -> list[str]:
        return list(call.session.accounts) if call.session.is_open else []

    async def _connect(self, call: HeadlessCall) -> list[str]:
        if not call.session.is_open:
            await call.session.link.connect(call.session)
        return list(call.session.accounts)

    async def _chain_id(self, call: HeadlessCall) -> str:
        return quantity(call.session.chain_id)

    async def _net_version(self, call: HeadlessCall) -> str:
        return str(call.session.chain_id)

    async def _client_version(self, _: HeadlessCall) -> str:
        return USER_AGENT

    async def _permissions(self, call: HeadlessCall) -> list[dict[str, Any]]:
        if not call.session.is_open:
            return []
        addresses = [Address(address) for address in call.session.accounts]
        return permissions(Caller("", call.session.origin), addresses)

    async def _request_permissions(self, call: HeadlessCall) -> list[dict[str, Any]]:
        await self._connect(call)
        return await self._permissions(call)

    async def _revoke_permissions(self, call: HeadlessCall) -> None:
        """End a web page's connection. A session over a bridge is ended by its own protocol."""
        if call.session.generation == "page":
            await call.session.disconnect()

    async def _authenticate(self, call: HeadlessCall) -> list[dict[str, Any]]:
        """Sign in with each account of the session, which is decided afterwards."""
        session = call.session
        if session.generation != "2.x" or session.state is not SessionState.PROPOSED:
            raise MethodNotFoundError(f"The wallet has no method {call.method} in a session.")
        asked = read_authentication(call.params)
        chain = f"eip155:{call.chain_id}"
        if chain not in asked.chains:
            raise InvalidParamsError("The sign-in must be on a chain of Ethereum, such as eip155:1.")
        cacaos = []
        for address in session.accounts:
            account = f"{chain}:{address}"
            params = [hex_of(asked.message(account).encode()), address]
            signature = await self._signer.sign("personal_sign", params, call.chain_id)
            cacaos.append(asked.cacao(account, signature))
        return cacaos

    async def _go_to_chain(self, call: HeadlessCall) -> None:
        """Go to any chain that a dapp names (EIP-3326, EIP-3085)."""
        self._require_open(call)
        chain_id = read_chain(call.method, call.params)
        if chain_id != call.session.chain_id:
            await call.session.switch_chain(chain_id)

    async def _sign(self, call: HeadlessCall) -> Any:
        self._require_open(call)
        if call.method in SIGNING:
            _require_account(call)
        return await self._signer.sign(call.method, call.params, call.chain_id)

    def _require_open(self, call: HeadlessCall) -> None:
        if not call.session.is_open:
            raise NotConnectedError


def _require_account(call: HeadlessCall) -> None:
    """Raise UnknownAccountError for an account that the session was not given."""
    try:
        account = signing_account(call.method, call.params)
    except (LookupError, TypeError):
        raise InvalidParamsError(f"params of {call.method} name no account to sign with.") from None
    if isinstance(account, str) and not call.session.has_account(account):
        raise UnknownAccountError(account)
