"""Private keys without a key file: of the settings, and of development accounts."""

import re

from bridge_server.ethereum.derivation import ACCOUNTS_PATH, master_key
from bridge_server.ethereum.mnemonic import mnemonic_seed
from bridge_server.ethereum.signing_key import SigningKey, SigningKeyError

_HEXADECIMAL = re.compile(r"(?:0[xX])?([0-9a-fA-F]{64})")
_COMMENT = re.compile(r"#.*")


class PrivateKeyError(ValueError):
    """The text is not a valid private key; the message names the fault and does not repeat the key."""


def read_private_key(text: str) -> bytes:
    """The 32 bytes of a key that is spelled in 64 hexadecimal digits, with `0x` or without.

    Raises PrivateKeyError.
    """
    spelled = _HEXADECIMAL.fullmatch(text.strip())
    if spelled is None:
        raise PrivateKeyError("a private key has 64 hexadecimal digits, with 0x in front or without")
    secret = bytes.fromhex(spelled[1])
    try:
        SigningKey(secret)
    except SigningKeyError as error:
        raise PrivateKeyError(str(error)) from error
    return secret


def read_private_keys(text: str) -> list[SigningKey]:
    """The keys in a text, with commas, spaces or lines between them; `#` begins a comment.

    Raises PrivateKeyError.
    """
    words = _COMMENT.sub("", text).replace(",", " ").split()
    keys = []
    for place, word in enumerate(words, start=1):
        try:
            keys.append(SigningKey(read_private_key(word)))
        except PrivateKeyError as error:
            raise PrivateKeyError(f"key {place} of {len(words)}: {error}") from error
    return keys


def development_keys(mnemonic: str, count: int) -> list[SigningKey]:
    """The first `count` keys of a mnemonic, where other wallets look for them. Raises MnemonicError."""
    return [SigningKey(secret) for secret in development_secrets(mnemonic, count)]


def development_secrets(mnemonic: str, count: int) -> list[bytes]:
    """The first `count` keys of a mnemonic as 32 bytes each. Raises MnemonicError."""
    parent = master_key(mnemonic_seed(mnemonic)).descendant(ACCOUNTS_PATH)
    return [parent.child(index).secret for index in range(count)]
