"""End-to-end encryption of Web Push messages, which the push service cannot read.

Source: RFC 8291 (message encryption for Web Push) over RFC 8188 (the content coding `aes128gcm`). Every
message is one record and has a new key pair.
"""

import hmac
import struct

from Crypto.Cipher import AES
from Crypto.Protocol.DH import key_agreement
from Crypto.PublicKey.ECC import EccKey

from bridge_server.push.keys import raw_public_key
from bridge_server.push.webpush.payload import LARGEST_PLAINTEXT_BYTES

SALT_BYTES = 16

_RECORD_BYTES = 4_096
_HEADER = struct.Struct("!16sIB65s")  # salt, record size, length of the key id, key id (RFC 8188, 2.1)
_LAST_RECORD = b"\x02"


def encrypt(
    plaintext: bytes,
    receiver_key: EccKey,
    auth_secret: bytes,
    *,
    sender_key: EccKey,
    salt: bytes,
    padding_bytes: int = 0,
) -> bytes:
    """The body of a push message with `Content-Encoding: aes128gcm`.

    `receiver_key` and `auth_secret` are the subscription's. `sender_key` and `salt` are random and
    used for one message only. Raises ValueError when the plaintext and its padding are too long.
    """
    if len(plaintext) + padding_bytes > LARGEST_PLAINTEXT_BYTES:
        raise ValueError(f"a push message holds at most {LARGEST_PLAINTEXT_BYTES} bytes")
    sender_point = raw_public_key(sender_key)
    shared = key_agreement(eph_priv=sender_key, static_pub=receiver_key, kdf=bytes)
    both = raw_public_key(receiver_key) + sender_point
    secret = _derive(auth_secret, shared, b"WebPush: info\0" + both, 32)  # RFC 8291, section 3.3
    key = _derive(salt, secret, b"Content-Encoding: aes128gcm\0", 16)  # RFC 8188, section 2.2
    nonce = _derive(salt, secret, b"Content-Encoding: nonce\0", 12)  # section 2.3, for the first record
    record = plaintext + _LAST_RECORD + bytes(padding_bytes)
    ciphertext, tag = AES.new(key, AES.MODE_GCM, nonce=nonce).encrypt_and_digest(record)
    header = _HEADER.pack(salt, _RECORD_BYTES, len(sender_point), sender_point)
    return header + ciphertext + tag


def _derive(salt: bytes, secret: bytes, info: bytes, size: int) -> bytes:
    """HKDF with SHA-256 for at most 32 bytes, which are one block (RFC 5869)."""
    extracted = hmac.digest(salt, secret, "sha256")
    return hmac.digest(extracted, info + b"\x01", "sha256")[:size]
