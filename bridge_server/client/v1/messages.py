"""The JSON-RPC messages of generation 1.x, as @walletconnect/client 1.8.0 writes them."""

from collections.abc import Iterable
from typing import Any

from bridge_server.client.session.contents import Proposal, write_approval
from bridge_server.client.session.errors import BadPayloadError

_SIGNING = frozenset(
    {
        "eth_sendTransaction",
        "eth_signTransaction",
        "eth_sign",
        "eth_signTypedData",
        "eth_signTypedData_v1",
        "eth_signTypedData_v2",
        "eth_signTypedData_v3",
        "eth_signTypedData_v4",
        "personal_sign",
        "wallet_addEthereumChain",
        "wallet_switchEthereumChain",
        "wallet_getPermissions",
        "wallet_requestPermissions",
        "wallet_registerOnboarding",
        "wallet_watchAsset",
        "wallet_scanQRCode",
    }
)

ENDED = {"approved": False, "chainId": None, "networkId": None, "accounts": None}
"""The parameter of the `wc_sessionUpdate` that ends a session."""


def is_silent(method: str) -> bool:
    """Whether a call triggers no webhook: true for methods that need no confirmation by the user."""
    return method not in _SIGNING


def peer(peer_id: str, name: str, url: str) -> dict[str, Any]:
    """The topic and the metadata of one side."""
    meta = {"name": name, "description": "", "url": url, "icons": []}
    return {"peerId": peer_id, "peerMeta": meta}


def status(accounts: Iterable[str], chain_id: int) -> dict[str, Any]:
    """The wallet's accounts and chain. Raises TypeError if `accounts` is not a list of strings."""
    return {**write_approval(accounts, chain_id), "networkId": 0, "rpcUrl": ""}


def read_proposal(content: dict[str, Any]) -> tuple[Proposal, str]:
    """Read a `wc_sessionRequest`; returns the proposal and the dapp's topic. Raises BadPayloadError."""
    asked = first_parameter(content)
    peer_id, meta = asked.get("peerId"), asked.get("peerMeta")
    if not isinstance(peer_id, str) or not peer_id:
        raise BadPayloadError("The session request has no peerId.")
    known = meta if isinstance(meta, dict) else {}
    return Proposal(str(known.get("name") or ""), str(known.get("url") or ""), asked), peer_id


def first_parameter(content: dict[str, Any]) -> dict[str, Any]:
    """The object in `params`. Raises BadPayloadError."""
    match content.get("params"):
        case [dict(parameter), *_]:
            return parameter
        case _:
            raise BadPayloadError("The message has no object in params.")
