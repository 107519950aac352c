"""A dapp uses the server's own wallet to sign in, to sign typed data and to send a transaction."""

import asyncio
from dataclasses import replace
from typing import Any

import aiohttp

from bridge_server.ethereum.address import checksummed
from bridge_server.ethereum.hex_data import data_of, hex_of
from bridge_server.ethereum.recovery import recover_address
from bridge_server.ethereum.typed_data import read_typed_data
from bridge_server.tour.player import Player
from bridge_server.tour.sign_in import log_in, sign_in_message
from bridge_server.tour.transcript import Printed, line, say, show

_PATIENCE_SECONDS = 30
_PAUSE_SECONDS = 0.05
_DEVELOPMENT_CHAINS = {"0x539", "0x7a69"}  # 1337 and 31337, on which ether is nobody's money
_ONE_ETHER = "0xde0b6b3a7640000"
_SHOWN_OF_RECEIPTS = ("status", "blockNumber", "from", "to", "gasUsed")

_ORDER = {
    "types": {
        "EIP712Domain": [{"name": "name", "type": "string"}],
        "Order": [{"name": "buy", "type": "string"}, {"name": "limit", "type": "uint256"}],
    },
    "primaryType": "Order",
    "domain": {"name": "Example Exchange"},
    "message": {"buy": "ETH", "limit": 4000},
}


class RefusedError(Exception):
    """The answer was a JSON-RPC error; the text is its message."""


class WalletCaller(Player):
    """A JSON-RPC client of the wallet."""

    def __init__(self, url: str, client: aiohttp.ClientSession) -> None:
        super().__init__("dapp", url, client)

    async def call(self, method: str, *params: Any) -> Any:
        """Send and print a call; returns its result. Raises RefusedError."""
        return _result(show(await self.post(method, *params)))

    async def post(self, method: str, *params: Any) -> Printed:
        """Send a call without printing it. Raises aiohttp.ClientResponseError if access is refused."""
        request = {"jsonrpc": "2.0", "id": 1, "method": method}
        return await self.ask("POST", "/rpc", request | ({"params": params} if params else {}))

    async def peek(self, method: str) -> Any:
        """The result of a call that is not printed; None if there is none."""
        try:
            return _result((await self.post(method)).answer)
        except (RefusedError, aiohttp.ClientResponseError):
            return None


async def wallet_scene(url: str) -> None:
    """Accounts, sign-in, typed data, transaction; nothing if the server has no wallet with accounts."""
    async with aiohttp.ClientSession() as client:
        dapp, account = WalletCaller(url, client), Player("account", url, client)
        if not await dapp.peek("eth_accounts"):
            return
        try:
            await _play(dapp, account)
        except RefusedError as error:
            say(f"The wallet refuses, and the scene ends here: {error}")


async def _play(dapp: WalletCaller, account: Player) -> None:
    say("The server is also a wallet. A dapp sends JSON-RPC to it, as it would to a node.")
    accounts = await dapp.call("eth_requestAccounts")
    await _sign_in(dapp, account, accounts[0])
    await _sign_typed_data(dapp, accounts[0])
    if await dapp.peek("eth_blockNumber") is None:
        say("It has no node to send transactions to. The tour starts anvil if it is installed.")
    elif await dapp.peek("eth_chainId") in _DEVELOPMENT_CHAINS:
        await _send_transaction(dapp, accounts[0], accounts[-1])


async def _sign_in(dapp: WalletCaller, account: Player, address: str) -> None:
    say("Its account signs in to its inbox: the wallet signs the message.")
    message = await sign_in_message(account, checksummed(address))
    signature = await dapp.call("personal_sign", hex_of(message.encode()), address)
    await log_in(account, message, signature)


async def _sign_typed_data(dapp: WalletCaller, address: str) -> None:
    say("It signs typed data (EIP-712). The signer can be recovered from the signature and the data.")
    signature = await dapp.call("eth_signTypedData_v4", address, _ORDER)
    line("", "=", {"signer": recover_address(read_typed_data(_ORDER).digest, data_of(signature)).lower()})


async def _send_transaction(dapp: WalletCaller, sender: str, receiver: str) -> None:
    say("It sends 1 ether: the wallet fills in nonce, gas and price, signs, and sends it to its node.")
    transaction = {"from": sender, "to": receiver, "value": _ONE_ETHER}
    transaction_hash = await dapp.call("eth_sendTransaction", transaction)

    say("Other methods are forwarded to the node, such as the request for the receipt.")
    show(_shortened(await _receipt(dapp, transaction_hash)))


async def _receipt(dapp: WalletCaller, transaction_hash: str) -> Printed:
    """Ask for the receipt until the transaction is in a block; returns that exchange."""
    async with asyncio.timeout(_PATIENCE_SECONDS):
        while True:
            exchange = await dapp.post("eth_getTransactionReceipt", transaction_hash)
            if _result(exchange.answer) is not None:
                return exchange
            await asyncio.sleep(_PAUSE_SECONDS)


def _shortened(exchange: Printed) -> Printed:
    receipt = {name: exchange.answer["result"][name] for name in _SHOWN_OF_RECEIPTS}
    return replace(exchange, answer=exchange.answer | {"result": receipt})


def _result(answer: Any) -> Any:
    if "error" in answer:
        raise RefusedError(answer["error"]["message"])
    return answer["result"]
