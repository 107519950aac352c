"""The hash that a wallet signs for a message (EIP-191)."""

from bridge_server.ethereum.keccak import keccak256

_PREFIX = b"\x19Ethereum Signed Message:\n"


def personal_message_hash(message: bytes) -> bytes:
    """The 32 bytes that `personal_sign` signs: the message behind its prefix and length (EIP-191, 0x45)."""
    return keccak256(b"%b%d%b" % (_PREFIX, len(message), message))
