"""What the sealed payloads say: approvals, call requests, call statuses.

As the published clients of generation 0.7 have it (walletconnect and rn-walletconnect-wallet 0.7.28):
`{approved, accounts, chainId}`, a JSON-RPC request, `{approved, result}`. Statuses carry JSON-RPC's `id`,
`jsonrpc` and `error` beside that, for who reads them as a JSON-RPC response (docs/protocol.md, D).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bridge_server.client.errors import BadPayloadError, CallFailedError, RejectedError

USER_REJECTED = 4001
"""The user's no (EIP-1193)."""


@dataclass(frozen=True, slots=True)
class Approval:
    """The wallet's yes to a session. `content` is all that it said, for what is not named here."""

    accounts: tuple[str, ...]
    chain_id: int | None
    content: Mapping[str, Any] = field(repr=False, compare=False)

    @property
    def namespaces(self) -> Mapping[str, Any]:
        """The namespaces that a wallet of generation 2.x approved (CAIP-25); empty in other generations."""
        namespaces: Mapping[str, Any] = self.content.get("namespaces", {})
        return namespaces


@dataclass(frozen=True, slots=True)
class Proposal:
    """The session that a dapp asks for."""

    name: str
    url: str
    """The dapp's page, as the dapp says; empty when it says none."""
    content: Mapping[str, Any] = field(repr=False, compare=False)
    """The parameters of `wc_sessionRequest` (1.x) or `wc_sessionPropose` (2.x)."""


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a session of generation 2.x, such as `chainChanged`."""

    name: str
    data: Any
    chain: str
    """The chain that it is about, as CAIP-2 spells it: `eip155:1`."""


@dataclass(frozen=True, slots=True)
class Call:
    """What a dapp asks of its wallet."""

    call_id: str
    method: str
    params: Any
    request_id: str | int | None
    """JSON-RPC's id, which the dapp chose."""
    chain: str | None = None
    """The chain that a call of generation 2.x is for, as CAIP-2 spells it: `eip155:1`."""


@dataclass(frozen=True, slots=True)
class Push:
    """Where the wallet wants to be told of new calls (docs/protocol.md)."""

    type: str
    token: str
    webhook: str


def write_approval(accounts: Iterable[str], chain_id: int) -> dict[str, Any]:
    """The wallet's yes. Raises TypeError for what are no accounts."""
    texts = list(accounts)
    if isinstance(accounts, str) or not all(isinstance(account, str) for account in texts):
        raise TypeError("accounts are a list of addresses, each of them a string")
    return {"accounts": texts, "chainId": chain_id, "approved": True}


def write_rejection() -> dict[str, Any]:
    """The wallet's no, to a session."""
    return {"approved": False}


def read_approval(content: Any) -> Approval:
    """The wallet's word on the session. Raises RejectedError, BadPayloadError."""
    said = _object(content)
    if said.get("approved") is not True:
        raise RejectedError("The wallet does not approve the session.")
    accounts = said.get("accounts")
    if not isinstance(accounts, list) or not all(isinstance(account, str) for account in accounts):
        raise BadPayloadError("The approval has no list of accounts.")
    return Approval(tuple(accounts), _chain_id(said.get("chainId")), said)


def write_request(request_id: int, method: str, params: Any) -> dict[str, Any]:
    """A call as JSON-RPC has it."""
    return {"jsonrpc": "2.0", "params": params, "method": method, "id": request_id}


def read_request(call_id: str, content: Any) -> Call:
    """The dapp's call. Raises BadPayloadError."""
    said = _object(content)
    method, request_id = said.get("method"), said.get("id")
    if not isinstance(method, str) or not isinstance(request_id, str | int | None):
        raise BadPayloadError("The call is not a JSON-RPC request.")
    return Call(call_id, method, said.get("params", []), request_id)


def write_result(call: Call, result: Any) -> dict[str, Any]:
    """The wallet's answer to a call."""
    return {"id": call.request_id, "jsonrpc": "2.0", "result": result, "approved": True}


def write_error(request_id: str | int | None, code: int, message: str) -> dict[str, Any]:
    """The wallet's no, to a call."""
    error = {"code": code, "message": message}
    return {"id": request_id, "jsonrpc": "2.0", "error": error, "approved": False}


def read_result(content: Any) -> Any:
    """What the call came to. Raises CallFailedError, BadPayloadError."""
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
    """A chain id as wallets write it: a number, or the text of one; None when there is none."""
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    try:
        return int(value, 0)
    except (ValueError, TypeError):
        raise BadPayloadError("The approval has a chainId that is no number.") from None
