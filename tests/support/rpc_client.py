"""Speaks JSON-RPC to `POST /rpc`, as a dapp does."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import orjson
from coincurve import PrivateKey

from bridge_server.ethereum.address import checksummed
from bridge_server.ethereum.keccak import keccak256
from bridge_server.ethereum.sign_in_message import SignInMessage, write_sign_in_message
from bridge_server.ethereum.signing_key import personal_message_hash
from tests.support.asking import Answer, Headers, ask
from tests.support.server import RunningServer

DEVELOPMENT_ADDRESS = "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266"
"""The first account of the well-known development mnemonic."""


class RpcError(Exception):
    """The error object of an answer: `code`, `message` and perhaps `data`."""

    def __init__(self, error: Mapping[str, Any]) -> None:
        super().__init__(f"{error['code']}: {error['message']}")
        self.code: int = error["code"]
        self.message: str = error["message"]
        self.data: Any = error.get("data")


@dataclass(frozen=True, slots=True)
class RpcClient:
    """One client of a server; `headers` go with every request."""

    server: RunningServer
    headers: Mapping[str, str] = field(default_factory=dict)
    _numbers: "count[int]" = field(default_factory=lambda: count(1))

    async def call(self, method: str, *params: Any) -> Any:
        return result_of(await self.send(self.request(method, *params)))

    async def error(self, method: str, *params: Any) -> RpcError:
        try:
            result = await self.call(method, *params)
        except RpcError as error:
            return error
        raise AssertionError(f"{method} was answered {result!r}")

    async def batch(self, calls: Sequence[tuple[Any, ...]]) -> list[Any]:
        """The answers to `(method, *params)` in one batch, in the order of the calls."""
        requests = [self.request(*call) for call in calls]
        answers = await self.send(requests)
        assert [answer["id"] for answer in answers] == [request["id"] for request in requests]
        return list(answers)

    async def send(self, document: Any) -> Any:
        return (await self.post(orjson.dumps(document))).json

    async def post(
        self, body: bytes, headers: Headers = None, content_type: str | None = "application/json"
    ) -> Answer:
        sent = {**self.headers, **(headers or {})}
        return await ask(self.server, "POST", "/rpc", body, sent, content_type=content_type)

    def request(self, method: str, *params: Any) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "id": next(self._numbers), "method": method, "params": list(params)}


def result_of(answer: Any) -> Any:
    """The result in a response object, once it is seen to be one. Raises RpcError."""
    assert answer.keys() - {"result", "error"} == {"jsonrpc", "id"}, answer
    assert answer["jsonrpc"] == "2.0"
    if "error" in answer:
        assert "result" not in answer
        assert answer["error"].keys() <= {"code", "message", "data"}
        raise RpcError(answer["error"])
    return answer["result"]


@dataclass(frozen=True, slots=True)
class Wallet:
    """A wallet with one key, which follows from the number."""

    number: int

    @property
    def address(self) -> str:
        public = self._key.public_key.format(compressed=False)
        return checksummed(f"0x{keccak256(public[1:])[-20:].hex()}")

    @property
    def account(self) -> str:
        """The address on the first chain, as CAIP-10 spells it."""
        return f"eip155:1:{self.address}"

    def sign(self, text: str) -> str:
        """The signature of `personal_sign`, in hexadecimal."""
        signature = self._key.sign_recoverable(personal_message_hash(text.encode()), hasher=None)
        return f"0x{signature[:64].hex()}{27 + signature[64]:02x}"

    def message(self, **fields: Any) -> str:
        """A sign-in message of this wallet with these fields (of `SignInMessage`)."""
        return write_sign_in_message(SignInMessage(**{"address": self.address, "chain_id": 1, **fields}))

    @property
    def _key(self) -> PrivateKey:
        return PrivateKey.from_int(self.number)
