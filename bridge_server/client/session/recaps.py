"""ReCaps (EIP-5573): the last resource of a sign-in message, which names the methods that the dapp may call.

    urn:recap:{Base64 without padding of {"att": {"eip155": {"request/personal_sign": [{"chains": [...]}]}}}}

The message repeats them in its statement. Source: `cacao.ts` of the published @walletconnect/utils 2.25.
"""

import base64
import binascii
from collections.abc import Iterable, Sequence
from typing import Any

import orjson

from bridge_server.client.session.errors import BadPayloadError

_PREFIX = "urn:recap:"
_ETHEREUM = "eip155"
_ABILITY = "request"
_AUTHORIZATION = "I further authorize the stated URI to perform the following actions on my behalf: "

Recap = dict[str, dict[str, list[Any]]]
"""The actions of each resource, such as `request/personal_sign`, each with its limits."""


def requested(resources: Iterable[str], methods: Iterable[str], chains: Sequence[str] = ()) -> list[str]:
    """The resources, with a recap at their end for the methods, if there are any."""
    limits = {"chains": list(chains)} if chains else {}
    actions = {f"{_ABILITY}/{method}": [limits] for method in sorted(set(methods), key=_order)}
    return [*resources, _encoded({_ETHEREUM: actions})] if actions else list(resources)


def granted(resources: Sequence[str], chains: Sequence[str]) -> list[str]:
    """The resources as a wallet signs them: every method of Ethereum that was asked for, on these chains.

    Raises BadPayloadError.
    """
    recap = read_recap(resources)
    if recap is None or _ETHEREUM not in recap:
        return list(resources)
    recap[_ETHEREUM] = {action: [{"chains": list(chains)}] for action in recap[_ETHEREUM]}
    return [*resources[:-1], _encoded(recap)]


def read_recap(resources: Sequence[str]) -> Recap | None:
    """The recap among the resources of a message; None if there is none. Raises BadPayloadError."""
    if not resources or not resources[-1].startswith(_PREFIX):
        return None
    text = resources[-1].removeprefix(_PREFIX).rstrip("=")
    try:
        recap = orjson.loads(base64.b64decode(text + "=" * (-len(text) % 4), validate=True))
    except (binascii.Error, ValueError):
        raise BadPayloadError("The recap must be Base64 of JSON (EIP-5573).") from None
    attenuations = recap.get("att") if isinstance(recap, dict) else None
    if not isinstance(attenuations, dict) or not all(map(_is_sound, attenuations.values())):
        raise BadPayloadError("The recap must have actions with limits for each resource (EIP-5573).")
    return attenuations


def methods_of(recap: Recap) -> list[str]:
    """The methods of Ethereum that a recap allows."""
    return [action.partition("/")[2] for action in recap.get(_ETHEREUM, {})]


def chains_of(recap: Recap) -> list[str]:
    """The chains of a recap, each once."""
    limits = [each[0] for actions in recap.values() for each in actions.values()]
    found = [limit.get("chains") for limit in limits if isinstance(limit, dict)]
    return list(dict.fromkeys(str(chain) for chains in found if isinstance(chains, list) for chain in chains))


def stated(statement: str, recap: Recap) -> str:
    """The statement with the recap in words, which a message must have."""
    if _AUTHORIZATION in statement:
        return statement
    number, sentences = 0, []
    for resource, actions in recap.items():
        clauses = []
        for ability, names in _by_ability(actions).items():
            number += 1
            listed = "', '".join(names)
            clauses.append(f"({number}) '{ability}': '{listed}' for '{resource}'.")
        sentences.append(", ".join(clauses).replace(".,", ".", 1))
    return f"{statement} {_AUTHORIZATION}{' '.join(sentences)}".lstrip()


def _by_ability(actions: Iterable[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for action in sorted(actions, key=lambda action: _order(action.partition("/")[2])):
        ability, _, name = action.partition("/")
        found.setdefault(ability, []).append(name.partition("/")[0])
    return found


def _order(name: str) -> tuple[str, str]:
    """The order of JavaScript's `localeCompare` for names of methods."""
    return name.lower().replace("_", " "), name.swapcase()


def _is_sound(actions: Any) -> bool:
    return (
        isinstance(actions, dict)
        and bool(actions)
        and all(isinstance(limits, list) and limits for limits in actions.values())
    )


def _encoded(recap: Recap) -> str:
    text = base64.b64encode(orjson.dumps({"att": dict(sorted(recap.items()))})).decode()
    return _PREFIX + text.rstrip("=")
