"""Methods of nodes that the wallet never forwards, because they sign, send or handle keys.

The node would do that with accounts of its own, past approval, audit log and durable sending. Other chains
have such methods in other namespaces than eth, and old nodes (geth, parity) had them under other verbs.
"""

import re

_NAMESPACES = "personal|account|wallet|signer|clef|secretstore|shh|quorumPermission|quorumExtension"
"""Every method handles keys, or sends transactions that the node signs."""

_VERBS = (
    r"send|sign|resend|submit\w*transaction|post(?:sign|transaction)|distribute"
    r"|decrypt|encryptMessage|getEncryptionPublicKey"
)
"""The name begins with one of these in any namespace. Proofs of work (eth_submitWork) are no transactions."""

_PARITYS_KEY_STORE = (
    r"compose|(?:new|kill|remove|export|import|change|test|set|derive|open|close|generate)"
    r"\w*(?:account|address|vault|password|secret|phrase|signer)"
)

_REFUSED = re.compile(
    rf"\s*(?:(?:{_NAMESPACES})_|\w*_(?:{_VERBS})|parity_(?:{_PARITYS_KEY_STORE}))", re.IGNORECASE
)


def is_refused(method: str) -> bool:
    """Whether the node must not be asked for the method."""
    return _REFUSED.match(method) is not None
