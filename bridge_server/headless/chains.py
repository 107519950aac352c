"""The chains that a dapp asks for: only generation 2.x names them in its proposal."""

import re
from typing import Any

from bridge_server.client import Proposal

_ETHEREUM = "eip155"
_CHAIN = re.compile(rf"{_ETHEREUM}:([0-9]{{1,19}})")
_NAMESPACES = ("requiredNamespaces", "optionalNamespaces")


def asked_chains(proposal: Proposal) -> list[int]:
    """The Ethereum chains of a proposal, required ones first, each once."""
    texts = [text for name in _NAMESPACES for text in _chain_texts(proposal.content.get(name))]
    numbers = (chain_number(text) for text in texts)
    return list(dict.fromkeys(number for number in numbers if number is not None))


def chosen_chain(own: int, asked: list[int]) -> int:
    """The wallet's own chain, unless the dapp asks for others alone: then the first of them."""
    return own if not asked or own in asked else asked[0]


def chain_number(caip2: object) -> int | None:
    """The number in `eip155:1`; None for anything else."""
    found = _CHAIN.fullmatch(caip2) if isinstance(caip2, str) else None
    return int(found[1]) if found else None


def _chain_texts(namespaces: Any) -> list[Any]:
    if not isinstance(namespaces, dict):
        return []
    texts: list[Any] = []
    for key, scope in namespaces.items():
        chains = scope.get("chains") if isinstance(scope, dict) else None
        texts += [key, *(chains if isinstance(chains, list) else ())]
    return texts
