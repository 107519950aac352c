"""The contents of encrypted payloads: approvals, call requests, call statuses.

The shapes are those of the published clients of generation 0.7 (walletconnect and rn-walletconnect-wallet
0.7.28): `{approved, accounts, chainId}`, a JSON-RPC request, `{approved, result}`. A status also has the
members `id`, `jsonrpc` and `error`, so that it can be read as a JSON-RPC response (docs/protocol.md, D).
"""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from secrets import randbelow
from typing import Any

import orjson

from bridge_server.kit.client.authentication import Authentication
from bridge_server.kit.client.errors import BadPayloadError, CallFailedError, RejectedError

USER_REJECTED = 4001
"""The error code for a rejection by the user (EIP-1193)."""
REJECTION = "The user rejected the request."

_NOT_APPROVED = "The wallet does not approve the session."


@dataclass(frozen=True, slots=True)
class Approval:
    """The wallet's approval of a session. `content` is the whole JSON object, with further members."""

    accounts: tuple[str, ...]
    chain_id: int | None
    content: Mapping[str, Any] = field(repr=False, compare=False)
    cacaos: tuple[Mapping[str, Any], ...] = field(default=(), repr=False, compare=False)
    """The verified sign-ins of generation 2.x (CAIP-74), if the dapp asked for an authentication."""

    @property
    def signed_in(self) -> tuple[str, ...]:
        """The accounts that signed in, as CAIP-10 ids, each once."""
        return tuple(dict.fromkeys(each["p"]["iss"].removeprefix("did:pkh:") for each in self.cacaos))

    @property
    def namespaces(self) -> Mapping[str, Any]:
        """The namespaces that a wallet of generation 2.x approved (CAIP-25); empty in other generations."""
        namespaces: Mapping[str, Any] = self.content.get("namespaces", {})
        return namespaces


@dataclass(frozen=True, slots=True)
class Proposal:
    """A dapp's proposal of a session."""

    name: str
    url: str
    """The address of the dapp's page as the dapp gives it; empty if it gives none."""
    content: Mapping[str, Any] = field(repr=False, compare=False)
    """The parameters of `wc_sessionRequest` (1.x) or `wc_sessionPropose` (2.x)."""
    authentications: tuple[Authentication, ...] = ()
    """The sign-ins that a dapp of generation 2.x asks for; the wallet may approve without."""


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a session of generation 2.x, such as `chainChanged`."""

    name: str
    data: Any
    chain: str
    """The chain of the event as a CAIP-2 id, such as `eip155:1`."""


@dataclass(frozen=True, slots=True)
class Call:
    """A JSON-RPC request of a dapp to its wallet."""

    call_id: str
    method: str
    params: Any
    request_id: str | int | None
    """JSON-RPC's id, which the dapp chose."""
    chain: str | None = None
    """The chain of a call of generation 2.x as a CAIP-2 id, such as `eip155:1`."""


@dataclass(frozen=True, slots=True)
class Push:
    """The wallet's push details, to which the bridge sends new calls (docs/protocol.md, B.3)."""

    type: str
    token: str
    webhook: str


class PayloadIds:
    """Ids of JSON-RPC requests: epoch milliseconds times 1,000, plus a random number, always increasing."""

    def __init__(self) -> None:
        self._last = 0

    def next(self) -> int:
        """A new id, of 16 digits."""
        made = time.time_ns() // 1_000_000 * 1_000 + randbelow(1_000)
        self._last = max(made, self._last + 1)
        return self._last


def read_object(text: bytes | str) -> dict[str, Any] | None:
    """The JSON object that a text is; None for any other text."""
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return document if isinstance(document, dict) else None


def peer_metadata(name: str, url: str) -> dict[str, Any]:
    """The metadata by which a side of generation 1.x or 2.x introduces itself."""
    return {"name": name, "description": "", "url": url, "icons": []}


def read_metadata(metadata: Any) -> tuple[str, str]:
    """The name and the URL by which a side introduces itself; empty ones if it does not."""
    known = metadata if isinstance(metadata, dict) else {}
    return str(known.get("name") or ""), str(known.get("url") or "")


def rejection_of(error: Mapping[str, Any]) -> str:
    """The wallet's reason to reject a session."""
    return str(error.get("message") or _NOT_APPROVED)


def sound_accounts(accounts: Iterable[str]) -> list[str]:
    """The accounts as a list. Raises TypeError if they are not strings, or one string."""
    texts = list(accounts)
    if isinstance(accounts, str) or not all(isinstance(account, str) for account in texts):
        raise TypeError("accounts are a list of addresses, each of them a string")
    return texts


def write_approval(accounts: Iterable[str], chain_id: int) -> dict[str, Any]:
    """The content of an approval. Raises TypeError if `accounts` is not a list of strings."""
    return {"accounts": sound_accounts(accounts), "chainId": chain_id, "approved": True}


def read_approval(content: Any) -> Approval:
    """Read an approval. Raises RejectedError, BadPayloadError."""
    said = _object(content)
    if said.get("approved") is not True:
        raise RejectedError(_NOT_APPROVED)
    accounts = said.get("accounts")
    if not isinstance(accounts, list) or not all(isinstance(account, str) for account in accounts):
        raise BadPayloadError("The approval has no list of accounts.")
    return Approval(tuple(accounts), _chain_id(said.get("chainId")), said)


def write_request(request_id: int, method: str, params: Any) -> dict[str, Any]:
    """The content of a call: a JSON-RPC request."""
    return {"jsonrpc": "2.0", "params": params, "method": method, "id": request_id}


def read_request(call_id: str, content: Any) -> Call:
    """Read a call. Raises BadPayloadError."""
    said = _object(content)
    method, request_id = said.get("method"), said.get("id")
    if not isinstance(method, str) or not isinstance(request_id, str | int | None):
        raise BadPayloadError("The call is not a JSON-RPC request.")
    return Call(call_id, method, said.get("params", []), request_id)


def write_result(call: Call, result: Any) -> dict[str, Any]:
    """The content of a status with a result."""
    return {"id": call.request_id, "jsonrpc": "2.0", "result": result, "approved": True}


def write_error(request_id: str | int | None, code: int, message: str) -> dict[str, Any]:
    """The content of a status with an error."""
    error = {"code": code, "message": message}
    return {"id": request_id, "jsonrpc": "2.0", "error": error, "approved": False}


def read_result(content: Any) -> Any:
    """Read the result of a status. Raises CallFailedError, BadPayloadError."""
    said = _object(content)
    error = said.get("error")
    if isinstance(error, dict):
        code = error.get("code")
        raise CallFailedError(
            code if isinstance(code, int) else USER_REJECTED,
            str(error.get("message", "The wallet answered with an error.")),
            error.get("data"),
        )
    if said.get("approved", True) is not True:
        raise CallFailedError(USER_REJECTED, "The wallet refused the call.")
    if "result" not in said:
        raise BadPayloadError("The call status has neither a result nor an error.")
    return said["result"]


def _object(content: Any) -> dict[str, Any]:
    if not isinstance(content, dict):
        raise BadPayloadError("The payload holds no JSON object.")
    return content


def _chain_id(value: Any) -> int | None:
    """A chain id, which wallets write as a number or as text; None if it is missing."""
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    try:
        return int(value, 0)
    except (ValueError, TypeError):
        raise BadPayloadError("The approval has a chainId that is no number.") from None
