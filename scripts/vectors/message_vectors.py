"""Messages: empty, binary, in many scripts, long, and around the lengths at which something changes."""

from collections.abc import Iterator
from random import Random
from typing import Any

from eth_account import Account  # type: ignore[import-not-found]
from eth_account.messages import encode_defunct  # type: ignore[import-not-found]
from keys import DEVELOPMENT_KEY, any_key

TEXTS = (
    "",
    "Hello, world!",
    "Some data",
    "I♥SF",
    "0x",
    "0x68656c6c6f",
    "line\nbreak",
    "carriage\r\nreturn",
    "null\0byte",
    "\x19Ethereum Signed Message:\n5hello",
    "Grüße aus Zürich",
    "日本語のメッセージ",
    "Привет, мир",
    "مرحبا بالعالم",
    "שלום עולם",
    "नमस्ते दुनिया",
    "👩‍👩‍👧‍👦 and 🏳️‍🌈",
    "e\u0301 is not é",
    "\u202eright to left\u202c",
    "\ufeffmark",
    '{"a": [1, 2, 3], "b": null}',
    "example.org wants you to sign in with your Ethereum account:",
    " ",
    "\x00",
)
LENGTHS = (1, 2, 9, 10, 31, 32, 33, 64, 65, 99, 100, 101, 107, 108, 109, 135, 136, 137, 255, 256, 999, 1000)
BINARY = (b"\x00" * 32, b"\xff" * 32, b"\x80", b"\xc0", b"\xff\xfe", b"\x00\x01\x02", bytes(range(256)))
LONG = (2_500, 10_000)
RANDOM = 10


def message_vectors() -> Iterator[dict[str, Any]]:
    """Every message signed with some key."""
    chance = Random("messages")
    messages = [text.encode() for text in TEXTS]
    messages += [chance.randbytes(length) for length in LENGTHS]
    messages += BINARY
    messages += [(b"All work and no play. " * length)[:length] for length in LONG]
    messages += [chance.randbytes(chance.randrange(200)) for _ in range(RANDOM)]
    signing = [(message, any_key(chance)) for message in messages]
    for message, key in [*signing, (bytes.fromhex("deadbeef"), DEVELOPMENT_KEY)]:
        signed = Account.sign_message(encode_defunct(primitive=message), key)
        yield {
            "key": key,
            "message": f"0x{message.hex()}",
            "digest": f"0x{signed.message_hash.hex()}",
            "signature": f"0x{signed.signature.hex()}",
        }
