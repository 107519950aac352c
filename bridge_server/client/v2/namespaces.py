"""Chains, accounts and namespaces: CAIP-2, CAIP-10, CAIP-25."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from bridge_server.client.session.contents import Approval
from bridge_server.client.session.errors import BadPayloadError

_NAMESPACE = "[-a-z0-9]{3,8}"
_CHAIN = re.compile(rf"{_NAMESPACE}:[-_a-zA-Z0-9]{{1,32}}")
_KEY = re.compile(rf"{_NAMESPACE}(?::[-_a-zA-Z0-9]{{1,32}})?")
_ACCOUNT = re.compile(rf"({_NAMESPACE}:[-_a-zA-Z0-9]{{1,32}}):([-.%a-zA-Z0-9]{{1,128}})")
_ETHEREUM = "eip155"

ETHEREUM: Mapping[str, Any] = {
    _ETHEREUM: {
        "chains": ["eip155:1"],
        "methods": [
            "eth_sendTransaction",
            "eth_signTransaction",
            "eth_sign",
            "personal_sign",
            "eth_signTypedData",
            "eth_signTypedData_v4",
        ],
        "events": ["chainChanged", "accountsChanged"],
    }
}
"""The default namespaces of a dapp."""


def sound_proposal(namespaces: Mapping[str, Any]) -> dict[str, Any]:
    """Check the namespaces of a proposal. Raises ValueError with the reason."""
    if not namespaces:
        raise ValueError("namespaces must have an entry, such as eip155 (CAIP-25)")
    for key, scope in namespaces.items():
        _require_scope(key, scope)
        chains = _texts(scope, "chains") if "chains" in scope else [key]
        if not chains or not all(map(_CHAIN.fullmatch, chains)):
            raise ValueError(f"chains of {key} must be CAIP-2 ids such as eip155:1")
    return dict(namespaces)


def first_chain(namespaces: Mapping[str, Any]) -> str:
    """The first chain of namespaces. Raises BadPayloadError if there is none."""
    for key, scope in namespaces.items():
        for account in scope.get("accounts", ()):
            return str(account).rpartition(":")[0]
        for chain in scope.get("chains", ()):
            return str(chain)
        if ":" in key:
            return key
    raise BadPayloadError("The namespaces name no chain.")


def approved(proposal: Mapping[str, Any], accounts: Iterable[str], chain_id: int) -> dict[str, Any]:
    """The namespaces of an approval, for the parameters of a `wc_sessionPropose`.

    An account is an address, on the chain `chain_id` and on every Ethereum chain that the dapp requires, or a
    CAIP-10 id. Methods and events come from the proposal. Raises TypeError if `accounts` is no such list.
    """
    texts = list(accounts)
    if isinstance(accounts, str) or not all(isinstance(account, str) for account in texts):
        raise TypeError("accounts are a list of addresses, each of them a string")
    required = _merged(proposal.get("requiredNamespaces"))
    asked = _merged(proposal.get("requiredNamespaces"), proposal.get("optionalNamespaces"))
    chains = dict.fromkeys([f"{_ETHEREUM}:{chain_id}", *required.get(_ETHEREUM, {}).get("chains", ())])
    ids = [account for account in texts if _ACCOUNT.fullmatch(account)]
    ids += [f"{chain}:{account}" for chain in chains for account in texts if account not in ids]
    return {
        namespace: {
            "chains": _chains_of(ids, namespace),
            "accounts": [account for account in ids if account.startswith(f"{namespace}:")],
            "methods": list(asked.get(namespace, {}).get("methods", ())),
            "events": list(asked.get(namespace, {}).get("events", ())),
        }
        for namespace in dict.fromkeys(account.partition(":")[0] for account in ids)
    }


def read_approval(content: Mapping[str, Any]) -> Approval:
    """Read the parameters of a `wc_sessionSettle` or `wc_sessionUpdate`. Raises BadPayloadError.

    The approval's `accounts` are the addresses, each once; its `chain_id` is the first Ethereum chain's.
    """
    namespaces = content.get("namespaces")
    if not isinstance(namespaces, dict) or not namespaces:
        raise BadPayloadError("The approval has no namespaces.")
    matches = []
    try:
        for key, scope in namespaces.items():
            _require_scope(key, scope)
            matches += [_account(account) for account in _texts(scope, "accounts")]
    except ValueError as error:
        raise BadPayloadError(f"The approval cannot be read: {error}.") from error
    references = [chain.partition(":")[2] for chain, _ in matches if chain.startswith(f"{_ETHEREUM}:")]
    chain_id = int(references[0]) if references and references[0].isdecimal() else None
    return Approval(tuple(dict.fromkeys(address for _, address in matches)), chain_id, content)


def allows_call(namespaces: Mapping[str, Any], chain: str, method: str) -> bool:
    """Whether approved namespaces have the method on the chain."""
    return any(
        method in scope.get("methods", ())
        and any(account.rpartition(":")[0] == chain for account in scope.get("accounts", ()))
        for scope in namespaces.values()
    )


def _merged(*parts: Any) -> dict[str, dict[str, list[str]]]:
    """Merge namespaces: the key `eip155:1` means `eip155` with that chain. Invalid parts are ignored."""
    merged: dict[str, dict[str, list[str]]] = {}
    for key, scope in (
        (key, scope) for part in parts if isinstance(part, dict) for key, scope in part.items()
    ):
        if not isinstance(scope, dict):
            continue
        own = merged.setdefault(key.partition(":")[0], {"chains": [], "methods": [], "events": []})
        for name, known in own.items():
            given = [key] if name == "chains" and ":" in key else scope.get(name)
            for text in given if isinstance(given, list) else ():
                if isinstance(text, str) and text not in known:
                    known.append(text)
    return merged


def _chains_of(accounts: list[str], namespace: str) -> list[str]:
    chains = (account.rpartition(":")[0] for account in accounts if account.startswith(f"{namespace}:"))
    return list(dict.fromkeys(chains))


def _require_scope(key: Any, scope: Any) -> None:
    if not isinstance(key, str) or not _KEY.fullmatch(key):
        raise ValueError(f"{key!r} must be a CAIP-2 namespace such as eip155, or a chain such as eip155:1")
    if not isinstance(scope, Mapping):
        raise ValueError(f"{key} must be an object with methods and events")
    _texts(scope, "methods")
    _texts(scope, "events")


def _texts(scope: Mapping[str, Any], name: str) -> list[str]:
    texts = scope.get(name)
    if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
        raise ValueError(f"{name} must be a list of strings")
    return list(texts)


def _account(text: str) -> tuple[str, str]:
    found = _ACCOUNT.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} must be a CAIP-10 account such as eip155:1:0x...")
    return found[1], found[2]
