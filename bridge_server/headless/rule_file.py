"""A file of rules in TOML: the same words as on the command line.

session = "approve"
policy = "reject"

[on]
personal_sign = ["approve*3", "reject"]
"eth_sendTransaction@https://dapp.example" = "hang"
"""

import tomllib
from dataclasses import dataclass
from typing import Any

from bridge_server.headless.actions import POLICIES, Policy, RuleError
from bridge_server.headless.rules import Rule, read_rule

_MEMBERS = ("on", "policy", "session")


@dataclass(frozen=True, slots=True)
class RuleFile:
    """The rules of a file in their order, and its policies if it has them."""

    rules: tuple[Rule, ...]
    session: Policy | None
    policy: Policy | None


def read_rule_file(content: bytes) -> RuleFile:
    """Read the file. Raises RuleError."""
    try:
        document = tomllib.loads(content.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise RuleError(f"it is not TOML: {error}") from error
    unknown = sorted(document.keys() - set(_MEMBERS))
    if unknown:
        raise RuleError(f"it has {', '.join(unknown)}, which is not known: write {', '.join(_MEMBERS)}")
    rules = tuple(map(read_rule, _texts(document.get("on", []))))
    return RuleFile(rules, _policy(document, "session"), _policy(document, "policy"))


def _texts(on: Any) -> list[str]:
    """The texts of rules: a list of them, or a table of methods with one action or several."""
    if isinstance(on, dict):
        actions = {method: each if isinstance(each, list) else [each] for method, each in on.items()}
        return [f"{method}={action}" for method, each in actions.items() for action in each]
    if isinstance(on, list):
        return [str(text) for text in on]
    raise RuleError('on must be a table such as personal_sign = "reject", or a list of rules')


def _policy(document: dict[str, Any], name: str) -> Policy | None:
    wanted = document.get(name)
    for policy in POLICIES:
        if policy == wanted:
            return policy
    if wanted is None:
        return None
    raise RuleError(f"{name} is {wanted!r}: write {', '.join(POLICIES)}")
