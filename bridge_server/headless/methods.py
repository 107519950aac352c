"""The methods that the wallet knows, by what they do."""

from collections.abc import Iterable
from typing import Any

from bridge_server.kernel.near_words import near_words
from bridge_server.wallet.node.reading_methods import READING_METHODS

MESSAGES = ("personal_sign", "eth_sign")
TYPED_DATA = ("eth_signTypedData", "eth_signTypedData_v3", "eth_signTypedData_v4")
TRANSACTIONS = ("eth_sendTransaction", "eth_signTransaction")
AUTHENTICATE = "wc_sessionAuthenticate"
"""The sign-in that a dapp of generation 2.x asks for with its session: a call of its own to the rules."""
RAW_TRANSACTIONS = ("eth_sendRawTransaction",)
SIGNING = frozenset((*MESSAGES, *TYPED_DATA, *TRANSACTIONS))
"""The methods that need a key, and so a session with the account."""

CONNECTING = frozenset(("eth_requestAccounts", "wallet_requestPermissions"))
CHANGING_CHAIN = frozenset(("wallet_switchEthereumChain", "wallet_addEthereumChain"))
STATE = frozenset(
    (
        "eth_accounts",
        "eth_chainId",
        "net_version",
        "web3_clientVersion",
        "wallet_getPermissions",
        "wallet_revokePermissions",
    )
)
"""The methods by which a dapp learns what it may know already."""

QUIET = STATE | CONNECTING | READING_METHODS
"""The methods that need nobody's consent: only a rule, and never the policy, stands against them."""

KNOWN = QUIET | SIGNING | CHANGING_CHAIN | frozenset((*RAW_TRANSACTIONS, AUTHENTICATE))

_ACCOUNT_PLACES = {"personal_sign": 1, "eth_sign": 0, **dict.fromkeys(TYPED_DATA, 0)}
_SUBJECT_PLACES = {"personal_sign": 0, "eth_sign": 1, **dict.fromkeys(TYPED_DATA, 1)}


class UnknownMethodError(ValueError):
    """No wallet has a method of this name; the message may have a similar one."""


def require_known(method: str, others: Iterable[str] = ()) -> None:
    """Raise UnknownMethodError for a method that neither the wallet nor a rule names."""
    known = KNOWN | set(others)
    if method in known:
        return
    near = near_words(method, known, 2)
    hint = f"did you mean {' or '.join(near)}?" if near else "name one such as personal_sign"
    raise UnknownMethodError(f"{method!r} is no method that the wallet knows: {hint}")


def signed_subject(method: str, params: Any) -> Any:
    """The parameter that holds the data to sign. Raises LookupError, TypeError."""
    return params[_SUBJECT_PLACES.get(method, 0)]


def signing_account(method: str, params: Any) -> object:
    """The parameter that names the account to sign with. Raises LookupError, TypeError."""
    if method in TRANSACTIONS:
        return params[0]["from"]
    return params[_ACCOUNT_PLACES[method]]
