"""Signing through another wallet's JSON-RPC, such as a bridge server's /rpc."""

from itertools import count
from typing import Any

import aiohttp
import orjson

from bridge_server.ethereum.address import checksummed
from bridge_server.ethereum.hex_data import HexError, address_of, quantity, quantity_of
from bridge_server.headless.methods import TRANSACTIONS
from bridge_server.kernel.errors import UpstreamError
from bridge_server.version import USER_AGENT
from bridge_server.wallet.errors import NodeError

_PATIENCE_SECONDS = 330.0
"""Longer than a person is given to approve a signature there."""


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
        self._http = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=_PATIENCE_SECONDS), headers=self._headers(), trust_env=False
        )
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
        """Let go of the connections."""
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
        """The other wallet's answer. Raises NodeError, UpstreamError."""
        return await self._call(method, params)

    def _headers(self) -> dict[str, str]:
        headers = {"Content-Type": "application/json", "User-Agent": USER_AGENT}
        return headers if self._token is None else {**headers, "Authorization": f"Bearer {self._token}"}

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


def _result(url: str, status: int, content: bytes) -> Any:
    try:
        answer = orjson.loads(content)
    except orjson.JSONDecodeError:
        answer = None
    match answer:
        case {"error": {"code": int(code), "message": str(message), **more}}:
            raise NodeError(code, message, more.get("data"), has_data="data" in more)
        case {"result": result}:
            return result
        case {"detail": str(detail)}:
            raise UpstreamError(f"The wallet at {url} answered {status}: {detail}")
        case _:
            raise UpstreamError(f"What answers at {url} is no wallet's JSON-RPC (status {status}).")
